# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layouts whose bus numbers were confirmed by QEMU's firmware (query-pci of 11.1.3) are the tables here."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load, machine_names
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import PcieRoot
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.topology import (
    MAIN_BUS,
    Port,
    TopologyError,
    plan_topology,
)
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.host_support import (
    device,
    machine,
    pair,
)


def number_buses(ports: tuple[Port, ...]) -> dict[str, int]:
    """What SeaBIOS does (src/fw/pciinit.c, pci_bios_init_bus_rec): depth-first by slot, skipping what a port reserves."""
    numbers: dict[str, int] = {}
    for parent in {port.parent for port in ports}:
        last = 0 if parent == MAIN_BUS else int(parent.removeprefix("root"), 16)
        for port in sorted((port for port in ports if port.parent == parent), key=lambda port: port.slot):
            numbers[port.id] = last + 1
            last += 1 + port.reserve
    return numbers


def test_one_device_behind_a_port_of_each_root():
    topology = plan_topology(pair(), 4)
    assert [(item.id, item.bus) for item in topology.expanders] == [("root40", 0x40), ("root80", 0x80)]
    assert [(port.parent, port.slot, port.bus, port.reserve, port.filler) for port in topology.ports] == [
        ("root40", 0, 0x41, 0, False),
        ("root80", 0, 0x81, 0, False),
    ]
    assert topology.addresses() == {"gpu0": "0000:41:00.0", "gpu1": "0000:81:00.0"}
    assert topology.moved() == {}


def test_gaps_are_reserved_by_the_port_before_or_by_a_filler():
    root = PcieRoot("pci0000:40", 1, tuple(device(f"d{bus}", f"0000:{bus:02x}:00.0") for bus in (0x45, 0x46, 0x5F)))
    ports = plan_topology(machine(root), 4).ports
    assert [(port.bus, port.reserve, port.filler) for port in ports] == [
        (0x41, 3, True),
        (0x45, 0, False),
        (0x46, 24, False),
        (0x5F, 0, False),
    ]
    assert number_buses(ports) == {port.id: port.bus for port in ports}


def test_devices_on_the_main_bus_keep_their_slot_and_nothing_else_gets_it():
    roots = (
        PcieRoot("pci0000:00", 0, (device("a", "0000:00:01.0"), device("b", "0000:03:00.0"))),
        PcieRoot("pci0000:10", 0, (device("c", "0000:11:00.0"),)),
    )
    topology = plan_topology(machine(*roots), 4)
    assert topology.addresses() == {"a": "0000:00:01.0", "b": "0000:03:00.0", "c": "0000:11:00.0"}
    taken = [item.main_slot for item in topology.expanders] + [
        port.slot for port in topology.ports if port.parent == MAIN_BUS
    ]
    assert not {0, 1, 0x1F} & set(taken) and not set(taken) & set(topology.free_main_slots)
    assert len(set(taken)) == len(taken)


def test_devices_that_cannot_be_where_they_are_described_move_and_are_named():
    roots = (
        # QEMU puts only bridges on an added root, and behind a port there is slot 0 alone.
        PcieRoot(
            "pci0000:10", 0, (device("a", "0000:10:1c.0"), device("b", "0000:11:00.0"), device("c", "0000:12:03.0"))
        ),
        PcieRoot("pci0008:00", None, (device("d", "0008:01:00.0"), device("e", "0008:00:05.0"))),
    )
    topology = plan_topology(machine(*roots), 4)
    assert topology.addresses() == {
        "a": "0000:12:00.0",
        "b": "0000:11:00.0",
        "c": "0000:13:00.0",
        "d": "0000:02:00.0",
        "e": "0000:03:00.0",
    }
    assert topology.moved() == {"a": "0000:10:1c.0", "c": "0000:12:03.0", "d": "0008:01:00.0", "e": "0008:00:05.0"}


@pytest.mark.parametrize("name", machine_names())
def test_every_machine_of_the_catalog_can_be_laid_out(name: str):
    described = load(name)
    topology = plan_topology(described, 4)
    addresses = topology.addresses()
    assert list(addresses) == [item.name for _root, item in described.devices()]
    assert len(set(addresses.values())) == len(addresses)
    assert number_buses(topology.ports) == {port.id: port.bus for port in topology.ports}
    # AWS shows its p4d GPUs on the root's own bus, and a GB200 tray has a PCI domain for each root; everything else is where
    # it is described.
    assert bool(topology.moved()) == (name in {"aws-p4d", "oci-gb200"})


@pytest.mark.parametrize(
    ("roots", "message"),
    [
        ((PcieRoot("pci0000:00", 0, (device("a", "0000:00:1f.0"),)),), "0000:00:1f.0, where QEMU's chipset is"),
        ((PcieRoot("pci0000:40", 0, (device("a", "0000:41:00.1"),)),), "main function is function 0"),
        ((PcieRoot("pci0000:40", 0, (device("a", "0000:3f:00.0"),)),), "cannot be below PCIe root pci0000:40"),
        ((PcieRoot("pci0000:40", 0, (device("a", "0001:41:00.0"),)),), "cannot be below PCIe root pci0000:40"),
        ((PcieRoot("pci40", 0, ()),), "no name like pci0000:40"),
        ((PcieRoot("pci0000:40", 0, (device("a", "41:00.0"),)),), "not like 0000:41:00.0"),
        (
            (PcieRoot("pci0000:40", 0, (device("a", "0000:51:00.0"),)), PcieRoot("pci0000:50", 0, ())),
            "pci0000:40 reaches to bus 51, but pci0000:50 begins at 50",
        ),
        ((PcieRoot("pci0000:ff", 0, (device("a", "0000:ff:01.0"),)),), "beyond bus ff"),
        (
            (PcieRoot("pci0000:00", 0, ()), PcieRoot("pci0001:00", 0, (device("a", "0001:ff:00.0"),))),
            "no 256 bus numbers are left",
        ),
        (tuple(PcieRoot(f"pci0000:{bus:02x}", 0, ()) for bus in range(0x10, 0x10 + 28)), "leaves 2 slots on bus 00"),
        (tuple(PcieRoot(f"pci0000:{bus:02x}", 0, ()) for bus in range(0x10, 0x10 + 40)), "pci0000:00 has too many"),
        (
            (PcieRoot("pci0000:40", 0, tuple(device(f"d{n}", f"0000:{0x41 + n:02x}:00.0") for n in range(33))),),
            "pci0000:40 has too many devices",
        ),
    ],
)
def test_what_cannot_be_is_refused(roots: tuple[PcieRoot, ...], message: str):
    with pytest.raises(TopologyError, match=message.replace("(", r"\(")):
        plan_topology(machine(*roots), 4)
