# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""A captured host loads as the machine that it is: roots, NUMA nodes, addresses and boards."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import Presets, load_machine
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Bar, Board, Function, GpuFacts
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.capture import capture_machine, kind_of
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.host import read_host
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import read_functions

MIB = 1 << 20
GIB = 1 << 30

H100 = Board(
    name="nvidia-h100",
    kind="gpu",
    vendor="nvidia",
    product="H100",
    functions=(
        Function(
            0, "gpu", 0x10DE, 0x2330, 0x030200, 0x10DE, 0x16C1, 0xA1,
            (Bar(0, 16 * MIB, True), Bar(2, 128 * GIB, True, resizable_bytes=(64 * GIB, 128 * GIB)), Bar(4, 32 * MIB, True)),
        ),
    ),
    gpu=GpuFacts("NVIDIA H100 80GB HBM3", memory_mib=81559),
    sources={"bars": "somewhere"},
)  # fmt: skip
T4 = Board(
    "nvidia-t4",
    "gpu",
    "nvidia",
    "T4",
    (Function(0, "gpu", 0x10DE, 0x1EB8, 0x030200, 0x10DE, 0x12A2, 0xA1, (Bar(1, 256 * MIB, True),)),),
)
VIRTIO_GPU = Board(
    "virtio-gpu", "display", "redhat", "virtio-gpu", (Function(0, "gpu", 0x1AF4, 0x1050, 0x038000),), served="qemu", qemu_device="virtio-gpu-pci"
)  # fmt: skip
BOARDS = {board.name: board for board in (H100, T4, VIRTIO_GPU)}
H100_BARS = {0: 16 * MIB, 2: 128 * GIB, 4: 32 * MIB}


def capture(tree, boards=None, **host):
    facts = replace(read_host(tree.sysfs, tree.procfs, tree.dev), cpus=2, memory_mib=6144, phys_bits=46, **host)
    boards = BOARDS if boards is None else boards
    description = capture_machine(read_functions(tree.sysfs), facts, boards, "lab 1")
    # What a module returns has gone through JSON.
    machine = load_machine(json.loads(json.dumps(description)), Presets(boards, {}))
    return description, machine


def place(machine):
    return [
        (root.name, root.numa_node, device.name, device.address, device.board.name)
        for root, device in machine.devices()
    ]


def test_boards_of_the_catalog_on_two_roots(tree):
    tree.add_function("0000:41:00.0", root="pci0000:40/0000:40:00.0", bars=H100_BARS, numa_node="0")
    tree.add_function("0000:81:00.0", root="pci0000:80/0000:80:00.0", bars=H100_BARS, numa_node="1")
    description, machine = capture(tree, numa_nodes=2)
    assert place(machine) == [
        ("pci0000:40", 0, "gpu0", "0000:41:00.0", "nvidia-h100"),
        ("pci0000:80", 1, "gpu1", "0000:81:00.0", "nvidia-h100"),
    ]
    assert description["boards"] == {}
    assert (machine.name, machine.cpus, machine.memory_mb, machine.numa_nodes, machine.phys_bits) == (
        "lab-1",
        2,
        6144,
        2,
        46,
    )
    assert machine.boards() == (H100,)


@pytest.mark.parametrize(
    ("ids", "class_code", "kind"),
    [
        ("10de:2330", "0x030200", "gpu"),
        ("1002:74a5", "0x120000", "gpu"),
        ("10de:22a3", "0x068000", "nvswitch"),
        ("15b3:1021", "0x020700", "nic"),
        ("1d0f:efa2", "0x020000", "nic"),
        ("1af4:1050", "0x038000", "display"),
        pytest.param("1af4:1041", "0x020000", None, id="virtio-net"),
        pytest.param("1af4:1042", "0x010000", None, id="virtio-blk"),
        pytest.param("1b36:000c", "0x060400", None, id="root-port"),
        pytest.param("1b36:000b", "0x060000", None, id="pxb"),
        pytest.param("1234:1111", "0x030000", None, id="qemus-vga"),
        pytest.param("1a03:2000", "0x030000", None, id="aspeed"),
        pytest.param("8086:29c0", "0x060000", None, id="host-bridge"),
        pytest.param("8086:0d53", "0x010802", None, id="nvme"),
    ],
)
def test_what_is_captured(tree, ids, class_code, kind):
    tree.add_function(ids=ids, class_code=class_code)
    assert kind_of(read_functions(tree.sysfs)[0]) == kind


def test_a_virtual_function_is_no_board(tree):
    physical = tree.add_function("0000:41:00.0", bars=H100_BARS)
    tree.add_function("0000:42:00.0", bars={0: 16 * MIB})
    tree.link("sys/devices/pci0000:40/0000:42:00.0/physfn", physical)
    assert [device[3] for device in place(capture(tree)[1])] == ["0000:41:00.0"]


