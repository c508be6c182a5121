# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""Machines and boards that build on others: what a patch adds, changes and removes."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.boards import GIVEN
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import MachineError, Presets, load_machine
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.merge import merge
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine


@pytest.fixture
def presets(small: dict[str, Any]) -> Presets:
    """Presets with the small machine and its board."""
    small["boards"]["mine"].update(sources={"bars": "a book", "revision": "a book"}, unknown=["subsystem_id"])
    small.update(sources={"cpus": "a book", "roots": "a book"}, unknown=["phys_bits"])
    machine = load_machine(small)
    return Presets(boards={board.name: board for board in machine.boards()}, machines={"small": machine})


def _addresses(machine: Machine) -> dict[str, str]:
    return {device.name: device.address for _root, device in machine.devices()}


# The examples of RFC 7396, appendix A, as far as a description can hold them.
MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("base", "patch", "expected"), MERGES)
def test_merge(base: object, patch: object, expected: object) -> None:
    assert merge(base, patch) == expected


def test_merge_changes_nothing_in_place() -> None:
    base, patch = {"a": {"b": 1}}, {"a": {"c": 2}}
    merge(base, patch)
    assert (base, patch) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_a_mapping_that_holds_itself_is_refused() -> None:
    endless: dict[str, object] = {}
    endless["a"] = endless
    with pytest.raises(MachineError, match="nested without end"):
        load_machine({"name": "x", "cpus": 1, "memory_mb": 1, "roots": {"pci0000:40": {"devices": endless}}})


def test_only_a_name_makes_another_machine_with_its_own_identities(presets: Presets) -> None:
    machine = load_machine({"from": "small", "name": "other"}, presets)
    assert machine.name == "other"
    assert _addresses(machine) == {"gpu0": "0000:41:00.0", "gpu1": "0000:81:00.0"}
    old = {device.identity["uuid"] for _root, device in presets_devices(presets)}
    new = {device.identity["uuid"] for _root, device in machine.devices()}
    assert len(old | new) == 4


def presets_devices(presets: Presets) -> list[Any]:
    return list(load_machine("small", presets).devices())


def test_add_a_device_to_a_root_and_a_root(presets: Presets) -> None:
    more = {
        "from": "small",
        "roots": {
            "pci0000:40": {"devices": {"gpu2": {"address": "42:00.0", "board": "mine"}}},
            "pci0000:c0": {"devices": {"gpu3": {"address": "c1:00.0", "board": "mine"}}},
        },
    }
    machine = load_machine(more, presets)
    assert list(_addresses(machine)) == ["gpu0", "gpu2", "gpu1", "gpu3"]
    assert [root.numa_node for root in machine.roots] == [0, 1, None]
    assert machine.sources == {"cpus": "a book", "roots": "a book; changed in the machine description"}


def test_a_root_of_a_patch_is_found_however_it_is_written(presets: Presets) -> None:
    machine = load_machine({"from": "small", "roots": {"0000:40": {"devices": {"gpu0": None}}}}, presets)
    assert _addresses(machine) == {"gpu1": "0000:81:00.0"}


def test_remove_a_root(presets: Presets) -> None:
    machine = load_machine({"from": "small", "roots": {"pci0000:80": None}}, presets)
    assert _addresses(machine) == {"gpu0": "0000:41:00.0"}


def test_change_one_field_of_a_device(presets: Presets) -> None:
    change = {"roots": {"pci0000:40": {"devices": {"gpu0": {"address": "0000:47:00.0"}}}}}
    machine = load_machine({"from": "small", **change}, presets)
    assert _addresses(machine)["gpu0"] == "0000:47:00.0"


def test_a_device_moves_by_removing_and_adding(presets: Presets) -> None:
    move = {
        "pci0000:40": {"devices": {"gpu0": None}},
        "pci0000:80": {"devices": {"gpu0": {"address": "82:00.0", "board": "mine"}}},
    }
    assert _addresses(load_machine({"from": "small", "roots": move}, presets)) == {
        "gpu1": "0000:81:00.0",
        "gpu0": "0000:82:00.0",
    }


def test_a_figure_that_was_changed_does_not_claim_the_old_source(presets: Presets) -> None:
    machine = load_machine({"from": "small", "cpus": 64, "phys_bits": 52}, presets)
    assert machine.sources == {"cpus": GIVEN, "phys_bits": GIVEN, "roots": "a book"}
    assert machine.unknown == ()
    own_source = load_machine({"from": "small", "cpus": 64, "sources": {"cpus": "my bill"}}, presets)
    assert own_source.sources["cpus"] == "my bill"


