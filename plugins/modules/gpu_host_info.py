#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_host_info
short_description: Read the GPUs of a host and what a passthrough needs to know about them
version_added: 0.1.0
description:
  - Reads GPUs, accelerators and NVSwitches from sysfs, with their BARs, IOMMU groups, drivers and places, and finds the processes that hold them.
  - Does not rely on LXD's list of resources, which leaves out NVSwitches and accelerators of class 1200 without a DRM node.
  - Also returns the host as a machine description, which M(gpulab.fleet.virtual_gpu_host) can make a virtual host of.
  - Changes nothing.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.info
  - gpulab.fleet.attributes.group
options:
  gpus:
    description:
      - The GPUs to return facts of. Unset, these are all GPUs and NVSwitches, displays of the machine itself included.
      - An address in any spelling, such as V("0000:41:00.0"), V("41:00.0") or C(nvidia-smi)'s V("00000000:41:00.0"). Keep the quotes, as YAML reads some
        addresses as numbers.
      - Vendor and device id, such as V("10de:2330"), for every GPU that has them.
      - V(all) for every GPU except the displays of the machine itself, which are those of management controllers and hypervisors.
    type: list
    elements: raw
  lxd:
    description:
      - Whether to ask the host's LXD for its version and its API extensions.
      - An LXD that is not there, or a missing pylxd, is no failure. RV(lxd.reason) tells of it.
    type: bool
    default: true
  lxd_socket:
    description:
      - Path of LXD's local socket on the host.
      - "Unset, it is found as C(lxc) finds it: E(LXD_DIR) if that is set, then the snap's socket
        C(/var/snap/lxd/common/lxd/unix.socket), then C(/var/lib/lxd/unix.socket)."
    type: path
notes:
  - Runs on the LXD host. To see who holds a GPU it has to be V(root), otherwise RV(holders_complete) is V(false).
  - For RV(lxd.version) from LXD itself and for RV(lxd.extensions), pylxd has to be there for the Python interpreter that runs the module.
seealso:
  - module: gpulab.fleet.lxd_gpu_vm
  - module: gpulab.fleet.virtual_gpu_host
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Read all GPUs
  gpulab.fleet.gpu_host_info:
  register: host

- name: Read two kinds of GPUs, and leave LXD alone
  gpulab.fleet.gpu_host_info:
    gpus:
      - "10de:2330"
      - "0000:41:00.0"
    lxd: false
  register: host

- name: Stop when a GPU cannot be passed to a VM
  ansible.builtin.assert:
    that: item.viable
    fail_msg: "{{ item.viability }}"
  loop: "{{ host.gpus }}"
  loop_control:
    label: "{{ item.address }}"

