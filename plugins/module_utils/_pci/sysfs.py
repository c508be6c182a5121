# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""PCI functions as the kernel shows them in sysfs: ids, BARs, driver, IOMMU group, place. Private to the collection."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Iterable, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.kernel_files import (
    link_name,
    list_names,
    read_number,
    read_text,
)

# include/linux/ioport.h
IORESOURCE_IO = 0x100
IORESOURCE_PREFETCH = 0x2000
IORESOURCE_MEM_64 = 0x100000
IORESOURCE_UNSET = 0x20000000

# Lines of the file `resource`: 0-5 are the BARs, 6 is the ROM, 7-12 are the BARs of virtual functions.
BAR_LINES = range(6)
VF_BAR_LINES = range(7, 13)

VENDOR_NVIDIA = 0x10DE
# Class and subclass, as lspci -n prints them.
CLASS_VGA = 0x0300
CLASS_3D = 0x0302
CLASS_DISPLAY = 0x0380
CLASS_ACCELERATOR = 0x1200
CLASS_OTHER_BRIDGE = 0x0680
GPU_CLASSES = frozenset({CLASS_VGA, CLASS_3D, CLASS_DISPLAY, CLASS_ACCELERATOR})
BASE_CLASS_BRIDGE = 0x06

# Displays that belong to the machine rather than to the fleet, GPUs by class only (vendors as in pci.ids): management controllers
# of ASPEED and Matrox, and what hypervisors make up (QEMU's VGA and QXL, Cirrus, VMware). A virtio-gpu is none of them: LXD can
# share it with a container.
_MACHINE_DISPLAY_VENDORS = frozenset({0x1A03, 0x102B, 0x1234, 0x1B36, 0x1013, 0x15AD})

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


@dataclass(frozen=True)
class PciBar:
    """One base address register that has a size."""

    index: int
    start: int
    size_bytes: int
    flags: int
    is_io: bool
    is_64bit: bool
    prefetchable: bool
    resizable_bytes: tuple[int, ...] = ()

    @property
    def assigned(self) -> bool:
        return self.start != 0 and not self.flags & IORESOURCE_UNSET

    def to_dict(self) -> dict[str, object]:
        return {
            "index": self.index,
            "start": f"0x{self.start:x}",
            "size_bytes": self.size_bytes,
            "flags": f"0x{self.flags:x}",
            "is_io": self.is_io,
            "is_64bit": self.is_64bit,
            "prefetchable": self.prefetchable,
            "assigned": self.assigned,
            "resizable_bytes": list(self.resizable_bytes),
        }


@dataclass(frozen=True)
class Sriov:
    """Virtual functions: how many a physical function may have and has, or whose virtual function this is."""

    total_vfs: int = 0
    num_vfs: int = 0
    physical_function: Optional[str] = None

    def to_dict(self) -> dict[str, object]:
        return {"total_vfs": self.total_vfs, "num_vfs": self.num_vfs, "physical_function": self.physical_function}


@dataclass(frozen=True)
class PciFunction:
    """One function of one device, at the moment of reading."""

    address: str
    vendor_id: int
    device_id: int
    class_code: int
    subsystem_vendor_id: int
    subsystem_id: int
    revision: int
    driver: Optional[str]
    numa_node: Optional[int]
    iommu_group: Optional[int]
    root: Optional[str]
    bars: tuple[PciBar, ...]
    boot_vga: bool = False
    driver_override: Optional[str] = None
    power_state: Optional[str] = None
    sriov: Optional[Sriov] = None
    vf_bars: int = 0

    @property
    def slot(self) -> str:
        """The address without its function number; LXD hands a slot's functions to a VM together."""
        return self.address.rpartition(".")[0]

    @property
    def number(self) -> int:
        return int(self.address.rpartition(".")[2], 16)

    @property
    def subclass(self) -> int:
        return self.class_code >> 8

    @property
    def ids(self) -> str:
        return f"{self.vendor_id:04x}:{self.device_id:04x}"

    def to_dict(self) -> dict[str, object]:
        return {
            "address": self.address,
            "vendor_id": f"{self.vendor_id:04x}",
            "device_id": f"{self.device_id:04x}",
            "class_code": f"{self.class_code:06x}",
            "subsystem_vendor_id": f"{self.subsystem_vendor_id:04x}",
            "subsystem_id": f"{self.subsystem_id:04x}",
            "revision": f"{self.revision:02x}",
            "driver": self.driver,
            "driver_override": self.driver_override,
            "numa_node": self.numa_node,
            "iommu_group": self.iommu_group,
            "root": self.root,
            "boot_vga": self.boot_vga,
            "power_state": self.power_state,
            "sriov": self.sriov.to_dict() if self.sriov else None,
            "vf_bars": self.vf_bars,
            "bars": [bar.to_dict() for bar in self.bars],
        }


def read_functions(sysfs: str = "/sys") -> list[PciFunction]:
    """Every PCI function of the machine in the order of addresses; one that goes away while it is read is left out."""
    found = (read_function(name, sysfs) for name in list_names(devices_folder(sysfs)))
    return sorted(
        (function for function in found if function is not None), key=lambda function: address_key(function.address)
    )


