# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors in every spelling, and messages that name option, value and what exists."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.select import SelectorError, select_gpus
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import read_functions


@pytest.fixture
def functions(tree):
    tree.add_function("0000:01:00.0", ids="10de:1eb8", root="pci0000:00")
    tree.add_function("0000:17:00.0", ids="10de:2330", root="pci0000:15")
    tree.add_function("0000:17:00.1", ids="10de:10f8", class_code="0x040300", root="pci0000:15")
    tree.add_function("0000:03:00.0", ids="1a03:2000", class_code="0x030000", root="pci0000:00")
    tree.add_function("0000:0a:00.0", ids="10de:22a3", class_code="0x068000", root="pci0000:00")
    tree.add_function("000f:c1:00.0", ids="10de:2330", root="pci000f:c0")
    tree.add_function("10000:01:00.0", ids="1002:74a5", class_code="0x120000", root="pci10000:00")
    return read_functions(tree.sysfs)


ALL_GPUS = ["0000:01:00.0", "0000:17:00.0", "000f:c1:00.0", "10000:01:00.0"]


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        (["0000:17:00.0"], ["0000:17:00.0"]),
        (["17:00.0"], ["0000:17:00.0"]),
        (["1:00.0"], ["0000:01:00.0"]),
        (["00000000:17:00.0"], ["0000:17:00.0"]),
        (["0000000F:C1:00.0"], ["000f:c1:00.0"]),
        ([" 000F:C1:00.0 "], ["000f:c1:00.0"]),
        (["10000:01:00.0"], ["10000:01:00.0"]),
        (["10de:2330"], ["0000:17:00.0", "000f:c1:00.0"]),
        (["10DE:2330"], ["0000:17:00.0", "000f:c1:00.0"]),
        (["all"], ALL_GPUS),
        (["ALL"], ALL_GPUS),
        pytest.param(
            ["10de:2330", "0000:17:00.0", "all"],
            ["0000:17:00.0", "000f:c1:00.0", "0000:01:00.0", "10000:01:00.0"],
            id="each-once",
        ),
        pytest.param(["0000:03:00.0"], ["0000:03:00.0"], id="a-management-display-when-named"),
        pytest.param(["0000:0a:00.0"], ["0000:0a:00.0"], id="an-nvswitch-when-named"),
        pytest.param(["10de:22a3"], ["0000:0a:00.0"], id="nvswitches-by-ids"),
        ([], []),
    ],
)
def test_selectors(functions, selectors, expected):
    assert [function.address for function in select_gpus(functions, selectors)] == expected


@pytest.mark.parametrize(
    ("selectors", "parts"),
    [
        pytest.param(["all", "0000:99:00.0"], ["gpus[1]", "0000:99:00.0", "no PCI function there"], id="nobody-there"),
        pytest.param(["0000:17:00.1"], ["gpus[0]", "0000:17:00.1", "no GPU but 10de:10f8"], id="audio"),
        pytest.param(["0000:17:00"], ["gpus[0]", "'0000:17:00'", "not a PCI address"], id="no-function-number"),
        pytest.param(["0000:17:20.0"], ["gpus[0]", "0000:17:20.0", "device number"], id="device-number"),
        pytest.param(["10de:9999"], ["gpus[0]", "10de:9999", "no GPU of this host has these ids"], id="unknown-ids"),
        pytest.param(["10de:10f8"], ["gpus[0]", "10de:10f8"], id="ids-of-no-gpu"),
        pytest.param([600.0], ["gpus[0]", "600.0", "quotes"], id="yaml-made-a-number-of-it"),
        pytest.param([None], ["gpus[0]", "None"], id="null"),
        pytest.param([""], ["gpus[0]", "''"], id="empty"),
    ],
)
def test_a_refusal_names_option_value_and_what_exists(functions, selectors, parts):
    with pytest.raises(SelectorError) as caught:
        select_gpus(functions, selectors)
    for part in [*parts, "0000:17:00.0 (10de:2330)", "10000:01:00.0 (1002:74a5)"]:
        assert part in caught.value.message
    assert caught.value.details["option"] == parts[0]


def test_a_host_without_a_gpu():
    assert select_gpus([], ["all"]) == []
    with pytest.raises(SelectorError, match="This host has no GPU"):
        select_gpus([], ["0000:41:00.0"])


def test_the_option_may_have_another_name(functions):
    with pytest.raises(SelectorError, match=r"^devices\[0\] is 0000:99:00.0"):
        select_gpus(functions, ["0000:99:00.0"], option="devices")