- name: Write the host down as a machine description
  ansible.builtin.copy:
    content: "{{ host.machine | to_nice_json }}"
    dest: "machines/{{ inventory_hostname }}.json"
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
gpus:
  description: The chosen functions of the classes 0300, 0302, 0380 and 1200, in the order of their addresses or of O(gpus).
  returned: success
  type: list
  elements: dict
  contains:
    address:
      description: PCI address, with a domain of at least four digits.
      type: str
      sample: "0000:41:00.0"
    vendor_id:
      description: Vendor, four hexadecimal digits.
      type: str
      sample: "10de"
    device_id:
      description: Device, four hexadecimal digits.
      type: str
      sample: "2330"
    class_code:
      description: Class, subclass and programming interface, six hexadecimal digits.
      type: str
      sample: "030200"
    subsystem_vendor_id:
      description: Vendor of the board, four hexadecimal digits.
      type: str
      sample: "10de"
    subsystem_id:
      description: Board, four hexadecimal digits.
      type: str
      sample: "16c1"
    revision:
      description: Revision, two hexadecimal digits.
      type: str
      sample: "a1"
    driver:
      description: The kernel driver that is bound, V(null) when none is.
      type: str
      sample: nvidia
    driver_override:
      description: The only driver that may bind, V(null) when any may.
      type: str
    numa_node:
      description: NUMA node, V(null) when the firmware names none.
      type: int
      sample: 0
    iommu_group:
      description: Number of the IOMMU group, V(null) when the IOMMU is off.
      type: int
      sample: 17
    root:
      description: The PCIe root that the function is below, as sysfs names it.
      type: str
      sample: "pci0000:40"
    boot_vga:
      description: Whether the firmware showed its output here.
      type: bool
    power_state:
      description: PCI power state.
      type: str
      sample: D0
    sriov:
      description: Virtual functions. V(null) when the function has to do with none.
      type: dict
      contains:
        total_vfs:
          description: How many virtual functions it may have.
          type: int
        num_vfs:
          description: How many it has.
          type: int
        physical_function:
          description: Whose virtual function this is.
          type: str
    vf_bars:
      description: Number of BARs that virtual functions would have. A VM does not see these.
      type: int
    bars:
      description: The base address registers that have a size.
      type: list
      elements: dict
      contains:
        index:
          description: Number of the register, 0 to 5.
          type: int
          sample: 2
        start:
          description: Address, hexadecimal.
          type: str
          sample: "0x380000000000"
        size_bytes:
          description: Size in bytes.
          type: int
          sample: 137438953472
        flags:
          description: The kernel's resource flags, hexadecimal.
          type: str
          sample: "0x14220c"
        is_io:
          description: Whether it is I/O space, not memory.
          type: bool
        is_64bit:
          description: Whether it can lie above 4 GiB.
          type: bool
        prefetchable:
          description: Whether it is prefetchable.
          type: bool
        assigned:
          description: Whether it has an address.
          type: bool
        resizable_bytes:
          description: Sizes that it can be resized to. Empty when it cannot, or when the kernel does not tell.
          type: list
          elements: int
    board:
      description: Name of the catalog's board with these ids, V(null) when there is none.
      type: str
      sample: nvidia-h100-sxm5-80gb
    product:
      description: Product name of that board.
      type: str
      sample: NVIDIA H100 80GB HBM3
    machine_display:
      description: Whether this is the display of a management controller or a hypervisor.
      type: bool
    companions:
      description: Addresses of the other functions of the slot.
      type: list
      elements: str
      sample: ["0000:41:00.1"]
    viable:
      description: Whether VFIO lets the function go to a VM with its slot alone.
      type: bool
    viability:
      description: The same in one sentence, with the remedy.
      type: str
      sample: IOMMU group 17 is viable
    in_the_way:
      description: The members of the IOMMU group that would have to let go, too, as in RV(groups[].members).
      type: list
      elements: dict
nvswitches:
  description: The chosen NVSwitches (class 0680 of NVIDIA), with the keys of RV(gpus).
  returned: success
  type: list
  elements: dict
companions:
  description: The other functions of the slots of GPUs and NVSwitches, such as audio controllers.
  returned: success
  type: list
  elements: dict
  contains:
    address:
      description: PCI address. The keys of RV(gpus) from C(vendor_id) to C(bars) are here as well.
      type: str
      sample: "0000:41:00.1"
    gpu:
      description: Address of the GPU whose companion this is.
      type: str
      sample: "0000:41:00.0"
groups:
  description: The IOMMU groups of all these functions.
  returned: success
  type: list
  elements: dict
  contains:
    number:
      description: Number of the group.
      type: int
      sample: 17
    kind:
      description: The kernel's word for its domain.
      type: str
      sample: DMA-FQ
    members:
      description: All devices of the group.
      type: list
      elements: dict
      contains:
        name:
          description: PCI address, or the name of a platform device.
          type: str
          sample: "0000:41:00.0"
        driver:
          description: Its driver.
          type: str
          sample: nvidia
        ids:
          description: Vendor and device id of a PCI function.
          type: str
          sample: "10de:2330"
        class:
          description: Class and subclass of a PCI function.
          type: str
          sample: "0302"
        bridge:
          description: Whether it is a bridge, which stays with the host.
          type: bool
