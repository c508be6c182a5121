#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lxd_gpu_vm
short_description: Bring an LXD virtual machine with GPUs to a described state
version_added: 0.1.0
description:
  - Creates, changes, starts, stops and deletes a virtual machine of the LXD on this host, with GPUs passed to it by VFIO.
  - A new VM is created stopped, with its whole configuration and all its GPUs in one request, and started once.
  - Everything that can be refused is refused before anything is touched, with one message that names option, value and
    remedy. A start that fails leaves no new VM behind, and the GPUs on their former drivers.
  - What is not given keeps LXD's own default and is never changed. Option names of LXD follow its API extensions.
author:
  - The gpulab.fleet authors (@gpulab)
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group_lxd
  - gpulab.fleet.lxd
  - gpulab.fleet.lxd_instance
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - O(state=restarted) restarts the VM, and reports that, each time.
options:
  gpus:
    description:
      - 'The GPUs of the VM: PCI addresses (V("0000:41:00.0"), quoted), ids (V("10de:2330"), every GPU with these), or
        V(all). An NVSwitch can be named by its address.'
      - The list is complete. GPUs of the VM that are not in it are taken away; an empty list takes all away; unset changes
        nothing.
      - Companion functions of a GPU, such as its audio function, go with it.
    type: list
    elements: raw
  hugepages:
    description:
      - Back the memory with hugepages, which have to be free on the host. LXD's C(limits.memory.hugepages).
    type: bool
  qemu_opts:
    description:
      - Options for QEMU's command line, LXD's C(raw.qemu), compared token by token. Unset changes nothing; an empty string
        or list takes them away.
      - A string is split like a shell does; one that is wrapped in quotes as a whole, or begins with a blank, works too. In a
        list, each element is split that way.
      - V(auto) sizes the 64-bit PCI hole from the real BARs of the GPUs, when and as far as that is needed, and
        RV(qemu_opts_explained) tells how. In a list V(auto) may stand beside other options; what these give is never
        overridden.
    type: raw
  secure_boot:
    description:
      - Whether the firmware starts signed systems only. LXD's C(security.secureboot) or C(boot.mode), as the release has it.
      - Drivers that are built in the guest are not signed, so that GPUs mostly need V(false).
    type: bool
seealso:
  - module: gpulab.fleet.lxd_gpu_container
  - module: gpulab.fleet.lxd_gpu_check
  - module: gpulab.fleet.gpu_host_info
"""

EXAMPLES = r"""
- name: A VM with one GPU, sized for it, ready for commands
  gpulab.fleet.lxd_gpu_vm:
    name: gpu-test
    image: images:debian/13
    gpus: ["0000:41:00.0"]
    ram_mb: 8192
    cpus: 8
    secure_boot: false
    qemu_opts: auto

- name: All GPUs of the host in one VM, with an option of one's own and CPUs pinned
  gpulab.fleet.lxd_gpu_vm:
    name: all-gpus
    image: ubuntu:24.04
    gpus: [all]
    ram_mb: 65536
    cpus: 0-31
    hugepages: true
    secure_boot: false
    qemu_opts:
      - auto
      - -global vfio-pci.x-no-mmap=on
    timeout_s: 1800

- name: An image from a URL, and cloud-init
  gpulab.fleet.lxd_gpu_vm:
    name: from-url
    image:
      url: https://images.example.org/gpu-vm.qcow2
      checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    gpus: ["10de:2330"]
    cloud_init:
      user_data: |
        #cloud-config
        packages: [pciutils]
    wait_for: system

- name: More memory, with the restart that this takes
  gpulab.fleet.lxd_gpu_vm:
    name: gpu-test
    ram_mb: 16384
    allow_restart: true

- name: Give the GPUs back and delete the VM
  gpulab.fleet.lxd_gpu_vm:
    name: gpu-test
    state: absent
