# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options that VMs and containers have in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  name:
    description:
      - The instance's name. LXD takes 1 to 63 letters, digits and hyphens, beginning with a letter.
      - For a VM it must also leave the paths of QEMU's sockets short enough, which is checked first.
    type: str
    required: true
  state:
    description:
      - V(present) makes the instance, stopped, or brings its configuration up to date; whether it runs stays as it is.
      - V(started) is V(present), and it runs.
      - V(stopped) is V(present), and it does not run, and its GPUs are back with the host.
      - V(restarted) stops it, applies what differs, and starts it. This reports a change each time.
      - V(absent) stops and deletes it, and its GPUs are back with the host.
    type: str
    choices: [present, started, stopped, restarted, absent]
    default: started
  image:
    description:
      - The image of a new instance. An instance that exists keeps its image, and then this is not needed.
      - "As a string: an alias or a fingerprint in LXD's image store (C(debian13)); C(remote:alias) with one of the
        remotes C(images), C(ubuntu), C(ubuntu-daily), C(ubuntu-minimal), C(ubuntu-minimal-daily); an absolute path on
        the host (C(/srv/vm.qcow2)); or a URL with its checksum (C(https://example.org/vm.qcow2#sha256:...))."
      - "As a dictionary: exactly one of C(alias), C(fingerprint), C(file) and C(url). C(server) with C(protocol)
        (V(simplestreams), the default, or V(lxd)) makes alias or fingerprint one of that server. C(checksum) (C(sha256:)
        and 64 hexadecimal digits) is required for C(url). C(metadata) (path or URL) and C(metadata_checksum) name the
        metadata tarball of a split image."
      - A file or URL is a unified image tarball, or a disk or root file system. A qcow2 disk without metadata gets some.
      - Files and URLs are imported into LXD's image store once, and found there by their checksums afterwards.
    type: raw
  ram_mb:
    description:
      - Memory in MiB, LXD's C(limits.memory). Unset changes nothing; a new VM then has LXD's default.
    type: int
  cpus:
    description:
      - A count (V(4)), or a set of host CPUs to pin to (V(0-3) or V(0-3,8); one alone is V(2-2)). LXD's C(limits.cpu).
      - Unset changes nothing; a new VM then has LXD's default.
    type: str
  profiles:
    description:
      - The instance's profiles, in their order. Unset changes nothing; a new instance then has the profile V(default).
    type: list
    elements: str
  config:
    description:
      - Further keys of LXD's instance configuration. A key with the value V(null) is removed; keys not named stay.
      - A key that one of the other options sets as well is an error.
    type: dict
  devices:
    description:
      - Further LXD devices by name, each a dictionary with C(type) and its options. V(null) removes a device; devices not
        named stay. For GPUs use O(gpus).
    type: dict
  cloud_init:
    description:
      - Documents for cloud-init in the guest. They count at the guest's first start only.
    type: dict
    suboptions:
      user_data:
        description: User data, as text.
        type: str
      vendor_data:
        description: Vendor data, as text.
        type: str
      network_config:
        description: Network configuration, as text.
        type: str
  wait:
    description:
      - With O(state=started) and O(state=restarted), return when commands can be run in the instance.
      - It ends early, with a reason, when the instance stops by itself, its kernel panics, or it is deleted.
    type: bool
    default: true
  wait_for:
    description:
      - V(command) waits until a command can be run. For a VM this means that its LXD agent answers.
      - V(system) also waits until systemd in the guest has finished its start. A guest without systemd is ready at once.
    type: str
    choices: [command, system]
    default: command
  allow_degraded:
    description:
      - With O(wait_for=system), whether a system with failed units is good enough. They are returned in any case.
    type: bool
    default: true
  timeout_s:
    description:
      - Seconds for the whole call with image, start and wait. VMs with large BARs need minutes on older releases of QEMU.
    type: int
    default: 600
  stop_timeout_s:
    description:
      - Seconds that a clean shutdown may take.
    type: int
    default: 60
  release_timeout_s:
    description:
      - Seconds for GPUs to become free before a start, and to get back to their former drivers after a stop.
      - At its end the call fails and names the processes that still hold them.
    type: int
    default: 60
  allow_restart:
    description:
      - Whether a running instance may be stopped and started for changes that need it.
      - Otherwise these changes are left out, and RV(restart_required) and RV(pending) tell of them.
    type: bool
    default: false
  force:
    description:
      - Switch a running instance off instead of shutting it down. O(state=absent) always does.
    type: bool
    default: false
  force_foreign:
    description:
      - Let O(state=absent) delete an instance that this collection did not make.
      - Instances that it made carry the key C(user.gpulab.fleet).
    type: bool
    default: false
"""
