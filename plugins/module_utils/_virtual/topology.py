# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places the devices of a machine on QEMU's PCI buses so that they appear at the described addresses. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Device, Machine, PcieRoot

# QEMU's name of the bus below the q35 chipset, which is root pci0000:00.
MAIN_BUS = "pcie.0"
# Taken on that bus by the chipset: the host bridge, and the LPC/SATA/SMBus functions.
CHIPSET_SLOTS = frozenset({0x00, 0x1F})
SLOTS_PER_BUS = 32
LAST_BUS = 0xFF

_ROOT = re.compile(r"^pci([0-9a-f]{4,8}):([0-9a-f]{2})$")
_ADDRESS = re.compile(r"^([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$")


class TopologyError(FleetError):
    """The machine cannot be laid out on a q35 machine."""


@dataclass(frozen=True)
class Expander:
    """A `pxb-pcie`: one PCIe root beside the chipset's own, with its first bus number."""

    id: str
    bus: int
    numa_node: Optional[int]
    main_slot: int


@dataclass(frozen=True)
class Port:
    """A root port. `reserve` further bus numbers after its own stay unused; a filler has no device and only takes numbers."""

    id: str
    parent: str
    slot: int
    bus: int
    chassis: int
    reserve: int = 0
    filler: bool = False


@dataclass(frozen=True)
class Placement:
    """Where a device goes (QEMU's bus and slot) and the address at which the host will see it."""

    device: Device
    parent: str
    slot: int
    address: str


@dataclass(frozen=True)
class Topology:
    expanders: tuple[Expander, ...]
    ports: tuple[Port, ...]
    placements: tuple[Placement, ...]
    free_main_slots: tuple[int, ...]

    def addresses(self) -> dict[str, str]:
        """The name of each device, and its address in the host."""
        return {placement.device.name: placement.address for placement in self.placements}

    def moved(self) -> dict[str, str]:
        """The devices that the host sees elsewhere than described, with the described address."""
        return {p.device.name: p.device.address for p in self.placements if p.device.address != p.address}


@dataclass(frozen=True)
class _Root:
    """A root with final bus numbers: a device with a slot is on the root's own bus, one without is behind a port."""

    root: PcieRoot
    first: int
    last: int
    seats: tuple[tuple[Device, int, Optional[int]], ...]


def plan_topology(machine: Machine, own_main_slots: int) -> Topology:
    """Lay out the machine. `own_main_slots` slots of the main bus are kept for the disk, the network and the like.

    The firmware numbers buses depth-first in the order of slots, beginning at each root's own number. So a root's ports are sorted
    by the bus they should have, and where numbers must be skipped the port before reserves them.

    Not every address can exist: a q35 machine has one PCI domain, QEMU puts only bridges on the bus of an added root, and behind a
    port there is slot 0 alone. Such devices move to a free bus of the same root, and `Topology.moved` tells.
    """
    roots = _number_roots(machine)
    used = {slot for item in roots if item.first == 0 for _device, _bus, slot in item.seats if slot is not None}
    wrong = sorted(used & CHIPSET_SLOTS)
    if wrong:
        raise TopologyError(
            f"machine {machine.name!r} has a device at 0000:00:{wrong[0]:02x}.0, where QEMU's chipset is; move it to another slot or bus",
            machine=machine.name,
        )
    free = [slot for slot in range(SLOTS_PER_BUS) if slot not in CHIPSET_SLOTS and slot not in used]
    expanders: list[Expander] = []
    ports: list[Port] = []
    placements: list[Placement] = []
    for item in roots:
        if item.first == 0:
            parent, slots = MAIN_BUS, free
        else:
            parent, slots = f"root{item.first:02x}", list(range(SLOTS_PER_BUS))
            expanders.append(Expander(parent, item.first, item.root.numa_node, _take(free, "pci0000:00")))
        root_ports, root_placements = _lay_out_root(item, parent, slots, len(ports))
        ports.extend(root_ports)
        placements.extend(root_placements)
    if len(free) < own_main_slots:
        raise TopologyError(
            f"machine {machine.name!r} leaves {len(free)} slots on bus 00; the virtual host's own devices need {own_main_slots}. "
            "Describe fewer PCIe roots or fewer devices under pci0000:00",
            machine=machine.name,
        )
    order = {device.name: index for index, (_root, device) in enumerate(machine.devices())}
    placements.sort(key=lambda placement: order[placement.device.name])
    return Topology(tuple(expanders), tuple(ports), tuple(placements), tuple(free))


