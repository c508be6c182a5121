# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that is known of a host's GPUs, as the one result of gpu_host_info. Private to the collection."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.capture import board_of, capture_machine
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.firmware import read_firmware
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.groups import (
    Group,
    Viability,
    group_of,
    judge,
    read_groups,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.holders import Scan, kernel_users, scan_holders
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.host import HostFacts, read_host
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.release import RUN_DIR, check_released
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.select import select_gpus
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import (
    PciFunction,
    companions,
    is_gpu,
    is_machine_display,
    is_nvswitch,
    read_functions,
)


@dataclass(frozen=True)
class Places:
    """Where the kernel's file systems are; tests have their own."""

    sysfs: str = "/sys"
    procfs: str = "/proc"
    dev: str = "/dev"
    root: str = "/"
    run_dir: str = RUN_DIR


@dataclass(frozen=True)
class Collected:
    """The facts as plain data, and what a person should know before a passthrough."""

    facts: dict[str, object]
    warnings: tuple[str, ...]


def collect(
    selectors: Optional[Sequence[object]],
    boards: Mapping[str, Board],
    lxd_version: Optional[str] = None,
    places: Optional[Places] = None,
) -> Collected:
    """Read the host once. Without selectors every GPU and NVSwitch counts; SelectorError for what nothing answers to."""
    where = places or Places()
    functions = read_functions(where.sysfs)
    chosen = _chosen(functions, selectors)
    gpus = [function for function in chosen if is_gpu(function)]
    members = _with_companions(chosen, functions)
    groups = read_groups(functions, where.sysfs)
    verdicts = {function.address: judge(function, groups, (function.address,)) for function in chosen}
    host = read_host(where.sysfs, where.procfs, where.dev)
    addresses = [function.address for function in members]
    scan = scan_holders(addresses, where.procfs, where.sysfs)
    facts: dict[str, object] = {
        "gpus": [_describe(function, functions, boards, verdicts[function.address]) for function in gpus],
        "nvswitches": [
            _describe(function, functions, boards, verdicts[function.address])
            for function in chosen
            if is_nvswitch(function)
        ],
        "companions": [
            {**function.to_dict(), "gpu": _main_of(function, chosen)} for function in members if function not in chosen
        ],
        "groups": [_describe_group(group) for group in _groups_of(members, groups)],
        "holders": [holder.to_dict() for holder in scan.holders],
        "holders_complete": scan.complete,
        "kernel_users": [user.to_dict() for user in kernel_users(addresses, where.sysfs)],
        "released": [state.to_dict() for state in check_released(addresses, where.run_dir, where.sysfs, where.procfs)],
        "host": host.to_dict(),
        "firmware": read_firmware(lxd_version, where.root).to_dict(),
        "machine": capture_machine(functions, host, boards, os.uname().nodename),
    }
    return Collected(facts, _warnings([f for f in chosen if not is_machine_display(f)], verdicts, host, scan))


def _chosen(functions: Sequence[PciFunction], selectors: Optional[Sequence[object]]) -> list[PciFunction]:
    if selectors is None:
        return [function for function in functions if is_gpu(function) or is_nvswitch(function)]
    return select_gpus(functions, selectors)


def _with_companions(chosen: Sequence[PciFunction], functions: Sequence[PciFunction]) -> list[PciFunction]:
    members = {function.address: function for function in chosen}
    for function in chosen:
        for other in companions(function, functions):
            members.setdefault(other.address, other)
    return list(members.values())


def _main_of(companion: PciFunction, chosen: Sequence[PciFunction]) -> str:
    return next(function.address for function in chosen if function.slot == companion.slot)


def _describe(
    function: PciFunction, functions: Sequence[PciFunction], boards: Mapping[str, Board], verdict: Viability
) -> dict[str, object]:
    board = board_of(function, functions, boards)
    return {
        **function.to_dict(),
        "board": board.name if board else None,
        "product": (board.gpu.product_name if board.gpu else board.product) if board else None,
        "machine_display": is_machine_display(function),
        "companions": [other.address for other in companions(function, functions)],
        "viable": verdict.viable,
        "viability": verdict.reason,
        "in_the_way": [member.to_dict() for member in verdict.in_the_way],
    }


def _groups_of(members: Sequence[PciFunction], groups: Sequence[Group]) -> list[Group]:
    found: dict[int, Group] = {}
    for function in members:
        group = group_of(function, groups)
        if group is not None:
            found.setdefault(group.number, group)
    return [found[number] for number in sorted(found)]


def _describe_group(group: Group) -> dict[str, object]:
    return {"number": group.number, "kind": group.kind, "members": [member.to_dict() for member in group.members]}


def _warnings(
    chosen: Sequence[PciFunction], verdicts: Mapping[str, Viability], host: HostFacts, scan: Scan
) -> tuple[str, ...]:
    found = []
    if chosen and not host.iommu:
        found.append(
            "this host has no IOMMU groups, so no GPU can go into a VM; switch the IOMMU on in the firmware (VT-d or AMD-Vi) and on Intel "
            "boot with intel_iommu=on"
        )
    elif chosen:
        found += [verdicts[function.address].reason for function in chosen if not verdicts[function.address].viable]
    if chosen and not host.kvm:
        found.append(
            "this host has no /dev/kvm, and LXD starts no VM without it; switch virtualisation on in the firmware, or load kvm_intel or kvm_amd"
        )
    if not scan.complete:
        found.append(
            "not every process could be looked at, so somebody else may hold a GPU"
            + (f" ({scan.unreadable} were closed to this user; run as root)" if scan.unreadable else "")
        )
    return tuple(found)
