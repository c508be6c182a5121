# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""IOMMU groups: their members, and whether VFIO can hand one to a guest. Private to the collection."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Collection, Iterable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.kernel_files import link_name, list_names, read_text
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import PciFunction, is_bridge

# drivers/vfio: a group is viable while every member has no driver or one that does no DMA of its own.
PASSIVE_DRIVERS = frozenset({"vfio-pci", "pci-stub", "pcieport"})
# Variants of vfio-pci, such as nvgrace-gpu-vfio-pci, end like it.
_VFIO_SUFFIX = "vfio-pci"


@dataclass(frozen=True)
class Member:
    """A device of a group; platform devices have no PCI function."""

    name: str
    driver: Optional[str]
    function: Optional[PciFunction] = None

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "driver": self.driver,
            "ids": self.function.ids if self.function else None,
            "class": f"{self.function.subclass:04x}" if self.function else None,
            "bridge": bool(self.function and is_bridge(self.function)),
        }


@dataclass(frozen=True)
class Group:
    """One IOMMU group; `kind` is the kernel's word, such as DMA, DMA-FQ or identity."""

    number: int
    kind: Optional[str]
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Viability:
    """Whether a group can be handed over when some of its functions are, and why not."""

    viable: bool
    reason: str
    in_the_way: tuple[Member, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "viable": self.viable,
            "reason": self.reason,
            "in_the_way": [member.to_dict() for member in self.in_the_way],
        }


def read_groups(functions: Iterable[PciFunction], sysfs: str = "/sys") -> list[Group]:
    """All IOMMU groups in the order of their numbers; none at all means that the IOMMU is off."""
    folder = os.path.join(sysfs, "kernel", "iommu_groups")
    by_address = {function.address: function for function in functions}
    numbers = sorted(int(name) for name in list_names(folder) if name.isdigit())
    return [_read_group(number, os.path.join(folder, str(number)), by_address) for number in numbers]


def group_of(function: PciFunction, groups: Iterable[Group]) -> Optional[Group]:
    """The group of a function; None when it has none."""
    for group in groups:
        if group.number == function.iommu_group:
            return group
    return None


def judge(function: PciFunction, groups: Iterable[Group], passed: Collection[str]) -> Viability:
    """Whether VFIO lets `function` go when the functions at the addresses `passed` are handed over.

    LXD rebinds the passed functions and the others of their slots; for anything else in the group the host has to see.
    """
    group = group_of(function, groups)
    if group is None:
        return Viability(
            False,
            f"{function.address} is in no IOMMU group; switch the IOMMU on in the firmware (VT-d or AMD-Vi) and on Intel boot with intel_iommu=on",
        )
    slots = {address.rpartition(".")[0] for address in passed}
    in_the_way = tuple(member for member in group.members if not _may_stay(member, slots))
    if not in_the_way:
        return Viability(True, f"IOMMU group {group.number} is viable")
    named = ", ".join(f"{member.name} ({member.driver})" for member in in_the_way)
    return Viability(
        False,
        f"IOMMU group {group.number} of {function.address} is not viable: {named} would stay with the host; "
        "unbind it, pass it to the same VM, or use a slot with a group of its own",
        in_the_way,
    )


def _may_stay(member: Member, passed_slots: Collection[str]) -> bool:
    if member.driver is None or member.driver in PASSIVE_DRIVERS or member.driver.endswith(_VFIO_SUFFIX):
        return True
    return member.function is not None and member.function.slot in passed_slots


def _read_group(number: int, path: str, by_address: Mapping[str, PciFunction]) -> Group:
    devices = os.path.join(path, "devices")
    members = []
    for name in list_names(devices):
        function = by_address.get(name)
        driver = function.driver if function else link_name(os.path.join(devices, name), "driver")
        members.append(Member(name, driver, function))
    return Group(number, read_text(path, "type") or None, tuple(members))