def read_function(address: str, sysfs: str = "/sys") -> Optional[PciFunction]:
    """One function; None when there is none at this address."""
    path = os.path.join(devices_folder(sysfs), address)
    vendor_id, device_id, class_code = (read_number(path, name, base=16) for name in ("vendor", "device", "class"))
    if not _ADDRESS.fullmatch(address) or vendor_id is None or device_id is None or class_code is None:
        return None
    lines = read_text(path, "resource").splitlines()
    numa_node = read_number(path, "numa_node")
    group = link_name(path, "iommu_group")
    return PciFunction(
        address=address,
        vendor_id=vendor_id,
        device_id=device_id,
        class_code=class_code,
        subsystem_vendor_id=read_number(path, "subsystem_vendor", base=16) or 0,
        subsystem_id=read_number(path, "subsystem_device", base=16) or 0,
        revision=read_number(path, "revision", base=16) or 0,
        driver=link_name(path, "driver"),
        # The kernel says -1 where the firmware names no node.
        numa_node=numa_node if numa_node is not None and numa_node >= 0 else None,
        iommu_group=int(group) if group is not None and group.isdigit() else None,
        root=_root(path),
        bars=_bars(path, lines),
        boot_vga=read_number(path, "boot_vga") == 1,
        driver_override=_override(path),
        power_state=read_text(path, "power_state") or None,
        sriov=_sriov(path),
        vf_bars=sum(1 for index in VF_BAR_LINES if index < len(lines) and _range(lines[index]) is not None),
    )


def devices_folder(sysfs: str) -> str:
    return os.path.join(sysfs, "bus", "pci", "devices")


def address_key(address: str) -> tuple[int, ...]:
    """Orders addresses by number: a domain of five digits comes after those of four."""
    return tuple(int(part, 16) for part in re.split(r"[:.]", address))


def is_gpu(function: PciFunction) -> bool:
    """A GPU or accelerator by its class; the displays of the machine itself are among them."""
    return function.subclass in GPU_CLASSES


def is_machine_display(function: PciFunction) -> bool:
    """The display of a management controller or of a hypervisor, which nobody means by "all GPUs"."""
    return is_gpu(function) and function.vendor_id in _MACHINE_DISPLAY_VENDORS


def is_nvswitch(function: PciFunction) -> bool:
    return function.subclass == CLASS_OTHER_BRIDGE and function.vendor_id == VENDOR_NVIDIA


def is_bridge(function: PciFunction) -> bool:
    """A bridge of the PCI fabric; an NVSwitch has the base class, too, but is a device of its own."""
    return function.class_code >> 16 == BASE_CLASS_BRIDGE and not is_nvswitch(function)


def companions(function: PciFunction, functions: Iterable[PciFunction]) -> list[PciFunction]:
    """The other functions of the same slot, such as a GPU's audio and USB controllers."""
    return [other for other in functions if other.slot == function.slot and other.address != function.address]


def _override(path: str) -> Optional[str]:
    # The kernel prints "(null)" for a function without an override.
    text = read_text(path, "driver_override")
    return None if text in ("", "(null)") else text


def _root(path: str) -> Optional[str]:
    # The nearest root counts: below a VMD controller the path has two.
    roots = [part for part in os.path.realpath(path).split(os.sep) if _ROOT.fullmatch(part)]
    return roots[-1] if roots else None


def _sriov(path: str) -> Optional[Sriov]:
    total_vfs = read_number(path, "sriov_totalvfs")
    physical_function = link_name(path, "physfn")
    if not total_vfs and physical_function is None:
        return None
    return Sriov(total_vfs or 0, read_number(path, "sriov_numvfs") or 0, physical_function)


def _range(line: str) -> Optional[tuple[int, int, int]]:
    """Start, size and flags of one line of `resource`; None for an empty one."""
    try:
        start, end, flags = (int(part, 16) for part in line.split())
    except ValueError:
        return None
    return (start, end - start + 1, flags) if end > start else None


def _bars(path: str, lines: list[str]) -> tuple[PciBar, ...]:
    bars = []
    for index in BAR_LINES:
        found = _range(lines[index]) if index < len(lines) else None
        if found is None:
            continue
        start, size_bytes, flags = found
        bars.append(
            PciBar(
                index=index,
                start=start,
                size_bytes=size_bytes,
                flags=flags,
                is_io=bool(flags & IORESOURCE_IO),
                is_64bit=bool(flags & IORESOURCE_MEM_64),
                prefetchable=bool(flags & IORESOURCE_PREFETCH),
                resizable_bytes=_resizable(path, index),
            )
        )
    return tuple(bars)


def _resizable(path: str, index: int) -> tuple[int, ...]:
    # Documentation/ABI/testing/sysfs-bus-pci: bit n stands for 2^(n + 20) bytes.
    mask = read_number(path, f"resource{index}_resize", base=16) or 0
    return tuple(1 << (bit + 20) for bit in range(mask.bit_length()) if mask >> bit & 1)