holders:
  description: The processes that hold one of these functions by an open file or a memory map.
  returned: success
  type: list
  elements: dict
  contains:
    pid:
      description: Process id.
      type: int
      sample: 4242
    command:
      description: The kernel's name of the process.
      type: str
      sample: nvidia-persiste
    path:
      description: What it holds.
      type: str
      sample: /dev/nvidia0
    how:
      description: V(open) or V(map).
      type: str
      sample: open
    addresses:
      description: The functions that the path stands for. C(/dev/kfd) stands for every GPU of C(amdgpu).
      type: list
      elements: str
      sample: ["0000:41:00.0"]
    container:
      description: Container that the process is in.
      type: str
    unit:
      description: systemd unit that the process is in.
      type: str
      sample: nvidia-persistenced.service
    vm:
      description: Name of the VM when the process is its QEMU.
      type: str
holders_complete:
  description: Whether every process could be looked at.
  returned: success
  type: bool
kernel_users:
  description: Hints at users inside the kernel, which no process list shows.
  returned: success
  type: list
  elements: dict
  contains:
    address:
      description: The function.
      type: str
      sample: "0000:41:00.0"
    what:
      description: The driver's module, or a framebuffer.
      type: str
      sample: module nvidia
    count:
      description: Its reference count.
      type: int
      sample: 3
    used_by:
      description: Modules on top of it.
      type: list
      elements: str
      sample: [nvidia_uvm]
released:
  description: Of each function whether it is as it was before this collection passed it to an instance.
  returned: success
  type: list
  elements: dict
  contains:
    address:
      description: The function.
      type: str
      sample: "0000:41:00.0"
    released:
      description: Whether it is back on its former driver, or idle without one, and nothing holds it.
      type: bool
      sample: true
    reason:
      description: The same in one sentence.
      type: str
      sample: "0000:41:00.0 is back on nvidia and nothing holds it"
    former_known:
      description: Whether its former driver is on record.
      type: bool
    former_driver:
      description: The driver before the first passthrough.
      type: str
      sample: nvidia
    driver:
      description: The driver now.
      type: str
      sample: nvidia
    driver_override:
      description: The override now.
      type: str
    told_apart:
      description: Whether it had no driver before and is idle on C(vfio-pci) now.
      type: bool
    holders:
      description: As RV(holders).
      type: list
      elements: dict
host:
  description: The host apart from its GPUs.
  returned: success
  type: dict
  contains:
    architecture:
      description: As C(uname -m) prints it.
      type: str
      sample: x86_64
    kernel:
      description: Release of the running kernel.
      type: str
      sample: 6.12.48+deb13-amd64
    cpus:
      description: Number of online CPUs.
      type: int
      sample: 64
    cpu_vendor:
      description: Vendor of the CPU.
      type: str
      sample: GenuineIntel
    phys_bits:
      description: Width of physical addresses in bits, V(null) when the kernel does not tell.
      type: int
      sample: 46
    la57:
      description: Whether the CPU has five-level page tables.
      type: bool
    pages_1gib:
      description: Whether the CPU has pages of 1 GiB.
      type: bool
    virtualisation:
      description: V(vmx), V(svm), or V(null) when the CPU offers neither.
      type: str
      sample: vmx
    memory_mib:
      description: Memory in MiB, as it is fitted.
      type: int
      sample: 524288
    memory_available_mib:
      description: Memory in MiB that is there for new processes.
      type: int
      sample: 501000
    numa_nodes:
      description: Number of NUMA nodes.
      type: int
      sample: 2
    hugepages:
      description: Hugepages by size.
      type: list
      elements: dict
      contains:
        size_kib:
          description: Size of a page in KiB.
          type: int
          sample: 2048
        total:
          description: Reserved pages.
          type: int
          sample: 4096
        free:
          description: Pages that nobody has.
          type: int
          sample: 4096
        nodes:
          description: C(node), C(total) and C(free) of each NUMA node.
          type: list
          elements: dict
    transparent_hugepages:
      description: V(always), V(madvise) or V(never).
      type: str
      sample: madvise
    iommu:
      description: Whether there are IOMMU groups.
      type: bool
      sample: true
    iommu_units:
      description: IOMMUs by name.
      type: list
      elements: str
      sample: [dmar0, dmar1]
    kvm:
      description: Whether C(/dev/kvm) is there.
      type: bool
      sample: true
    boot_id:
      description: Changes with each boot.
      type: str
      sample: 0b2ff3a1-8d8a-4f05-9d6c-2f8ef6b6b4a1
