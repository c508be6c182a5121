# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""PCI functions are read from sysfs as the kernel shows them, oddities included."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import (
    Sriov,
    companions,
    is_bridge,
    is_gpu,
    is_machine_display,
    is_nvswitch,
    read_function,
    read_functions,
)

MIB = 1 << 20
GIB = 1 << 30
# In the form in which Linux prints it: a free register is all zero, line 6 is the ROM, lines 7 to 12 belong to VFs.
H100_RESOURCE = """\
0x000003a042000000 0x000003a042ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000003a000000000 0x000003bfffffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000003a040000000 0x000003a041ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000a0000000 0x00000000a007ffff 0x000000000004e200
0x000003a043000000 0x000003a0437fffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000003c000000000 0x000003ffffffffff 0x000000000014220c
"""


def only(tree):
    (function,) = read_functions(tree.sysfs)
    return function


def test_bars_of_an_h100(tree):
    tree.add_function(lines=H100_RESOURCE.splitlines())
    function = only(tree)
    shown = [(b.index, b.start, b.size_bytes, b.is_64bit, b.prefetchable, b.is_io, b.assigned) for b in function.bars]
    assert shown == [
        (0, 0x3A042000000, 16 * MIB, True, True, False, True),
        (2, 0x3A000000000, 128 * GIB, True, True, False, True),
        (4, 0x3A040000000, 32 * MIB, True, True, False, True),
    ]
    assert function.vf_bars == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200", (16 * MIB, False, False, False), id="32-bit"
        ),
        pytest.param("0x0000000000006000 0x00000000000060ff 0x0000000000040101", (256, False, False, True), id="io"),
        pytest.param(
            "0x00000000c0000000 0x00000000cfffffff 0x0000000000042208",
            (256 * MIB, False, True, False),
            id="32-bit-pref",
        ),
        pytest.param(
            "0x0000380000000000 0x00003fffffffffff 0x0000000000140204",
            (8 << 40, True, False, False),
            id="64-bit-nonpref",
        ),
    ],
)
def test_flags_of_a_bar(tree, text, expected):
    tree.add_function(lines=[text])
    (bar,) = only(tree).bars
    assert (bar.size_bytes, bar.is_64bit, bar.prefetchable, bar.is_io) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0x0000000000000000 0x0000001fffffffff 0x000000000014220c", id="starts-at-zero"),
        pytest.param("0x0000380000000000 0x0000381fffffffff 0x000000002014220c", id="flag-unset"),
    ],
)
def test_an_unassigned_bar_keeps_its_size(tree, text):
    tree.add_function(lines=[text])
    (bar,) = only(tree).bars
    assert (bar.size_bytes, bar.assigned) == (128 * GIB, False)


@pytest.mark.parametrize("text", ["", "nonsense", "0x1 0x2", "0x10 0x8 0x14220c"])
def test_a_line_that_is_no_bar_is_left_out(tree, text):
    tree.add_function(lines=[text])
    assert only(tree).bars == ()


@pytest.mark.parametrize(
    ("mask", "sizes"),
    [
        pytest.param("00000000000001c0", (64 * MIB, 128 * MIB, 256 * MIB), id="the-kernels-own-example"),
        pytest.param("0000000000008100", (256 * MIB, 32 * GIB), id="rtx-4090"),
        pytest.param("0000000000000000", (), id="none"),
        pytest.param("", (), id="empty"),
    ],
)
def test_resizable_sizes(tree, mask, sizes):
    tree.add_function(bars={1: 256 * MIB}, resource1_resize=mask)
    assert only(tree).bars[0].resizable_bytes == sizes


@pytest.mark.parametrize(
    ("text", "node"), [("-1", None), ("0", 0), ("1", 1), (None, None), ("", None), ("strange", None)]
)
def test_numa_node(tree, text, node):
    tree.add_function(numa_node=text)
    assert only(tree).numa_node == node


@pytest.mark.parametrize(("text", "override"), [("(null)", None), ("", None), (None, None), ("vfio-pci", "vfio-pci")])
def test_driver_override(tree, text, override):
    tree.add_function(driver_override=text)
    assert only(tree).driver_override == override


def test_driver_group_and_the_rest(tree):
    tree.add_function(driver="vfio-pci", group=17, boot_vga="1", revision="0xa1")
    function = only(tree)
    assert (function.driver, function.iommu_group, function.boot_vga, function.power_state) == (
        "vfio-pci",
        17,
        True,
        "D0",
    )
    assert (function.vendor_id, function.device_id, function.class_code) == (0x10DE, 0x2330, 0x030200)
    assert (function.subsystem_vendor_id, function.subsystem_id, function.revision) == (0x10DE, 0x16C1, 0xA1)


