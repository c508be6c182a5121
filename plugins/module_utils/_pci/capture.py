# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""Writes down a host as a machine description, which a virtual GPU host can be made of. Private to the collection."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import format_root, locate
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Bar, Board, Function
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.units import format_size
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.host import HostFacts
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import (
    PciBar,
    PciFunction,
    companions,
    is_gpu,
    is_machine_display,
    is_nvswitch,
)

VENDOR_VIRTIO = 0x1AF4
# virtio 1.2, 5.7 and 4.1.2.1: device type 16, id 0x1040 + 16.
DEVICE_VIRTIO_GPU = 0x1050
# QEMU's own bridges, NVMe, USB controllers and the like.
_QEMU_VENDORS = frozenset({VENDOR_VIRTIO, 0x1B36, 0x1234})
BASE_CLASS_NETWORK = 0x02

_VENDOR_NAMES = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x8086: "intel",
    0x15B3: "mellanox",
    0x1D0F: "amazon",
    VENDOR_VIRTIO: "virtio",
}
_MIN_RESIZABLE_BYTES = 1 << 20


def capture_machine(
    functions: Sequence[PciFunction],
    host: HostFacts,
    boards: Optional[Mapping[str, Board]] = None,
    name: str = "captured",
) -> dict[str, object]:
    """The description of this host: its GPUs, NVSwitches and NICs at their addresses, under roots with NUMA nodes.

    A board of the catalog is named where it is exactly this; otherwise the board is described by what the host shows.
    Bridges, and devices that QEMU makes up itself, belong to whatever machine is made of the description, so they stay out.
    """
    source = f"captured from {name}"
    inline: dict[str, object] = {}
    roots: dict[str, dict[str, object]] = {}
    counts: dict[str, int] = {}
    for main in functions:
        kind = kind_of(main)
        if kind is None or main.number != 0:
            continue
        board_name = _board(main, companions(main, functions), kind, boards or {}, inline, source)
        device_name = f"{kind}{counts.get(kind, 0)}"
        counts[kind] = counts.get(kind, 0) + 1
        root = roots.setdefault(main.root or _root_by_address(main.address), {"devices": {}})
        if main.numa_node is not None:
            root["numa_node"] = main.numa_node
        devices = root["devices"]
        if isinstance(devices, dict):
            devices[device_name] = {"address": main.address, "board": board_name}
    return _machine(name, host, inline, roots, source)


def board_of(function: PciFunction, functions: Sequence[PciFunction], boards: Mapping[str, Board]) -> Optional[Board]:
    """The board of the catalog that the function is, by its ids; None when the catalog has none or it is no board's main function."""
    kind = kind_of(function)
    if kind is None:
        return None
    others = sorted(companions(function, functions), key=lambda other: other.number)
    return _known((_shown(function), *(_shown(other) for other in others)), kind, boards)


def kind_of(function: PciFunction) -> Optional[str]:
    """The kind of board that the function would be the main function of; None for what a description leaves out."""
    if function.sriov is not None and function.sriov.physical_function is not None:
        return None
    if (function.vendor_id, function.device_id) == (VENDOR_VIRTIO, DEVICE_VIRTIO_GPU):
        return "display"
    if function.vendor_id in _QEMU_VENDORS or is_machine_display(function):
        return None
    if is_nvswitch(function):
        return "nvswitch"
    if is_gpu(function):
        return "gpu"
    return "nic" if function.class_code >> 16 == BASE_CLASS_NETWORK else None


def _machine(
    name: str, host: HostFacts, boards: Mapping[str, object], roots: Mapping[str, dict[str, object]], source: str
) -> dict[str, object]:
    nodes = [node for node in (root.get("numa_node") for root in roots.values()) if isinstance(node, int)]
    machine: dict[str, object] = {
        "name": re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".-_") or "captured",
        "description": f"{source}, kernel {host.kernel}",
        "cpus": host.cpus,
        "memory_mb": max(1, host.memory_mib),
        "numa_nodes": max(host.numa_nodes, max(nodes, default=0) + 1),
        "boards": dict(boards),
        "roots": dict(roots),
        "sources": dict.fromkeys(("cpus", "memory_mb", "numa_nodes", "roots"), source),
    }
    if host.phys_bits is not None:
        machine["phys_bits"] = host.phys_bits
    return machine


def _board(
    main: PciFunction,
    others: Sequence[PciFunction],
    kind: str,
    boards: Mapping[str, Board],
    inline: dict[str, object],
    source: str,
) -> str:
    """The name of the board: the catalog's, or that of an entry in `inline`, which equal devices share."""
    shown = (_shown(main), *(_shown(other) for other in sorted(others, key=lambda other: other.number)))
    known = _known(shown, kind, boards)
    if known is not None and (known.served == "qemu" or _facts(known.functions) == _facts(shown)):
        return known.name
    described = _described(shown, kind, known, source)
    stem = known.name if known else f"{_VENDOR_NAMES.get(main.vendor_id, f'{main.vendor_id:04x}')}-{main.device_id:04x}"
    number = 1
    while True:
        name = f"{stem}-as-captured" if number == 1 else f"{stem}-as-captured-{number}"
        if inline.setdefault(name, described) == described:
            return name
        number += 1


