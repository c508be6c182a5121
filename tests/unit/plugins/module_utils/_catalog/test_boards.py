# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""The catalog's boards: no figure without a source, nothing both sourced and unknown, and figures that fit together."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog import amd, nvidia
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import board_names
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.check import check_board, require_bars
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import MachineError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board

FACTS = {0x10DE: nvidia.FACTS, 0x1002: amd.FACTS}
# Classes that each kind may have: "gpu" is display controllers and processing accelerators alike.
CLASSES = {"gpu": (0x03, 0x12), "display": (0x03,), "nic": (0x02,), "nvswitch": (0x06,)}

# What must be there: vendor and device id, and the largest BAR in GiB where its BARs have a source.
REQUIRED = {
    "nvidia-t4": ("10de:1eb8", 0.25),
    "nvidia-a10": ("10de:2236", 32),
    "nvidia-a30": ("10de:20b7", 32),
    "nvidia-a100-sxm4-40gb": ("10de:20b0", 64),
    "nvidia-a100-pcie-40gb": ("10de:20f1", 64),
    "nvidia-a100-sxm4-80gb": ("10de:20b2", 128),
    "nvidia-a100-pcie-80gb": ("10de:20b5", 128),
    "nvidia-l4": ("10de:27b8", 32),
    "nvidia-l40s": ("10de:26b9", 64),
    "nvidia-h100-sxm5-80gb": ("10de:2330", 128),
    "nvidia-h100-pcie": ("10de:2331", None),
    "nvidia-h100-nvl": ("10de:2321", 128),
    "nvidia-h200-sxm-141gb": ("10de:2335", 256),
    "nvidia-b200": ("10de:2901", 256),
    "nvidia-b300-sxm6": ("10de:3182", 512),
    "nvidia-gb200": ("10de:2941", None),
    "nvidia-gb300": ("10de:31c2", None),
    "amd-mi210": ("1002:740f", 64),
    "amd-mi300x": ("1002:74a1", None),
    "amd-mi325x": ("1002:74a5", None),
    "nvidia-nvswitch-a100": ("10de:1af1", None),
    "nvidia-nvswitch-h100": ("10de:22a3", 0.03125),
    "nvidia-connectx-6": ("15b3:101b", 0.03125),
    "nvidia-connectx-7": ("15b3:1021", None),
    "nvidia-connectx-8": ("15b3:1023", None),
    "amazon-ena": ("1d0f:ec20", None),
    "amazon-efa-v1": ("1d0f:efa0", None),
    "amazon-efa-v2": ("1d0f:efa1", None),
    "amazon-efa-v3": ("1d0f:efa2", None),
    "virtio-gpu": ("1af4:1050", 16384 / (1 << 30)),
}


@pytest.fixture(params=sorted(BOARDS), name="board")
def _board(request: pytest.FixtureRequest) -> Board:
    return BOARDS[request.param]


def _fields(board: Board) -> set[str]:
    """Every field of a board that is a figure of the world."""
    fields = {"device_id", "class_code", "subsystem_id", "revision", "bars"}
    if board.gpu is not None:
        fields |= {"gpu.product_name"} | {f"gpu.{fact}" for fact in FACTS[board.main.vendor_id]}
    if board.kind == "nic":
        fields.add("nic.rdma")
    return fields


def test_the_boards_are_those() -> None:
    assert board_names() == sorted(REQUIRED)


def test_ids_and_the_largest_bar(board: Board) -> None:
    ids, largest_gib = REQUIRED[board.name]
    assert f"{board.main.vendor_id:04x}:{board.main.device_id:04x}" == ids
    assert max((bar.size_bytes / (1 << 30) for bar in board.main.bars), default=None) == largest_gib


def test_every_field_has_a_source_or_is_unknown(board: Board) -> None:
    unsourced = _fields(board) - set(board.sources) - set(board.unknown)
    assert not unsourced
    assert not set(board.sources) & set(board.unknown)
    partly = {name for name in board.unknown if re.fullmatch(r"bars\.[0-5]", name)}
    assert set(board.sources) | set(board.unknown) == _fields(board) | partly


def test_what_is_unknown_is_absent(board: Board) -> None:
    main = board.main
    values = {
        "bars": main.bars,
        "revision": main.revision,
        "subsystem_id": (main.subsystem_vendor_id, main.subsystem_id) != (0, 0),
        **{f"gpu.{name}": value for name, value in (vars(board.gpu) if board.gpu else {}).items()},
        "nic.rdma": board.nic is not None and board.nic.rdma is not None,
    }
    assert [name for name in board.unknown if values.get(name)] == []
    present = [name for name, value in values.items() if value and name not in board.sources]
    assert present == []


def test_a_source_can_be_looked_up(board: Board) -> None:
    for field, text in board.sources.items():
        assert len(text) > 15, field
        assert not re.search(r"shared/|/work|/root|/home", text), field


def test_the_board_is_possible(board: Board) -> None:
    check_board(board)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", board.name)
    assert board.main.class_code >> 16 in CLASSES[board.kind]
    assert (board.gpu is not None) == (board.kind == "gpu")
    assert board.vendor and board.product


def test_the_aperture_that_nvidia_smi_prints_is_a_bar_that_lspci_prints() -> None:
    both = {
        board.name: (board.gpu.bar1_mib << 20, [bar.size_bytes for bar in board.main.bars])
        for board in BOARDS.values()
        if board.gpu and board.gpu.bar1_mib and board.main.bars
    }
    assert len(both) >= 5
    assert [name for name, (aperture_bytes, sizes_bytes) in both.items() if aperture_bytes not in sizes_bytes] == []


def test_boards_without_bars_say_so_when_played(board: Board) -> None:
    if board.kind != "gpu" or board.main.bars:
        require_bars(board)
        return
    with pytest.raises(MachineError) as caught:
        require_bars(board)
    assert f'"from": "{board.name}"' in caught.value.message


def test_the_tests_see_a_figure_without_source() -> None:
    board = BOARDS["nvidia-t4"]
    with pytest.raises(AssertionError):
        test_every_field_has_a_source_or_is_unknown(replace(board, sources={}))
    with pytest.raises(AssertionError):
        test_what_is_unknown_is_absent(replace(board, unknown=("bars",)))
