# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog's machines: which devices stand where, and that users can build on them."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.machines import MACHINES
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load, machine_names
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.check import require_machine_bars
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import MachineError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine

# Root, NUMA node, address, board.
LABS = {
    "lab-t4": [("pci0000:40", 0, "0000:41:00.0", "nvidia-t4")],
    "lab-h100": [("pci0000:40", 0, "0000:41:00.0", "nvidia-h100-sxm5-80gb")],
    "lab-b200": [("pci0000:40", 0, "0000:41:00.0", "nvidia-b200")],
    "lab-h100-pair": [
        ("pci0000:40", 0, "0000:41:00.0", "nvidia-h100-sxm5-80gb"),
        ("pci0000:80", 1, "0000:81:00.0", "nvidia-h100-sxm5-80gb"),
    ],
    "lab-mixed": [
        ("pci0000:40", 0, "0000:41:00.0", "nvidia-a100-sxm4-40gb"),
        ("pci0000:80", 0, "0000:81:00.0", "nvidia-t4"),
        ("pci0000:c0", 0, "0000:c1:00.0", "virtio-gpu"),
    ],
}
# CPUs, GiB, NUMA nodes, roots with devices, and how many of each board.
REAL = {
    "dgx-a100": (256, 1024, 8, 4, {"nvidia-a100-sxm4-40gb": 8, "nvidia-connectx-6": 8, "nvidia-nvswitch-a100": 6}),
    "dgx-h100": (224, 2048, 2, 8, {"nvidia-h100-sxm5-80gb": 8, "nvidia-connectx-7": 8}),
    "dgx-b200": (224, 2048, 2, 8, {"nvidia-b200": 8, "nvidia-connectx-7": 8}),
    "aws-p4d": (96, 1152, 2, 4, {"nvidia-a100-sxm4-40gb": 8, "amazon-efa-v1": 4, "amazon-ena": 3}),
    "oci-gb200": (144, 960e9 / (1 << 30), 2, 8, {"nvidia-gb200": 4, "nvidia-connectx-8": 4}),
    "aws-g4dn": (4, 16, 1, 1, {"nvidia-t4": 1}),
    "aws-p5": (192, 2048, 2, 8, {"nvidia-h100-sxm5-80gb": 8, "amazon-efa-v2": 32}),
    "aws-p6-b200": (192, 2048, 2, 4, {"nvidia-b200": 8}),
}


def test_the_machines_are_those() -> None:
    assert machine_names() == sorted({*LABS, *REAL})


@pytest.fixture(params=sorted(MACHINES), name="machine")
def _machine(request: pytest.FixtureRequest) -> Machine:
    return load(request.param)


@pytest.mark.parametrize("name", sorted(LABS))
def test_labs(name: str) -> None:
    machine = load(name)
    assert (machine.cpus, machine.memory_mb) == (2, 12288)
    assert machine.numa_nodes == max(row[1] for row in LABS[name]) + 1
    assert [
        (root.name, root.numa_node, device.address, device.board.name) for root, device in machine.devices()
    ] == LABS[name]
    # Every lab machine can be played as it is.
    require_machine_bars(machine)


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_ones(name: str) -> None:
    machine = load(name)
    cpus, memory_gib, numa_nodes, roots, boards = REAL[name]
    assert (machine.cpus, machine.memory_mb, machine.numa_nodes) == (cpus, int(memory_gib * 1024), numa_nodes)
    assert len(machine.roots) == roots
    assert Counter(device.board.name for _root, device in machine.devices()) == boards
    for field in ("cpus", "memory_mb", "numa_nodes", "roots", "roots.numa_node"):
        assert machine.sources[field]


def test_names_addresses_and_identities_are_unique(machine: Machine) -> None:
    devices = [device for _root, device in machine.devices()]
    for values in (
        [device.name for device in devices],
        [device.address for device in devices],
        [device.identity["serial"] for device in devices],
    ):
        assert len(set(values)) == len(values)
    assert all("uuid" in device.identity for device in devices if device.board.kind == "gpu")
    assert all("mac" in device.identity for device in devices if device.board.kind == "nic")


def test_gpus_are_numbered_as_a_driver_numbers_them(machine: Machine) -> None:
    names = [device.name for _root, device in machine.devices() if device.board.kind == "gpu"]
    assert names == [f"gpu{number}" for number in range(len(names))]


def test_boards_are_the_catalog_s(machine: Machine) -> None:
    assert all(BOARDS[board.name] == board for board in machine.boards())


def test_a_dgx_with_two_more_adapters() -> None:
    machine = load(
        {
            "from": "dgx-h100",
            "name": "dgx-with-storage",
            "roots": {
                "pci0000:00": {
                    "numa_node": 0,
                    "devices": {
                        "storage0": {"address": "0000:02:00.0", "board": "nvidia-connectx-7"},
                        "storage1": {"address": "0000:03:00.0", "board": "nvidia-connectx-7"},
                    },
                },
            },
        }
    )
    counts = Counter(device.board.name for _root, device in machine.devices())
    assert counts == {"nvidia-h100-sxm5-80gb": 8, "nvidia-connectx-7": 10}
    assert machine.sources["cpus"] == load("dgx-h100").sources["cpus"]


def test_a_board_without_bars_becomes_playable_by_giving_them() -> None:
    described = {
        "from": "lab-h100",
        "boards": {"my-gb200": {"from": "nvidia-gb200", "bars": {0: "64M", 2: "256G", 4: "32M"}}},
        "roots": {"pci0000:40": {"devices": {"gpu0": {"board": "my-gb200"}}}},
    }
    machine = load(described)
    require_machine_bars(machine)
    (board,) = machine.boards()
    assert (board.main.device_id, "bars" in board.unknown) == (0x2941, False)
    with pytest.raises(MachineError, match="nvidia-gb200"):
        require_machine_bars(load({**described, "roots": {"pci0000:40": {"devices": {"gpu0": {"board": "nvidia-gb200"}}}}}))  # fmt: skip


def test_a_misspelt_preset_is_told_the_nearest() -> None:
    with pytest.raises(MachineError, match="did you mean 'lab-h100-pair'"):
        load("lab-h100-pairs")
