# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is checked of a machine that code has put together, and which boards cannot become virtual devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.check import (
    check_board,
    check_machine,
    require_bars,
    require_machine_bars,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import MachineError, Presets, load_machine
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board, DeviceServer, Machine


@pytest.fixture
def machine(small: dict[str, Any]) -> Machine:
    """The small machine."""
    return load_machine(small)


def _board(machine: Machine) -> Board:
    return machine.boards()[0]


def _without_bars(board: Board) -> Board:
    return replace(board, functions=(replace(board.main, bars=()),))


def _with_board(machine: Machine, board: Board) -> Machine:
    roots = tuple(
        replace(root, devices=tuple(replace(device, board=board) for device in root.devices)) for root in machine.roots
    )
    return replace(machine, roots=roots)


def test_a_machine_of_code_is_checked_and_gets_identities(machine: Machine) -> None:
    bare = _with_board(machine, _board(machine))
    roots = tuple(
        replace(r, devices=tuple(replace(d, identity={"serial": "7"}) for d in r.devices)) for r in bare.roots
    )
    identities = [device.identity for _root, device in load_machine(replace(bare, roots=roots)).devices()]
    assert [identity["serial"] for identity in identities] == ["7", "7"]
    assert [identity["uuid"][:4] for identity in identities] == ["GPU-", "GPU-"]


def test_one_name_for_two_boards(machine: Machine) -> None:
    first, second = machine.roots
    other = replace(second, devices=(replace(second.devices[0], board=replace(_board(machine), product="Other")),))
    with pytest.raises(MachineError, match=r"^boards\.mine: 'mine' names two different boards"):
        check_machine(replace(machine, roots=(first, other)))


def test_one_root_twice(machine: Machine) -> None:
    first, second = machine.roots
    with pytest.raises(MachineError, match=r"^roots\.PCI0000:40: .* is the same root as pci0000:40"):
        check_machine(replace(machine, roots=(first, replace(second, name="PCI0000:40"))))


def test_a_root_ends_where_the_next_begins(machine: Machine) -> None:
    first, second = machine.roots
    at_end = replace(first, devices=(replace(first.devices[0], address="0000:7f:1f.0"),))
    check_machine(replace(machine, roots=(at_end, second)))
    beyond = replace(first, devices=(replace(first.devices[0], address="0000:80:00.0"),))
    with pytest.raises(MachineError, match="is not below this root"):
        check_machine(replace(machine, roots=(beyond, second)))
    # A root of another domain is no limit, and neither is one that is not there.
    check_machine(replace(machine, numa_nodes=2, roots=(beyond,)))


@pytest.mark.parametrize("numbers", [(), (1,), (0, 0), (0, 2, 1), (0, 8)])
def test_function_numbers(machine: Machine, numbers: tuple[int, ...]) -> None:
    board = _board(machine)
    functions = tuple(replace(board.main, number=number) for number in numbers)
    with pytest.raises(MachineError, match=r"^boards\.mine\.functions: "):
        check_board(replace(board, functions=functions))


def test_qemu_s_own_devices_have_no_server(machine: Machine) -> None:
    board = replace(_board(machine), served="qemu", qemu_device="virtio-gpu-pci")
    check_machine(_with_board(machine, board))
    with pytest.raises(MachineError, match=r"^boards\.mine\.server: "):
        check_board(replace(board, server=DeviceServer(socket="/x")))
    roots = _with_board(machine, board).roots
    first = replace(roots[0], devices=(replace(roots[0].devices[0], server=DeviceServer(socket="/x")),))
    with pytest.raises(MachineError, match=r"^roots\.pci0000:40\.devices\.gpu0\.server: "):
        check_machine(replace(machine, roots=(first, roots[1])))


def test_a_gpu_without_bars_cannot_be_played(machine: Machine) -> None:
    board = _without_bars(_board(machine))
    check_board(board)
    with pytest.raises(
        MachineError, match=r"^boards\.mine\.bars is missing; no public source tells the BARs of Product"
    ):
        require_bars(board)
    with pytest.raises(MachineError, match=r"^boards\.mine\.bars is missing"):
        require_machine_bars(_with_board(machine, board))


def test_the_remedy_for_missing_bars_works(machine: Machine) -> None:
    board = _without_bars(_board(machine))
    presets = Presets(boards={"mine": board}, machines={"small": _with_board(machine, board)})
    remedy = {"my-mine": {"from": "mine", "bars": {0: "16M", 2: "128G"}}}
    use = {"pci0000:40": {"devices": {"gpu0": {"board": "my-mine"}}}, "pci0000:80": None}
    require_machine_bars(load_machine({"from": "small", "boards": remedy, "roots": use}, presets))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "nic", "gpu": None},
        {"kind": "nvswitch", "gpu": None},
        {"served": "qemu", "qemu_device": "virtio-gpu-pci"},
        {"server": DeviceServer(command=("mine",))},
    ],
)
def test_boards_that_need_no_bars(machine: Machine, change: dict[str, Any]) -> None:
    require_bars(replace(_without_bars(_board(machine)), **change))


def test_a_device_with_a_server_of_its_own_needs_no_bars(machine: Machine) -> None:
    bare = _with_board(machine, _without_bars(_board(machine)))
    served = tuple(
        replace(root, devices=tuple(replace(device, server=DeviceServer(socket="/x")) for device in root.devices))
        for root in bare.roots
    )
    require_machine_bars(replace(bare, roots=served))
    with pytest.raises(MachineError):
        require_machine_bars(replace(bare, roots=(served[0], bare.roots[1])))
