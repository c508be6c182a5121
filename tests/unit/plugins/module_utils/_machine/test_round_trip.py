# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""A machine that is written as a description loads as the same machine: for many machines made at random, and for the catalog."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import PRESETS, load, machine_names
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.dump import machine_to_dict
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import load_machine
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    KINDS,
    Bar,
    Board,
    Device,
    DeviceServer,
    Function,
    GpuFacts,
    Machine,
    PcieRoot,
)

SEEDS = range(150)
# Texts that YAML would read as something else when a writer forgot the quotes.
TEXTS = ("plain", "", "1:00", "yes", "0x10", "null", "a: b", "é", '"', " x ", "1e3")


def _bars(chance: random.Random) -> tuple[Bar, ...]:
    bars: list[Bar] = []
    index = chance.choice((0, 0, 1))
    while index < 6 and chance.random() < 0.8:
        is_io = chance.random() < 0.15
        is_64bit = not is_io and index < 5 and chance.random() < 0.7
        size_bytes = 1 << (chance.randint(2, 8) if is_io else chance.randint(4, 40 if is_64bit else 31))
        resizable: tuple[int, ...] = ()
        if not is_io and size_bytes >= 1 << 20 and chance.random() < 0.4:
            resizable = tuple(sorted({size_bytes, 1 << 20, min(size_bytes * 2, 1 << 31)}))
        bars.append(
            Bar(index, size_bytes, not is_io and chance.random() < 0.5, is_64bit, is_io, resizable_bytes=resizable)
        )
        index += 2 if is_64bit else 1
    return tuple(bars)


def _function(chance: random.Random, number: int, name: str) -> Function:
    ids = [chance.randrange(1 << 16) for _ in range(4)]
    return Function(
        number, name, ids[0], ids[1], chance.randrange(1 << 24), ids[2], ids[3], chance.randrange(256), _bars(chance)
    )


def _board(chance: random.Random, name: str) -> Board:
    kind = chance.choice(KINDS)
    in_qemu = chance.random() < 0.2
    others = sorted(chance.sample(range(1, 8), chance.randint(0, 3)))
    gpu = None
    if kind == "gpu" and chance.random() < 0.8:
        gpu = GpuFacts(
            product_name=chance.choice(TEXTS[2:]),
            architecture=chance.choice((None, "Hopper")),
            memory_mib=chance.choice((None, 81559)),
            cuda_compute_capability=chance.choice((None, "9.0")),
            mig_capable=chance.choice((None, True, False)),
        )
    return Board(
        name=name,
        kind=kind,
        vendor=chance.choice(TEXTS),
        product=chance.choice(TEXTS[2:]),
        functions=(
            _function(chance, 0, kind),
            *(_function(chance, number, f"part{number}") for number in others),
        ),
        served="qemu" if in_qemu else "vfio-user",
        qemu_device="virtio-gpu-pci" if in_qemu else None,
        gpu=gpu,
        server=None if in_qemu else _server(chance),
        behaviour={"stall": chance.choice((0.5, "x", [1, {"y": True}]))} if chance.random() < 0.3 else {},
        sources={"bars": chance.choice(TEXTS)} if chance.random() < 0.5 else {},
        unknown=tuple(sorted(chance.sample(("revision", "subsystem_id", "bars"), chance.randint(0, 2)))),
    )


def _server(chance: random.Random) -> DeviceServer | None:
    return chance.choice((None, None, DeviceServer(command=("a", "--b", "1:00")), DeviceServer(socket="/run/x.sock")))


def _machine(seed: int) -> Machine:
    chance = random.Random(seed)
    boards = [_board(chance, f"board-{n}") for n in range(chance.randint(1, 4))]
    domain = chance.choice((0, 0, 1, 0x10000))
    buses = sorted(chance.sample(range(0, 0x100, 0x20), chance.randint(0, 4)))
    numa_nodes = chance.randint(1, 4)
    roots = []
    count = 0
    for bus in buses:
        devices = []
        for offset in sorted(chance.sample(range(0x20), chance.randint(0, 4))):
            board = chance.choice(boards)
            own = _server(chance) if board.served == "vfio-user" else None
            devices.append(
                Device(
                    name=f"device{count}",
                    address=f"{domain:04x}:{bus + offset:02x}:{chance.randrange(32):02x}.0",
                    board=board,
                    server=own or board.server,
                    behaviour={**board.behaviour, **({"slow": 1} if chance.random() < 0.3 else {})},
                    identity={"serial": "0042"} if chance.random() < 0.3 else {},
                )
            )
            count += 1
        numa_node = chance.choice((None, chance.randrange(numa_nodes)))
        roots.append(PcieRoot(f"pci{domain:04x}:{bus:02x}", numa_node, tuple(devices)))
    return Machine(
        name=f"machine-{seed}",
        cpus=chance.randint(1, 512),
        memory_mb=chance.randint(1, 1 << 21),
        numa_nodes=numa_nodes,
        phys_bits=chance.randint(36, 52),
        roots=tuple(roots),
        description=chance.choice(TEXTS),
        sources={"cpus": "1:00"} if chance.random() < 0.5 else {},
        unknown=("phys_bits",) if chance.random() < 0.5 else (),
    )


def _same(machine: Machine, again: Machine) -> None:
    assert again == machine
    # == on the dataclasses covers every field: none of them is left out of the comparison.
    assert machine_to_dict(again) == machine_to_dict(machine)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_machines(seed: int) -> None:
    machine = load_machine(_machine(seed))
    _same(machine, load_machine(machine_to_dict(machine)))


@pytest.mark.parametrize("seed", [*range(10)])
@pytest.mark.parametrize("suffix", [".json", ".yml"])
def test_by_way_of_a_file(tmp_path: Path, seed: int, suffix: str) -> None:
    machine = load_machine(_machine(seed))
    path = tmp_path / f"machine{suffix}"
    written = machine_to_dict(machine)
    path.write_text(json.dumps(written) if suffix == ".json" else yaml.safe_dump(written), encoding="utf-8")
    _same(machine, load_machine(str(path)))


@pytest.mark.parametrize("name", machine_names())
def test_the_catalog(name: str) -> None:
    machine = load(name)
    # It stands alone: no presets are needed to read it.
    _same(machine, load_machine(machine_to_dict(machine)))
    _same(machine, load({"from": name}))


def test_the_random_machines_hold_what_matters() -> None:
    machines = [load_machine(_machine(seed)) for seed in SEEDS]
    boards = [board for machine in machines for board in machine.boards()]
    bars = [bar for board in boards for function in board.functions for bar in function.bars]
    devices = [device for machine in machines for _root, device in machine.devices()]
    assert any(bar.is_io for bar in bars) and any(bar.resizable_bytes for bar in bars)
    assert {board.served for board in boards} == {"vfio-user", "qemu"}
    assert any(len(board.functions) > 2 for board in boards)
    assert any(device.server != device.board.server for device in devices)
    assert any(device.behaviour != device.board.behaviour for device in devices)
    assert any(device.identity["serial"] == "0042" for device in devices)


def test_derived_identities_are_not_written() -> None:
    written: Any = machine_to_dict(load("lab-h100"))
    assert "identity" not in written["roots"]["pci0000:40"]["devices"]["gpu0"]


def test_a_change_of_the_name_changes_the_identity_of_an_otherwise_equal_machine() -> None:
    first, second = (load_machine({"from": "lab-h100", "name": name}, PRESETS) for name in ("a", "b"))
    assert [d.identity for _r, d in first.devices()] != [d.identity for _r, d in second.devices()]
