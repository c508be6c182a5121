# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG layouts: where instances come to lie, and what does not fit."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import MachineError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.mig import place_instances
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import MigInstance

H100 = "nvidia-h100-sxm5-80gb"


def _placed(board: str, *layout: object) -> list[tuple[str, int]]:
    instances = [MigInstance(*item) if isinstance(item, tuple) else MigInstance(str(item)) for item in layout]
    return [(item.profile.name, item.start) for item in place_instances(BOARDS[board], instances, "mig")]


@pytest.mark.parametrize(
    ("layout", "starts"),
    [
        ([], []),
        (["7g.80gb"], [0]),
        (["1g.10gb"] * 7, [0, 1, 2, 3, 4, 5, 6]),
        (["3g.40gb", "2g.20gb", "1g.10gb"], [0, 4, 6]),
        (["1g.10gb", "2g.20gb", "3g.40gb"], [6, 4, 0]),
        (["3g.40gb", "4g.40gb"], [4, 0]),
        ([("3g.40gb", 4), "4g.40gb"], [4, 0]),
        (["3g.40gb", "3g.40gb", "1g.10gb"], None),
        (["1g.10gb+me", "1g.10gb"], [0, 1]),
        (["1g.20gb"] * 4, [0, 2, 4, 6]),
        # The largest go first, or the 2g would find the places of the 4g taken.
        (["2g.20gb", "4g.40gb"], [4, 0]),
        # The one with a start stays; the other goes around it.
        ([("1g.10gb", 0), "2g.20gb"], [0, 2]),
    ],
)
def test_places(layout: list[object], starts: list[int] | None) -> None:
    if starts is None:
        with pytest.raises(MachineError, match="does not fit"):
            _placed(H100, *layout)
    else:
        assert [start for _profile, start in _placed(H100, *layout)] == starts


@pytest.mark.parametrize(
    ("board", "layout", "words"),
    [
        (H100, ["1g.5gb"], ["mig[0]", "is not a MIG profile of this board", "1g.10gb"]),
        (H100, ["1c.3g.40gb"], ["mig[0]", "is not a MIG profile of this board"]),
        (H100, [("3g.40gb", 1)], ["mig[0].start", "is no place for 3g.40gb", "allowed: 0, 4"]),
        (H100, [("3g.40gb", 4), ("1g.10gb", 5)], ["mig[1].start", "memory slice 5"]),
        (H100, ["1g.10gb+me", "1g.10gb+me"], ["mig[0]", "is there 2 times", "at most 1"]),
        (H100, ["7g.80gb", "1g.10gb"], ["mig", "does not fit"]),
        ("nvidia-t4", ["1g.10gb"], ["mig", "is a board without MIG"]),
        ("nvidia-a30", ["1g.6gb"], ["boards.nvidia-a30.gpu.mig_profiles is missing", "description"]),
    ],
)
def test_what_cannot_be(board: str, layout: list[object], words: list[str]) -> None:
    with pytest.raises(MachineError) as caught:
        _placed(board, *layout)
    assert [word for word in words if word not in caught.value.message] == []


@pytest.mark.parametrize(
    "board", [board for board in BOARDS.values() if board.gpu and board.gpu.mig_profiles], ids=lambda b: b.name
)
def test_tables_are_possible(board) -> None:
    """What holds of every MIG table: names say what the figures say, and no instance is more than the whole."""
    assert board.gpu is not None and board.gpu.mig_profiles and board.gpu.memory_mib
    whole = max(board.gpu.mig_profiles, key=lambda profile: profile.memory_slices)
    assert len({profile.profile_id for profile in board.gpu.mig_profiles}) == len(board.gpu.mig_profiles)
    for profile in board.gpu.mig_profiles:
        assert profile.memory_mib <= whole.memory_mib <= board.gpu.memory_mib
        assert max(profile.placements) + profile.memory_slices <= whole.memory_slices
        assert profile.instances <= len(profile.placements)
        # go-nvlib's arithmetic: memory in eighths of the board's, rounded up, times the board's whole GiB.
        eighths = -(-profile.memory_mib * 8 // board.gpu.memory_mib)
        gib = round(eighths / 8 * -(-board.gpu.memory_mib // 1024) + 1e-9)
        assert profile.name.split("+")[0].split("g.")[1] == f"{gib}gb"
