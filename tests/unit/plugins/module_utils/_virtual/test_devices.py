# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a machine to its PCI functions: names, addresses, who serves them, and what the device server is told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    Bar,
    Board,
    Device,
    DeviceServer,
    Function,
    Machine,
    PcieRoot,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.devices import device_specs, server_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.serve import parse_config
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.spec import parse_spec

MIB = 1 << 20
VIDEO = Function(
    0,
    "video",
    0x10DE,
    0x2330,
    0x030200,
    0x10DE,
    0x16C1,
    0xA1,
    (Bar(0, 16 * MIB, False), Bar(2, 1 << 37, True, resizable_bytes=(1 << 28, 1 << 37))),
)
AUDIO = Function(
    1, "audio", 0x10DE, 0x22BB, 0x040300, bars=(Bar(0, 16384, False, is_64bit=False), Bar(5, 128, False, is_io=True))
)
SINGLE = Board("h100", "gpu", "NVIDIA", "H100", (VIDEO,))
DOUBLE = replace(SINGLE, name="card", functions=(VIDEO, AUDIO))
DISPLAY = Board("virtio-gpu", "display", "Red Hat", "virtio-gpu", (VIDEO,), served="qemu", qemu_device="virtio-gpu-pci")


def machine(*devices: Device) -> Machine:
    return Machine("m", 2, 4096, roots=(PcieRoot("pci0000:40", 1, devices),))


def test_functions_have_names_and_addresses() -> None:
    specs = device_specs(machine(Device("gpu0", "0000:41:00.0", SINGLE), Device("gpu1", "10000:e1:00.0", DOUBLE)))
    assert [(s.name, s.device, s.function, s.address, s.served, s.multifunction) for s in specs] == [
        ("gpu0", "gpu0", 0, "0000:41:00.0", "vfio-user", False),
        ("gpu1", "gpu1", 0, "10000:e1:00.0", "vfio-user", True),
        ("gpu1.1", "gpu1", 1, "10000:e1:00.1", "vfio-user", True),
    ]
    assert {(s.root, s.numa_node) for s in specs} == {("pci0000:40", 1)}


@pytest.mark.parametrize(
    ("board", "server", "served", "spec_names"),
    [
        (SINGLE, None, ["vfio-user"], ["gpu0"]),
        (DISPLAY, None, ["qemu"], []),
        (SINGLE, DeviceServer(command=("rocjitsu", "--socket", "{socket}")), ["command"], []),
        (SINGLE, DeviceServer(socket="/run/own.sock"), ["socket"], []),
        (DOUBLE, DeviceServer(socket="/run/own.sock"), ["socket", "vfio-user"], ["gpu0.1"]),
    ],
)
def test_who_serves(board: Board, server: DeviceServer | None, served: list[str], spec_names: list[str]) -> None:
    specs = device_specs(machine(Device("gpu0", "0000:41:00.0", board, server=server)))
    assert [s.served for s in specs] == served
    assert [s.name for s in specs if s.spec is not None] == spec_names
    assert specs[0].qemu_device == ("virtio-gpu-pci" if served == ["qemu"] else None)
    own = server or DeviceServer()
    assert (specs[0].command, specs[0].socket) == (own.command, own.socket)
    assert all((s.command, s.socket) == ((), None) for s in specs[1:])


def test_the_server_takes_what_it_is_given() -> None:
    specs = device_specs(
        machine(
            Device("gpu0", "0000:41:00.0", DOUBLE, behaviour={"config_ff_after_reset": True}),
            Device("vga", "0000:42:00.0", DISPLAY),
        )
    )
    devices = server_devices(specs, {"gpu0": "/s/gpu0", "gpu0.1": "/s/gpu0.1"})
    config = parse_config(json.loads(json.dumps({"devices": devices, "log": "/l"})))
    (video, audio) = config.devices
    assert video[:2] == ("gpu0", "/s/gpu0")
    assert audio[:2] == ("gpu0.1", "/s/gpu0.1")
    spec = video[2]
    assert (spec.vendor_id, spec.device_id, spec.class_code, spec.revision) == (0x10DE, 0x2330, 0x030200, 0xA1)
    assert (spec.subsystem_vendor_id, spec.subsystem_id, spec.multifunction) == (0x10DE, 0x16C1, True)
    assert [(b.index, b.size_bytes, b.prefetchable, b.is_64bit, b.resizable_bytes) for b in spec.bars] == [
        (0, 16 * MIB, False, True, ()),
        (2, 1 << 37, True, True, (1 << 28, 1 << 37)),
    ]
    assert [(b.index, b.is_64bit, b.is_io) for b in audio[2].bars] == [(0, False, False), (5, False, True)]
    assert (spec.interrupt_pin, audio[2].interrupt_pin) == (1, 2)
    assert (spec.behaviour.config_ff_after_reset, audio[2].behaviour.config_ff_after_reset) == (True, False)


def test_an_unknown_behaviour_is_refused_early() -> None:
    with pytest.raises(FleetError, match=r"gpu0.behaviour names 'sing', .* known are: config_ff_after_reset"):
        device_specs(machine(Device("gpu0", "0000:41:00.0", SINGLE, behaviour={"sing": True})))


def test_all_boards_of_the_catalog_can_be_served() -> None:
    boards = pytest.importorskip("ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards").BOARDS
    for board in boards.values():
        for item in device_specs(machine(Device("d", "0000:41:00.0", board))):
            if item.spec is not None:
                parse_spec(item.spec, board.name)
