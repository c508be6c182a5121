# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""What must hold of a machine as a whole, whoever made it: addresses, BARs, names; private to the collection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import locate, parse_root
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import MachineError, refuse, refuse_missing
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.mig import place_instances
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    BAR_REGISTERS,
    Bar,
    Board,
    Device,
    Function,
    Machine,
    PcieRoot,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.units import format_size

# PCI Local Bus Specification 3.0, section 6.2.5.1: the low four bits of a memory BAR and two of an I/O BAR are flags.
_MIN_MEMORY_BYTES = 16
_MIN_IO_BYTES = 4
_MAX_IO_BYTES = 256
_MAX_32BIT_BYTES = 1 << 31
_MAX_64BIT_BYTES = 1 << 52
# PCI Express Base Specification, Resizable BAR capability: sizes start at 1 MiB.
_MIN_RESIZABLE_BYTES = 1 << 20


def check_machine(machine: Machine) -> None:
    """Raise MachineError for the first thing in the machine that cannot be."""
    boards: dict[str, Board] = {}
    for _root, device in machine.devices():
        known = boards.setdefault(device.board.name, device.board)
        if known != device.board:
            raise refuse(
                f"boards.{known.name}", known.name, "names two different boards", "give each board its own name"
            )
    for board in boards.values():
        check_board(board)
    _check_roots(machine)
    _check_devices(machine)


def check_board(board: Board) -> None:
    """Raise MachineError for the first thing in the board that cannot be."""
    path = f"boards.{board.name}"
    if (board.qemu_device is not None) != (board.served == "qemu"):
        remedy = 'a board that is served by "qemu" names its qemu_device, and no other does'
        raise refuse(f"{path}.qemu_device", board.qemu_device, f'does not go with served: "{board.served}"', remedy)
    if board.served == "qemu" and board.server is not None:
        raise refuse(
            f"{path}.server", board.server, "serves a board that QEMU serves itself", "drop server, or served: qemu"
        )
    if board.gpu is not None and board.kind != "gpu":
        raise refuse(f"{path}.gpu", board.kind, "is the kind of a board with GPU facts", 'drop gpu, or say kind: "gpu"')
    if board.nic is not None and board.kind != "nic":
        raise refuse(f"{path}.nic", board.kind, "is the kind of a board with facts of a network adapter", "drop nic")
    numbers = [function.number for function in board.functions]
    if not numbers or numbers[0] != 0 or numbers != sorted(set(numbers)) or numbers[-1] > 7:
        raise refuse(
            f"{path}.functions",
            numbers,
            "are not function numbers in order",
            "start at 0, each number from 0 to 7 once",
        )
    for function in board.functions:
        _check_function(function, path if function.number == 0 else f"{path}.functions.{function.number}")


def require_bars(board: Board) -> None:
    """Refuse a GPU without BARs where a virtual device is to be made of it.

    A board that something else plays (QEMU, a program of the user's own) brings its own BARs, and a switch or a network
    adapter without any still has its place, its ids and its reset.
    """
    if board.kind == "gpu" and board.served == "vfio-user" and board.server is None and not board.main.bars:
        raise refuse_missing(
            f"boards.{board.name}.bars",
            f"no public source tells the BARs of {board.product}, so a virtual device cannot be made of it; give them in "
            f'the description: boards: {{"my-{board.name}": {{"from": "{board.name}", "bars": {{0: "16M", 2: "128G"}}}}}}',
        )


def require_machine_bars(machine: Machine) -> None:
    """``require_bars`` for every device that no program of the user's own serves."""
    for _root, device in machine.devices():
        if device.server is None:
            require_bars(device.board)


def _check_function(function: Function, path: str) -> None:
    taken: dict[int, int] = {}
    for bar in function.bars:
        where = f"{path}.bars.{bar.index}"
        _check_bar(bar, where)
        for register in bar.registers:
            if register in taken:
                remedy = "a 64-bit BAR takes two registers; move one of them"
                raise refuse(
                    where,
                    format_size(bar.size_bytes),
                    f"needs register {register}, which BAR {taken[register]} takes",
                    remedy,
                )
            if register >= BAR_REGISTERS:
                remedy = "a 64-bit BAR takes two of the registers 0 to 5; use an earlier one or is_64bit: false"
                raise refuse(
                    where, format_size(bar.size_bytes), f"needs register {register}, which does not exist", remedy
                )
            taken[register] = bar.index