def _lay_out_root(item: _Root, parent: str, slots: list[int], ports_before: int) -> tuple[list[Port], list[Placement]]:
    ports: list[Port] = []
    placements: list[Placement] = []
    next_bus = item.first + 1

    def add(bus: int, reserve: int, filler: bool) -> None:
        slot = _take(slots, item.root.name)
        ports.append(Port(f"port{bus:02x}", parent, slot, bus, ports_before + len(ports) + 1, reserve, filler))

    for device, bus, own_slot in item.seats:
        if own_slot is not None:
            placements.append(Placement(device, parent, own_slot, f"0000:{bus:02x}:{own_slot:02x}.0"))
            continue
        gap = bus - next_bus
        if gap > 0 and ports:
            ports[-1] = replace(ports[-1], reserve=gap)
        elif gap > 0:
            add(next_bus, gap - 1, True)
        add(bus, 0, False)
        placements.append(Placement(device, ports[-1].id, 0, f"0000:{bus:02x}:00.0"))
        next_bus = bus + 1
    return ports, placements


def _take(slots: list[int], root: str) -> int:
    if not slots:
        raise TopologyError(
            f"PCIe root {root} has too many devices or ports: its bus has {SLOTS_PER_BUS} slots", root=root
        )
    return slots.pop(0)


def _number_roots(machine: Machine) -> list[_Root]:
    """The roots in the order of their bus numbers; those of other domains come where numbers are free."""
    described = [(_root_parts(root), root) for root in machine.roots]
    kept = sorted(
        (_seat(root, first, first == 0) for (domain, first), root in described if domain == 0),
        key=lambda item: item.first,
    )
    for before, after in zip(kept, kept[1:]):
        if before.last >= after.first:
            raise TopologyError(
                f"PCIe root {before.root.name} reaches to bus {before.last:02x}, but {after.root.name} begins at {after.first:02x}",
                machine=machine.name,
            )
    for (domain, first), root in sorted(described, key=lambda entry: entry[0]):
        if domain != 0:
            kept.append(_move(_seat(root, first, False), kept))
            kept.sort(key=lambda item: item.first)
    for item in kept:
        if item.last > LAST_BUS:
            raise TopologyError(
                f"PCIe root {item.root.name} would reach beyond bus {LAST_BUS:02x}", machine=machine.name
            )
    return kept


def _seat(root: PcieRoot, first: int, own_bus: bool) -> _Root:
    """Bus numbers for the devices of one root; `own_bus`: devices may be on the root's own bus."""
    seats: list[tuple[Device, int, Optional[int]]] = []
    homeless: list[Device] = []
    for device in sorted(root.devices, key=_parts):
        domain, bus, slot, function = _parts(device)
        if domain != _root_parts(root)[0] or bus < first:
            raise TopologyError(
                f"device {device.name!r} at {device.address} cannot be below PCIe root {root.name}", device=device.name
            )
        if function != 0:
            raise TopologyError(
                f"device {device.name!r} is at {device.address}; a board's main function is function 0, the others follow from the board",
                device=device.name,
            )
        if bus == first and own_bus:
            seats.append((device, bus, slot))
        elif bus != first and slot == 0:
            seats.append((device, bus, None))
        else:
            homeless.append(device)
    taken = {bus for _device, bus, _slot in seats}
    bus = first
    for device in homeless:
        bus += 1
        while bus in taken:
            bus += 1
        seats.append((device, bus, None))
    seats.sort(key=lambda seat: (seat[1], seat[2] or 0))
    return _Root(root, first, max([first, *(seat[1] for seat in seats)]), tuple(seats))


def _move(item: _Root, kept: list[_Root]) -> _Root:
    """Shift a root to the lowest bus numbers that are free."""
    first, span = 1, item.last - item.first
    for other in kept:
        if first + span < other.first:
            break
        first = max(first, other.last + 1)
    if first + span > LAST_BUS:
        raise TopologyError(
            f"no {span + 1} bus numbers are left in PCI domain 0000 for root {item.root.name}", root=item.root.name
        )
    shift = first - item.first
    return _Root(item.root, first, first + span, tuple((device, bus + shift, slot) for device, bus, slot in item.seats))


def _root_parts(root: PcieRoot) -> tuple[int, int]:
    match = _ROOT.match(root.name)
    if match is None:
        raise TopologyError(f"PCIe root {root.name!r} has no name like pci0000:40", root=root.name)
    return int(match.group(1), 16), int(match.group(2), 16)


def _parts(device: Device) -> tuple[int, int, int, int]:
    match = _ADDRESS.match(device.address)
    if match is None:
        raise TopologyError(
            f"device {device.name!r} has the address {device.address!r}, which is not like 0000:41:00.0",
            device=device.name,
        )
    domain, bus, slot, function = (int(text, 16) for text in match.groups())
    return domain, bus, slot, function