def test_what_is_missing_is_none(tree):
    tree.add_function(numa_node=None, driver_override=None)
    function = only(tree)
    assert (function.driver, function.iommu_group, function.boot_vga, function.sriov) == (None, None, False, None)


@pytest.mark.parametrize(
    ("address", "root", "expected"),
    [
        ("0000:41:00.0", "pci0000:40", "pci0000:40"),
        ("0001:c8:00.0", "pci0001:c0/0001:c0:01.0", "pci0001:c0"),
        ("0009:01:00.0", "pci0009:00", "pci0009:00"),
        pytest.param("10000:01:00.0", "pci0000:d7/0000:d7:05.5/pci10000:00/10000:00:02.0", "pci10000:00", id="vmd"),
        pytest.param("0000:41:00.0", "platform", None, id="no-root-in-the-path"),
    ],
)
def test_root_is_the_nearest_in_the_path(tree, address, root, expected):
    tree.add_function(address=address, root=root)
    function = only(tree)
    assert (function.address, function.root) == (address, expected)


def test_order_is_by_number_and_domains_may_be_long(tree):
    for address in ("10000:01:00.0", "0000:c1:00.0", "0000:0a:00.0", "0001:01:00.0"):
        tree.add_function(address=address, root="pci" + address[:-8] + ":00")
    assert [f.address for f in read_functions(tree.sysfs)] == [
        "0000:0a:00.0",
        "0000:c1:00.0",
        "0001:01:00.0",
        "10000:01:00.0",
    ]


def test_a_function_that_goes_away_while_it_is_read(tree):
    tree.add_function()
    tree.link("sys/bus/pci/devices/0000:42:00.0", tree.path / "sys/devices/pci0000:40/0000:42:00.0")
    assert [f.address for f in read_functions(tree.sysfs)] == ["0000:41:00.0"]
    assert read_function("0000:42:00.0", tree.sysfs) is None


def test_a_machine_without_pci(tmp_path):
    assert read_functions(str(tmp_path)) == []


def test_sriov(tree):
    physical = tree.add_function(sriov_totalvfs="16", sriov_numvfs="2")
    tree.add_function(address="0000:41:00.4")
    tree.link("sys/devices/pci0000:40/0000:41:00.4/physfn", physical)
    first, second = read_functions(tree.sysfs)
    assert (first.sriov, second.sriov) == (Sriov(16, 2, None), Sriov(0, 0, "0000:41:00.0"))


@pytest.mark.parametrize(
    ("ids", "class_code", "gpu", "nvswitch", "bridge", "machine_display"),
    [
        ("10de:1eb8", "0x030000", True, False, False, False),
        ("10de:2330", "0x030200", True, False, False, False),
        ("1af4:1050", "0x038000", True, False, False, False),
        ("1002:74a5", "0x120000", True, False, False, False),
        pytest.param("1a03:2000", "0x030000", True, False, False, True, id="aspeed"),
        pytest.param("1b36:0100", "0x030000", True, False, False, True, id="qxl"),
        pytest.param("10de:22a3", "0x068000", False, True, False, False, id="nvswitch"),
        pytest.param("8086:1234", "0x068000", False, False, True, False, id="another-vendors-bridge"),
        pytest.param("1b36:000c", "0x060400", False, False, True, False, id="root-port"),
        pytest.param("10de:10f8", "0x040300", False, False, False, False, id="audio"),
        pytest.param("15b3:1021", "0x020700", False, False, False, False, id="nic"),
    ],
)
def test_kinds(tree, ids, class_code, gpu, nvswitch, bridge, machine_display):
    tree.add_function(ids=ids, class_code=class_code)
    function = only(tree)
    assert (is_gpu(function), is_nvswitch(function), is_bridge(function)) == (gpu, nvswitch, bridge)
    assert is_machine_display(function) is machine_display


def test_companions_are_the_other_functions_of_the_slot(tree):
    for address in ("0000:41:00.0", "0000:41:00.1", "0000:41:00.2", "0000:41:01.0", "0001:41:00.1"):
        tree.add_function(address=address)
    functions = read_functions(tree.sysfs)
    assert [f.address for f in companions(functions[0], functions)] == ["0000:41:00.1", "0000:41:00.2"]


def test_as_data(tree):
    tree.add_function(bars={0: 16 * MIB}, group=3)
    data = only(tree).to_dict()
    assert (data["vendor_id"], data["device_id"], data["class_code"], data["iommu_group"]) == (
        "10de",
        "2330",
        "030200",
        3,
    )
    assert data["bars"][0]["size_bytes"] == 16 * MIB