def test_a_board_that_differs_from_the_catalogs_keeps_its_facts(tree):
    tree.add_function(
        bars={0: 16 * MIB, 2: 64 * GIB}, subsystem="10de:1839", resource2_resize=f"{(1 << 16 | 1 << 17):x}"
    )
    _description, machine = capture(tree)
    (board,) = machine.boards()
    assert board.name == "nvidia-h100-as-captured"
    assert [(bar.index, bar.size_bytes, bar.resizable_bytes) for bar in board.main.bars] == [
        (0, 16 * MIB, ()),
        (2, 64 * GIB, (64 * GIB, 128 * GIB)),
    ]
    assert (board.main.subsystem_id, board.gpu) == (0x1839, H100.gpu)


def test_a_board_that_the_catalog_does_not_have(tree):
    lines = [
        "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200",
        "0x0000380000000000 0x000038000fffffff 0x000000000014220c",
        "0x0000000000000000 0x0000000000000000 0x0000000000000000",
        "0x0000000000006000 0x000000000000607f 0x0000000000040101",
    ]
    tree.add_function("0000:41:00.0", ids="10de:1234", class_code="0x030000", lines=lines, revision="0xa1")
    tree.add_function(
        "0000:41:00.1",
        ids="10de:10f8",
        class_code="0x040300",
        lines=["0x00000000a1000000 0x00000000a1003fff 0x0000000000040200"],
    )
    tree.add_function("0000:42:00.0", ids="10de:1234", class_code="0x030000", lines=lines, revision="0xa2")
    description, machine = capture(tree)
    first, second = machine.boards()
    assert (first.name, second.name) == ("nvidia-1234-as-captured", "nvidia-1234-as-captured-2")
    assert [(f.number, f.vendor_id, f.device_id, f.class_code, f.revision) for f in first.functions] == [
        (0, 0x10DE, 0x1234, 0x030000, 0xA1),
        (1, 0x10DE, 0x10F8, 0x040300, 0xA1),
    ]
    assert first.main.bars == (
        Bar(0, 16 * MIB, prefetchable=False, is_64bit=False),
        Bar(1, 256 * MIB, prefetchable=True),
        Bar(3, 128, prefetchable=False, is_64bit=False, is_io=True),
    )
    assert first.functions[1].bars == (Bar(0, 16384, prefetchable=False, is_64bit=False),)
    assert description["boards"]["nvidia-1234-as-captured"]["sources"]["bars"] == "captured from lab 1"


def test_equal_boards_are_described_once(tree):
    for address in ("0000:41:00.0", "0000:42:00.0"):
        tree.add_function(address, ids="10de:1234", bars=H100_BARS)
    description, machine = capture(tree)
    assert list(description["boards"]) == ["nvidia-1234-as-captured"]
    assert len(place(machine)) == 2


def test_of_several_boards_with_the_same_ids_the_likest_is_taken(tree):
    other = replace(H100, name="an-h100-of-another-maker", functions=(replace(H100.main, subsystem_id=0x1234),))
    tree.add_function(bars=H100_BARS)
    assert place(capture(tree, {**BOARDS, other.name: other})[1])[0][4] == "nvidia-h100"


def test_companions_that_the_catalogs_board_lacks_or_has_in_addition(tree):
    with_audio = replace(H100, name="with-audio", functions=(H100.main, Function(1, "audio", 0x10DE, 0x10F8, 0x040300)))
    tree.add_function("0000:41:00.0", bars=H100_BARS)
    tree.add_function("0000:41:00.2", ids="10de:1ad8", class_code="0x0c0330")
    _description, machine = capture(tree, {"with-audio": with_audio})
    (board,) = machine.boards()
    assert [(f.number, f.device_id) for f in board.functions] == [(0, 0x2330), (2, 0x1AD8)]


def test_a_display_of_qemu_is_the_catalogs_whatever_its_bars(tree):
    tree.add_function(ids="1af4:1050", class_code="0x038000", bars={2: 16384}, subsystem="1af4:1100", revision="0x01")
    assert capture(tree)[1].boards() == (VIRTIO_GPU,)
    (board,) = capture(tree, {})[1].boards()
    assert (board.kind, board.served, board.qemu_device) == ("display", "qemu", "virtio-gpu-pci")


def test_roots_of_other_domains_and_below_a_vmd(tree):
    tree.add_function("0001:c8:00.0", root="pci0001:c0", bars=H100_BARS)
    tree.add_function("10000:01:00.0", root="pci0000:d7/0000:d7:05.5/pci10000:00", bars=H100_BARS)
    tree.add_function("0000:05:00.0", root="platform", bars=H100_BARS)
    assert [device[:4] for device in place(capture(tree)[1])] == [
        ("pci0000:00", None, "gpu0", "0000:05:00.0"),
        ("pci0001:c0", None, "gpu1", "0001:c8:00.0"),
        ("pci10000:00", None, "gpu2", "10000:01:00.0"),
    ]


def test_a_numa_node_that_the_host_does_not_count(tree):
    tree.add_function(bars=H100_BARS, numa_node="3")
    assert capture(tree, numa_nodes=1)[1].numa_nodes == 4


def test_a_host_without_devices_is_a_machine_as_well(tree):
    description, machine = capture(tree)
    assert (place(machine), description["roots"]) == ([], {})


def test_unknown_width_is_left_out(tree):
    facts = replace(read_host(tree.sysfs, tree.procfs, tree.dev), phys_bits=None)
    assert "phys_bits" not in capture_machine([], facts, {}, "lab")