lxd:
  description: What the host's LXD says of itself.
  returned: success
  type: dict
  contains:
    available:
      description: Whether it answered.
      type: bool
      sample: true
    reason:
      description: Why it did not answer, V(null) when it did.
      type: str
    version:
      description: Its version, by its own answer or by what is installed. V(null) when there is no LXD.
      type: str
      sample: "5.21.5"
    extensions:
      description: Its API extensions, sorted. Empty when it did not answer.
      type: list
      elements: str
      sample: [instances, resources_gpu_mdev]
firmware:
  description: The UEFI firmware of VMs, as far as it can be known without starting one.
  returned: success
  type: dict
  contains:
    dynamic_window:
      description: Whether it sizes its window for 64-bit BARs by the address width, V(null) when that is not known.
      type: bool
      sample: true
    reason:
      description: How that is known.
      type: str
      sample: edk2 2025.02-8 sizes its 64-bit window by the address width
    lxd_version:
      description: The version of LXD that this was judged by.
      type: str
      sample: "5.0.2"
    snap:
      description: Whether LXD is the snap, which brings its own firmware.
      type: bool
    edk2_version:
      description: Version of the distribution's firmware package.
      type: str
      sample: 2025.02-8
machine:
  description: The host as a machine description. Bridges, virtual functions and devices that QEMU makes up are left out.
  returned: success
  type: dict
  sample:
    name: gpu1
    cpus: 64
    memory_mb: 524288
    numa_nodes: 2
    phys_bits: 46
    boards: {}
    roots:
      "pci0000:40":
        numa_node: 0
        devices:
          gpu0: {address: "0000:41:00.0", board: nvidia-h100-sxm5-80gb}
warnings:
  description: What stands in the way of a passthrough, one sentence each with its remedy.
  returned: when there is something
  type: list
  elements: str
  sample: ["IOMMU group 17 of 0000:41:00.0 is not viable: 0000:42:00.0 (ixgbe) would stay with the host"]
"""

from typing import Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import HAS_PYLXD, connect
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.transport import LxdError
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.facts import collect
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.firmware import read_lxd_version


def ask_lxd(wanted: bool, socket_path: Optional[str]) -> dict[str, object]:
    """What LXD says of itself; whatever keeps it from answering becomes the reason."""
    installed = read_lxd_version()
    reason = None
    if not wanted:
        reason = "not asked, as lxd is false"
    elif not HAS_PYLXD:
        reason = "pylxd is not there for the Python interpreter of this module; install it, or let the role lxd_host bring it"
    else:
        try:
            lxd = connect(socket_path)
            return {
                "available": True,
                "reason": None,
                "version": lxd.server_version,
                "extensions": sorted(lxd.extensions),
            }
        except LxdError as error:
            reason = error.message
    return {"available": False, "reason": reason, "version": installed, "extensions": []}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "raw"},
            "lxd": {"type": "bool", "default": True},
            "lxd_socket": {"type": "path"},
        },
        supports_check_mode=True,
    )
    lxd = ask_lxd(module.params["lxd"], module.params["lxd_socket"])
    version = lxd["version"]
    try:
        collected = collect(module.params["gpus"], BOARDS, version if isinstance(version, str) else None)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    for warning in collected.warnings:
        module.warn(warning)
    module.exit_json(changed=False, lxd=lxd, **collected.facts)


if __name__ == "__main__":
    main()
