# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""The PCI functions that a machine description asks for, and who serves each; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Device, Function, Machine, PcieRoot
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.behaviour import parse_behaviour

SERVED_HERE = "vfio-user"
SERVED_BY_QEMU = "qemu"
SERVED_BY_COMMAND = "command"
SERVED_BY_SOCKET = "socket"


@dataclass(frozen=True)
class DeviceSpec:
    """One PCI function at its place in a machine.

    ``spec`` is the plain data that the device server takes, for functions that it serves (``served`` is "vfio-user").
    A function with ``served`` "command" or "socket" is played by a vfio-user program of the user's own, one with
    "qemu" by the device model ``qemu_device``.
    """

    name: str
    device: str
    function: int
    address: str
    root: str
    numa_node: Optional[int]
    served: str
    multifunction: bool = False
    qemu_device: Optional[str] = None
    command: tuple[str, ...] = ()
    socket: Optional[str] = None
    spec: Optional[Mapping[str, object]] = field(default=None, hash=False)


def device_specs(machine: Machine) -> list[DeviceSpec]:
    """Every function of every board, in the order of the machine."""
    return [spec for root, device in machine.devices() for spec in _of_device(root, device)]


def server_devices(specs: list[DeviceSpec], sockets: Mapping[str, str]) -> list[dict[str, object]]:
    """The ``devices`` of the device server's configuration; ``sockets`` has a path for each name that it serves."""
    return [
        {"name": item.name, "socket": sockets[item.name], "spec": dict(item.spec)}
        for item in specs
        if item.spec is not None
    ]


def _of_device(root: PcieRoot, device: Device) -> list[DeviceSpec]:
    functions = device.board.functions
    if device.board.served == SERVED_BY_QEMU:
        return [_place(root, device, device.board.main, SERVED_BY_QEMU, False)]
    own = _own_server(device)
    # A program of the user's own plays the main function; the companions are ours, so that the board stays whole.
    return [
        _place(
            root, device, function, own if own is not None and function.number == 0 else SERVED_HERE, len(functions) > 1
        )
        for function in functions
    ]


def _own_server(device: Device) -> Optional[str]:
    if device.server is None:
        return None
    return SERVED_BY_COMMAND if device.server.command else SERVED_BY_SOCKET


def _place(root: PcieRoot, device: Device, function: Function, served: str, multifunction: bool) -> DeviceSpec:
    slot, _dot, first = device.address.rpartition(".")
    own_server = device.server if served in (SERVED_BY_COMMAND, SERVED_BY_SOCKET) else None
    return DeviceSpec(
        name=device.name if function.number == 0 else f"{device.name}.{function.number}",
        device=device.name,
        function=function.number,
        address=f"{slot}.{int(first, 16) + function.number:x}",
        root=root.name,
        numa_node=root.numa_node,
        served=served,
        multifunction=multifunction,
        qemu_device=device.board.qemu_device if served == SERVED_BY_QEMU else None,
        command=own_server.command if own_server is not None else (),
        socket=own_server.socket if own_server is not None else None,
        spec=_function_spec(device, function, multifunction) if served == SERVED_HERE else None,
    )


def _function_spec(device: Device, function: Function, multifunction: bool) -> dict[str, object]:
    # Faults are injected into the main function; its companions stay well-behaved.
    behaviour = dict(device.behaviour) if function.number == 0 else {}
    parse_behaviour(behaviour, f"{device.name}.behaviour")
    return {
        "vendor_id": function.vendor_id,
        "device_id": function.device_id,
        "class_code": function.class_code,
        "subsystem_vendor_id": function.subsystem_vendor_id,
        "subsystem_id": function.subsystem_id,
        "revision": function.revision,
        "multifunction": multifunction,
        # Function n has pin INTA, INTB, ... as multifunction boards do.
        "interrupt_pin": function.number % 4 + 1,
        "bars": [
            {
                "index": bar.index,
                "size_bytes": bar.size_bytes,
                "prefetchable": bar.prefetchable,
                "is_64bit": bar.is_64bit and not bar.is_io,
                "is_io": bar.is_io,
                "resizable_bytes": list(bar.resizable_bytes),
            }
            for bar in function.bars
        ],
        "behaviour": behaviour,
    }