def _check_bar(bar: Bar, path: str) -> None:
    if bar.is_io:
        lowest, highest, what = _MIN_IO_BYTES, _MAX_IO_BYTES, "an I/O BAR"
        if bar.prefetchable or bar.is_64bit or bar.resizable_bytes:
            raise refuse(
                path,
                format_size(bar.size_bytes),
                "is an I/O BAR with flags of memory",
                "drop prefetchable, is_64bit and resizable",
            )
    elif bar.is_64bit:
        lowest, highest, what = _MIN_MEMORY_BYTES, _MAX_64BIT_BYTES, "a 64-bit memory BAR"
    else:
        lowest, highest, what = _MIN_MEMORY_BYTES, _MAX_32BIT_BYTES, "a 32-bit memory BAR"
    if bar.size_bytes & (bar.size_bytes - 1) or not lowest <= bar.size_bytes <= highest:
        remedy = f"{what} has a power of two from {format_size(lowest)} to {format_size(highest)}"
        raise refuse(f"{path}.size", format_size(bar.size_bytes), "cannot be the size of a BAR", remedy)
    for size_bytes in bar.resizable_bytes:
        if size_bytes & (size_bytes - 1) or not _MIN_RESIZABLE_BYTES <= size_bytes <= highest:
            remedy = f"a resizable BAR offers powers of two from 1M to {format_size(highest)}"
            raise refuse(f"{path}.resizable", format_size(size_bytes), "cannot be the size of a resizable BAR", remedy)
    if bar.resizable_bytes and bar.size_bytes not in bar.resizable_bytes:
        offered = ", ".join(format_size(size) for size in bar.resizable_bytes)
        raise refuse(
            f"{path}.resizable", offered, f"does not offer {format_size(bar.size_bytes)}, the size at reset", "add it"
        )


def _check_roots(machine: Machine) -> None:
    places: dict[tuple[int, int], str] = {}
    for root in machine.roots:
        path = f"roots.{root.name}"
        place = parse_root(root.name, path)
        if place in places:
            raise refuse(path, root.name, f"is the same root as {places[place]}", "give each root once")
        places[place] = root.name
        if root.numa_node is not None and not 0 <= root.numa_node < machine.numa_nodes:
            remedy = f"the machine has numa_nodes: {machine.numa_nodes}, so use 0 to {machine.numa_nodes - 1} or raise numa_nodes"
            raise refuse(f"{path}.numa_node", root.numa_node, "is no NUMA node of the machine", remedy)


def _check_devices(machine: Machine) -> None:
    roots = sorted(parse_root(root.name, root.name) for root in machine.roots)
    names: dict[str, str] = {}
    slots: dict[str, str] = {}
    for path, root, device in _with_paths(machine.roots):
        if device.name in names:
            raise refuse(
                path,
                device.name,
                f"is also the name of {names[device.name]}",
                "give each device of the machine its own name",
            )
        names[device.name] = path
        _check_place(path, root, device, roots)
        if device.address in slots:
            raise refuse(
                f"{path}.address",
                device.address,
                f"is also the address of {slots[device.address]}",
                "give each device its own",
            )
        slots[device.address] = path
        if device.mig is not None:
            if device.board.kind != "gpu":
                raise refuse(f"{path}.mig", device.board.kind, "is no kind of board that MIG divides", "drop mig")
            place_instances(device.board, device.mig, f"{path}.mig")
        if device.network is not None and device.board.kind != "nic":
            raise refuse(f"{path}.network", device.board.kind, "is not the kind of a network adapter", "drop network")
        if device.board.served == "qemu" and device.server is not None:
            raise refuse(
                f"{path}.server",
                device.server,
                "serves a board that QEMU serves itself",
                "drop it or choose another board",
            )


def _check_place(path: str, root: PcieRoot, device: Device, roots: Sequence[tuple[int, int]]) -> None:
    location = locate(device.address, f"{path}.address")
    domain, bus = parse_root(root.name, f"roots.{root.name}")
    following = min((other for name, other in roots if name == domain and other > bus), default=0x100)
    if location.domain != domain or not bus <= location.bus < following:
        remedy = f"devices below {root.name} have the addresses {domain:04x}:{bus:02x}:00.0 to {domain:04x}:{following - 1:02x}:1f.0"
        raise refuse(f"{path}.address", device.address, "is not below this root", remedy)
    if location.function != 0:
        remedy = "a device's address is that of its function 0; the others are the board's functions"
        raise refuse(f"{path}.address", device.address, f"has the function number {location.function}", remedy)


def _with_paths(roots: Sequence[PcieRoot]) -> Iterator[tuple[str, PcieRoot, Device]]:
    for root in roots:
        for device in root.devices:
            yield f"roots.{root.name}.devices.{device.name}", root, device


__all__ = ["MachineError", "check_board", "check_machine", "require_bars", "require_machine_bars"]