def _shown(function: PciFunction) -> Function:
    """The function in the model's terms, as the host shows it."""
    return Function(
        number=function.number,
        name=f"function{function.number}",
        vendor_id=function.vendor_id,
        device_id=function.device_id,
        class_code=function.class_code,
        subsystem_vendor_id=function.subsystem_vendor_id,
        subsystem_id=function.subsystem_id,
        revision=function.revision,
        bars=tuple(_bar(bar) for bar in function.bars if bar.size_bytes & (bar.size_bytes - 1) == 0),
    )


def _bar(bar: PciBar) -> Bar:
    if bar.is_io:
        return Bar(bar.index, bar.size_bytes, prefetchable=False, is_64bit=False, is_io=True)
    # The model wants a BAR's present size among those that it can be resized to.
    resizable = (
        bar.resizable_bytes if bar.size_bytes in bar.resizable_bytes and bar.size_bytes >= _MIN_RESIZABLE_BYTES else ()
    )
    return Bar(bar.index, bar.size_bytes, bar.prefetchable, bar.is_64bit, False, resizable)


def _facts(functions: Sequence[Function]) -> list[tuple[object, ...]]:
    """What makes boards the same. Whether a kernel shows resizable sizes depends on its version, so these do not count."""
    return [
        (
            function.number, function.vendor_id, function.device_id, function.class_code,
            function.subsystem_vendor_id, function.subsystem_id, function.revision,
            tuple((bar.index, bar.size_bytes, bar.prefetchable, bar.is_64bit, bar.is_io) for bar in function.bars),
        )
        for function in functions
    ]  # fmt: skip


def _known(shown: Sequence[Function], kind: str, boards: Mapping[str, Board]) -> Optional[Board]:
    """The board of the catalog that has the same ids; where several have, the one that is most like what is shown."""
    main = shown[0]
    alike = [
        board
        for _name, board in sorted(boards.items())
        if board.kind == kind and (board.main.vendor_id, board.main.device_id) == (main.vendor_id, main.device_id)
    ]

    def likeness(board: Board) -> tuple[bool, bool, bool]:
        subsystem = (board.main.subsystem_vendor_id, board.main.subsystem_id)
        return (
            _facts(board.functions) == _facts(shown),
            subsystem == (main.subsystem_vendor_id, main.subsystem_id),
            _facts((board.main,))[0][-1] == _facts((main,))[0][-1],
        )

    return max(alike, key=likeness, default=None)


def _described(shown: Sequence[Function], kind: str, known: Optional[Board], source: str) -> dict[str, object]:
    main = shown[0]
    result = _function_dict(main, known.main if known else None)
    if known is not None:
        result["from"] = known.name
    else:
        vendor = _VENDOR_NAMES.get(main.vendor_id, f"{main.vendor_id:04x}")
        result.update(kind=kind, vendor=vendor, product=f"{vendor} {main.vendor_id:04x}:{main.device_id:04x}")
        result["sources"] = {"vendor_id": source, "device_id": source, "class_code": source, "bars": source}
        if kind == "display":
            result.update(served="qemu", qemu_device="virtio-gpu-pci")
    before = {function.number: function for function in known.functions[1:]} if known else {}
    others: dict[str, object] = {
        str(function.number): _function_dict(function, before.get(function.number)) for function in shown[1:]
    }
    # In a patch, null takes away what the catalog's board has and this one has not.
    others.update({str(number): None for number in before if str(number) not in others})
    if others:
        result["functions"] = others
    return result


def _function_dict(function: Function, base: Optional[Function]) -> dict[str, object]:
    bars: dict[str, object] = {str(bar.index): _bar_dict(bar) for bar in function.bars}
    if base is not None:
        bars.update({str(bar.index): None for bar in base.bars if str(bar.index) not in bars})
    result: dict[str, object] = {
        "vendor_id": f"0x{function.vendor_id:04x}",
        "device_id": f"0x{function.device_id:04x}",
        "class_code": f"0x{function.class_code:06x}",
        "subsystem_vendor_id": f"0x{function.subsystem_vendor_id:04x}",
        "subsystem_id": f"0x{function.subsystem_id:04x}",
        "revision": f"0x{function.revision:02x}",
    }
    if bars:
        result["bars"] = bars
    return result


def _bar_dict(bar: Bar) -> dict[str, object]:
    result: dict[str, object] = {
        "size": format_size(bar.size_bytes),
        "prefetchable": bar.prefetchable,
        "is_64bit": bar.is_64bit,
        "is_io": bar.is_io,
    }
    # Given also when empty, since a patch would otherwise keep the list of the board that it starts from.
    result["resizable"] = [format_size(size) for size in bar.resizable_bytes]
    return result


def _root_by_address(address: str) -> str:
    return format_root(locate(address, "address").domain, 0)