@pytest.mark.parametrize(
    ("patch", "path", "text"),
    [
        ({"from": "smal"}, "from", "did you mean 'small'?"),
        ({"from": 3}, "from", "is not text"),
        ({"from": "small", "sources": 3}, "sources", "3"),
        ({"from": "small", "name": None}, "name", "missing"),
        ({"from": "small", "roots": {"pci0000:40": {"devices": {"gpu7": {"address": "42:00.0"}}}}}, "roots.pci0000:40.devices.gpu7.board", "missing"),
        ({"from": "small", "roots": {"pci0000:40": {}, "0000:40": {}}}, "roots.0000:40", "same root"),
        ({"from": "small", "roots": {"pci0000:40": {"devices": {"gpu0": {"address": 600.0}}}}}, "roots.pci0000:40.devices.gpu0.address", '"0000:10:00.0"'),
        ({"from": "small", "boards": {"mine": {"bras": {}}}}, "boards.mine.bras", "did you mean 'bars'?"),
        ({"from": "small", "boards": {"new": {"bars": {0: "1M"}}}}, "boards.new.kind", "missing"),
        ({"from": "small", "boards": {"new": {"from": "nine"}}}, "boards.new.from", "did you mean 'mine'?"),
        ({"from": "small", "boards": {"new": {"from": ["mine"]}}}, "boards.new.from", "not the name of a board"),
        ({"from": "small", "boards": {"a": {"from": "b"}, "b": {"from": "a"}}}, "boards.b.from", "builds on itself"),
        ({"from": "small", "boards": {"mine": "yours"}}, "boards.mine", "not a mapping"),
    ],
)  # fmt: skip
def test_wrong_patches(presets: Presets, patch: object, path: str, text: str) -> None:
    with pytest.raises(MachineError) as caught:
        load_machine(patch, presets)
    assert caught.value.message.startswith((f"{path}: ", f"{path} is missing; ")), caught.value.message
    assert text in caught.value.message


def test_a_machine_s_board_that_is_removed_uncovers_the_preset(presets: Presets) -> None:
    changed = {"from": "small", "boards": {"mine": {"product": "Rival"}}}
    other = Presets(boards=presets.boards, machines={"rival": load_machine(changed, presets)})
    assert [board.product for board in load_machine("rival", other).boards()] == ["Rival"]
    uncovered = load_machine({"from": "rival", "boards": {"mine": None}}, other)
    assert [board.product for board in uncovered.boards()] == ["Product"]


def test_a_bar_that_only_changes_its_size_keeps_its_flags(presets: Presets) -> None:
    patch = {
        "from": "small",
        "boards": {"mine": {"functions": {1: {"bars": {0: "32K"}}}, "bars": {2: "256G", 4: None}}},
    }
    (board,) = load_machine(patch, presets).boards()
    assert [(bar.index, bar.size_bytes) for bar in board.main.bars] == [(0, 16 << 20), (2, 256 << 30)]
    (audio,) = board.functions[1].bars
    assert (audio.size_bytes, audio.is_64bit, audio.prefetchable) == (32 << 10, False, False)
    assert board.functions[1].name == "audio"
    assert board.sources == {"bars": GIVEN, "functions.1": GIVEN, "revision": "a book"}


def test_a_patched_board_of_a_machine_counts_for_all_its_devices(presets: Presets) -> None:
    machine = load_machine({"from": "small", "boards": {"mine": {"subsystem_id": "0x16c1"}}}, presets)
    assert {device.board.main.subsystem_id for _root, device in machine.devices()} == {0x16C1}
    (board,) = machine.boards()
    assert board.unknown == ()
    assert board.sources["subsystem_id"] == GIVEN


def test_boards_build_on_presets_and_on_each_other(presets: Presets) -> None:
    machine = load_machine(
        {
            "from": "small",
            "boards": {
                "biggest": {"from": "bigger", "product": "Biggest"},
                "bigger": {"from": "mine", "bars": {2: "256G"}, "gpu": {"memory_mib": 163840}},
            },
            "roots": {
                "pci0000:40": {"devices": {"gpu0": {"board": "bigger"}}},
                "pci0000:80": {"devices": {"gpu1": {"board": "biggest"}}},
            },
        },
        presets,
    )
    bigger, biggest = machine.boards()
    assert (bigger.name, bigger.product, biggest.name, biggest.product) == ("bigger", "Product", "biggest", "Biggest")
    assert [board.main.bars[1].size_bytes for board in (bigger, biggest)] == [256 << 30] * 2
    assert biggest.gpu is not None and (biggest.gpu.memory_mib, biggest.gpu.product_name) == (163840, "A GPU")
    assert bigger.sources["gpu.memory_mib"] == GIVEN
    assert "gpu.product_name" not in bigger.sources


def test_a_preset_board_is_changed_under_its_own_name_only_on_purpose(presets: Presets, small: dict[str, Any]) -> None:
    small["boards"] = {"mine": {"bars": {0: "32M"}}}
    with pytest.raises(MachineError, match=r'^boards\.mine\.from is missing; to change the preset, add from: "mine"'):
        load_machine(small, presets)
    small["boards"]["mine"]["from"] = "mine"
    (board,) = load_machine(small, presets).boards()
    assert [bar.size_bytes for bar in board.main.bars] == [32 << 20, 128 << 30, 32 << 20]
    (untouched,) = presets.boards.values()
    assert untouched.main.bars[0].size_bytes == 16 << 20


def test_a_board_of_ones_own_hides_the_preset(presets: Presets, small: dict[str, Any]) -> None:
    small["boards"]["mine"]["product"] = "Rival"
    assert {device.board.product for _root, device in load_machine(small, presets).devices()} == {"Rival"}
