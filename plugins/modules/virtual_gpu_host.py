#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_gpu_host
short_description: Make a machine with GPUs out of a description
version_added: 0.1.0
description:
  - Starts, stops and removes virtual GPU hosts. Such a host is a QEMU machine with an emulated IOMMU, the PCIe roots, NUMA nodes and PCI devices
    of a machine description, and a Linux system with LXD in it. Its GPUs have the ids, classes and BARs of real ones, so they can be passed through
    to VMs, but they compute nothing.
  - The devices are played by a program of this collection over the vfio-user protocol, by programs of your own that speak it, or by QEMU itself.
  - Run it on the controller, with C(delegate_to=localhost). The hosts outlive the play; a state file tells the next run, and the lookup
    P(gpulab.fleet.virtual_host#lookup), how to reach them.
  - A host that crashed, or was left half-started, is noticed, reported and cleaned up. It starts again from its image, as its disk has no journal.
  - A host that runs with other settings than asked for is shut down and started again.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group
attributes:
  check_mode:
    support: full
    details:
      - Nothing is built in check mode. As long as parts have to be built, differences of settings are not told.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - With O(state=restarted) the host is started anew each time.
options:
  name:
    description:
      - The host's name.
      - Required unless O(all=true).
    type: str
  all:
    description:
      - Act on every virtual host of this user on this computer, also on those that no inventory names any more.
      - Goes with O(state=stopped) and O(state=absent) only.
    type: bool
    default: false
  state:
    description:
      - V(started) makes sure that the host runs as described and that its ssh server lets us in.
      - V(present) builds what V(started) would need and starts nothing.
      - V(stopped) shuts the host down and keeps its disk.
      - V(restarted) shuts it down if it runs, and starts it.
      - V(absent) ends it at once and removes its disk, logs and state. The caches stay.
    type: str
    choices: [present, started, stopped, restarted, absent]
    default: started
  machine:
    description:
      - The machine that the host shall be, as the name of a preset, the path of a YAML or JSON file, or a mapping.
      - Required unless O(state=stopped) or O(state=absent).
    type: raw
  cpus:
    description: Number of processors. Unset, it is the machine's, but no more than this computer has.
    type: int
  memory_mb:
    description: Memory in MiB. Unset, it is the machine's, but no more than three quarters of what this computer has.
    type: int
  accel:
    description:
      - V(auto) takes KVM where a short test shows that it runs and nested virtualisation is on, and plain emulation elsewhere.
    type: str
    choices: [auto, kvm, tcg]
    default: auto
  sources:
    description:
      - Folder with the build scripts, which the role P(gpulab.fleet.virtual_gpu_host#role) brings.
      - Required for what has to be built.
    type: path
  build_parameters:
    description: Environment variables for the build scripts, such as C(GPULAB_SUITE). Different values make different builds.
    type: dict
    default: {}
  guest_images:
    description: Whether to build the small VM and container images as well, which LXD runs on the host.
    type: bool
    default: false
  image:
    description: A system of your own in place of the built one. Its root file system is the whole disk, and systemd must be its first program.
    type: dict
    suboptions:
      disk:
        description: A raw disk image. It is not written to.
        type: path
        required: true
      kernel:
        description: The kernel.
        type: path
        required: true
      initrd:
        description: The initial ramdisk, which has to find the disk as C(/dev/vda).
        type: path
        required: true
  qemu_command:
    description:
      - The QEMU to use, as a program and arguments that come before all others. It must have the device C(vfio-user-pci).
      - Unset, it is this computer's own if that is 10.1 or later, else one that is built with O(sources).
    type: list
    elements: str
  ssh_key:
    description:
      - A private ssh key whose public part is beside it in a C(.pub) file.
      - Unset, a key is generated once and kept in the cache.
    type: path
  kernel_arguments:
    description: Further arguments for the host's kernel.
    type: str
    default: ''
  qemu_arguments:
    description: Further arguments for QEMU.
    type: list
    elements: str
    default: []
  nested_guard:
    description:
      - Whether an emulated host gets the guard against an abort of QEMU in nested virtual machines. It needs gcc and binutils on this computer, tests
        the QEMU that it meets, and is not used where the fault is not.
    type: bool
    default: true
  wait_for:
    description:
      - What to wait for after a start. V(login) is a login with the key, V(banner) is the greeting of the ssh server.
    type: str
    choices: [login, banner]
    default: login
  timeout_s:
    description: Seconds that a start may take, without the builds.
    type: int
    default: 600
  build_timeout_s:
    description: Seconds that all builds together may take.
    type: int
    default: 3600
  shutdown_timeout_s:
    description: Seconds that a host gets to shut down by itself. Then it is switched off, and its disk is thrown away.
    type: int
    default: 60
  state_dir:
    description: Where state and logs are. Unset, it is C($XDG_STATE_HOME/gpulab-fleet), or C(~/.local/state/gpulab-fleet).
    type: path
  cache_dir:
    description: Where builds and the ssh key are. Unset, it is C($XDG_CACHE_HOME/gpulab-fleet), or C(~/.cache/gpulab-fleet).
    type: path
  progress_path:
    description:
      - File to which lines of progress are appended. Unset, it is one in C(progress) below the state folder, where the
        callback P(gpulab.fleet.progress#callback) looks for them.
    type: path
seealso:
  - plugin: gpulab.fleet.virtual_host
    plugin_type: lookup
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Start a machine with two H100
  gpulab.fleet.virtual_gpu_host:
    name: vgpu-h100
    machine: lab-h100-pair
    sources: "{{ role_path }}/files"
  delegate_to: localhost

- name: The same with one board of another kind
  gpulab.fleet.virtual_gpu_host:
    name: vgpu-h100
    machine:
      from: lab-h100-pair
      roots:
        pci0000:80:
          devices:
            gpu1:
              board: nvidia-a100-pcie-80gb
    sources: "{{ role_path }}/files"
  delegate_to: localhost

- name: End everything
  gpulab.fleet.virtual_gpu_host:
    all: true
    state: absent
  delegate_to: localhost
"""

RETURN = r"""
hosts:
  description: The hosts that were acted on.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The host's name.
      type: str
      returned: always
    status:
      description: What it is now (or would be, in check mode), as C(running), C(stopped), C(crashed), C(stale) or C(absent).
      type: str
      returned: always
    found:
      description: What it was, with the reason and the last lines of logs if it had crashed.
      type: dict
      returned: always
      sample: {status: crashed, reason: "qemu (pid 4711) is gone.", logs: {qemu: ["..."]}}
    actions:
      description: What was done, in order.
      type: list
      elements: str
      returned: always
      sample: [build host-image, start]
    built:
      description: What was built anew.
      type: list
      elements: str
      returned: always
    seconds:
      description: How long the steps took.
      type: dict
      returned: always
      sample: {device_servers: 0.4, nested_guard: 0.7, boot: 33.1}
    machine:
      description: The machine's name.
      type: str
      returned: when the host has a state
    ssh_port:
      description: The port of its ssh server on 127.0.0.1.
      type: int
      returned: when the host has a state
    ssh_key:
      description: The private key that logs in as root.
      type: str
      returned: when the host has a state
    known_hosts:
      description: The file for the host's own key.
      type: str
      returned: when the host has a state
    addresses:
      description: The address at which the host sees each device.
      type: dict
      returned: when the host has a state
      sample: {gpu0: "0000:41:00.0", gpu1: "0000:81:00.0"}
    moved:
      description: The described address of each device that the host sees elsewhere, because QEMU cannot put it there.
      type: dict
      returned: when the host has a state
    accel:
      description: V(kvm) or V(tcg).
      type: str
      returned: when the host has a state
    accel_reason:
      description: Why.
      type: str
      returned: when the host has a state
    qemu_version:
      description: The version of the QEMU that runs it.
      type: str
      returned: when the host has a state
    cpus:
      description: Number of processors that it was started with.
      type: int
      returned: when the host has a state
    memory_mb:
      description: Memory in MiB that it was started with.
      type: int
      returned: when the host has a state
    guest_images:
      description: Paths of the guest images on this computer, as C(vm_image), C(vm_metadata) and C(container_image).
      type: dict
      returned: when the host has a state
    logs:
      description: The log of each of its programs, and its console.
      type: dict
      returned: when the host has a state
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.options import STARTING_STATES, run, warnings

ARGUMENT_SPEC: dict[str, Any] = {
    "name": {"type": "str"},
    "all": {"type": "bool", "default": False},
    "state": {
        "type": "str",
        "choices": ["present", "started", "stopped", "restarted", "absent"],
        "default": "started",
    },
    "machine": {"type": "raw"},
    "cpus": {"type": "int"},
    "memory_mb": {"type": "int"},
    "accel": {"type": "str", "choices": ["auto", "kvm", "tcg"], "default": "auto"},
    "sources": {"type": "path"},
    "build_parameters": {"type": "dict", "default": {}},
    "guest_images": {"type": "bool", "default": False},
    "image": {
        "type": "dict",
        "options": {
            "disk": {"type": "path", "required": True},
            "kernel": {"type": "path", "required": True},
            "initrd": {"type": "path", "required": True},
        },
    },
    "qemu_command": {"type": "list", "elements": "str"},
    "ssh_key": {"type": "path", "no_log": False},
    "kernel_arguments": {"type": "str", "default": ""},
    "qemu_arguments": {"type": "list", "elements": "str", "default": []},
    "nested_guard": {"type": "bool", "default": True},
    "wait_for": {"type": "str", "choices": ["login", "banner"], "default": "login"},
    "timeout_s": {"type": "int", "default": 600},
    "build_timeout_s": {"type": "int", "default": 3600},
    "shutdown_timeout_s": {"type": "int", "default": 60},
    "state_dir": {"type": "path"},
    "cache_dir": {"type": "path"},
    "progress_path": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        supports_check_mode=True,
        required_one_of=[("name", "all")],
        required_if=[("all", False, ("name",))],
    )
    try:
        # A description that is wrong must not keep a host from being ended.
        described = module.params["machine"] if module.params["state"] in STARTING_STATES else None
        result = run(module.params, None if described is None else load(described), module.check_mode)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    for warning in warnings(result["hosts"]):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