"""

RETURN = r"""
actions:
  description: What was done to the VM, in its order. In check mode, what would be done.
  returned: always, except when the call is refused before anything is done
  type: list
  elements: str
  sample: [create, start]
restart_required:
  description: Whether something differs that can change only while the VM is stopped, and O(allow_restart) is not set.
  returned: success
  type: bool
  sample: false
pending:
  description: What differs and was left out for want of a restart.
  returned: success
  type: list
  elements: str
  sample: [config.limits.memory]
instance:
  description: The VM as LXD has it, without profiles' keys and LXD's volatile ones. V(null) when there is none.
  returned: success
  type: dict
  contains:
    name:
      description: Its name.
      type: str
    type:
      description: V(virtual-machine).
      type: str
    status:
      description: LXD's word for its state, such as V(Running).
      type: str
    profiles:
      description: Its profiles.
      type: list
      elements: str
    config:
      description: Its own configuration keys.
      type: dict
    devices:
      description: Its own devices.
      type: dict
gpus:
  description: PCI addresses of the GPUs that the VM has.
  returned: success
  type: list
  elements: str
  sample: ["0000:41:00.0"]
qemu_opts_explained:
  description: How O(qemu_opts=auto) came to its options. V(null) without V(auto).
  returned: success
  type: dict
  contains:
    tokens:
      description: The options that were added to the user's own; empty when nothing is needed.
      type: list
      elements: str
    hole64_bytes:
      description: Size of the 64-bit PCI hole in bytes; V(null) when none is set.
      type: int
    explanation:
      description: The reasoning in one sentence, with its numbers.
      type: str
    inputs:
      description: The numbers that it was made from.
      type: dict
    warnings:
      description: What may still fail.
      type: list
      elements: str
released:
  description: After a stop, how each function stands that the VM had.
  returned: always, except when the call is refused before anything is done
  type: list
  elements: dict
  contains:
    address:
      description: The function's PCI address.
      type: str
    released:
      description: Whether it is back on its former driver, or idle as before, and nothing holds it.
      type: bool
    former_driver:
      description: The driver that it had before.
      type: str
    driver:
      description: The driver that it has now.
      type: str
    holders:
      description: The processes that hold it.
      type: list
      elements: dict
    reason:
      description: The same in one sentence.
      type: str
ready:
  description: How the wait ended. V(null) when nothing was waited for.
  returned: success
  type: dict
  contains:
    ready:
      description: V(true).
      type: bool
    seconds:
      description: Seconds since the call began.
      type: float
    system_state:
      description: With O(wait_for=system), systemd's word for the state of the guest.
      type: str
    failed_units:
      description: With O(wait_for=system), units that failed.
      type: list
      elements: str
reason:
  description: Why the call failed, for programs.
  returned: failure of a start, a wait or a release
  type: str
  sample: agent_missing
console:
  description: The last lines of the VM's console.
  returned: failure of a wait
  type: list
  elements: str
instance_log:
  description: The last lines of QEMU's log.
  returned: failure of a start or a wait
  type: list
  elements: str
last_state:
  description: The last state that was seen.
  returned: failure of a wait
  type: str
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.arguments import instance_arguments, progress_for
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import HAS_PYLXD, PYLXD_IMPORT_ERROR, connect
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.engine import Engine
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import VIRTUAL_MACHINE
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.passthrough import HostGpus


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **instance_arguments(),
            "hugepages": {"type": "bool"},
            "qemu_opts": {"type": "raw"},
            "secure_boot": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    if not HAS_PYLXD:
        module.fail_json(msg=missing_required_lib("pylxd"), exception=PYLXD_IMPORT_ERROR)
    try:
        lxd = connect(module.params["lxd_socket"], module.params["project"])
        say = progress_for("lxd_gpu_vm", module.params["name"])
        engine = Engine(lxd, HostGpus(), VIRTUAL_MACHINE, "lxd_gpu_vm", say, module.warn)
        result = engine.run(module.params, module.check_mode)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
