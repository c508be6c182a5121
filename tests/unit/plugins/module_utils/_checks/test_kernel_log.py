# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.kernel_log import bar_problems, same_function

FATAL = [
    # kernels up to 6.8
    "[    0.5] pci 0000:06:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]",
    "[    0.5] pci 0000:06:00.0: BAR 1: failed to assign [mem size 0x800000000 64bit pref]",
    "[    0.5] pci 0000:06:00.0: BAR 0: no space for [mem size 0x01000000]",
    "[    0.5] pci 0000:06:00.0: BAR 1: can't assign mem pref (size 0x400000)",
    "[    0.5] pci 0000:06:00.0: can't claim BAR 1 [mem 0x380000000000-0x381fffffffff 64bit pref]: no compatible bridge window",
    # later ones
    "[    0.5] pci 0000:06:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: can't assign; no space",
    "[    0.5] pci 0000:06:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: failed to assign",
    "[    0.5] pci 0000:06:00.0: BAR 1 [mem 0x380000000000-0x381fffffffff 64bit pref]: can't claim; no compatible bridge window",
    # a driver's own words, with and without a time stamp
    "nvidia 0000:06:00.0: BAR 1: can't reserve [mem 0xe0000000-0xefffffff 64bit pref]",
    "NVRM: BAR0 is 0M @ 0x0 (PCI:0000:06:00.0)",
]


@pytest.mark.parametrize("line", FATAL)
def test_a_bar_without_a_place_is_fatal(line: str) -> None:
    problems = bar_problems([line], "0000:06:00.0", nvidia=True)
    assert [(p.fatal, p.line) for p in problems] == [(True, line)]


@pytest.mark.parametrize(
    "line",
    [
        # virtual functions: "BAR 7" upwards in old kernels
        "pci 0000:06:00.0: BAR 7: no space for [mem size 0x00400000 64bit pref]",
        "pci 0000:06:00.0: BAR 10: failed to assign [mem size 0x00080000 64bit pref]",
        "pci 0000:06:00.0: VF BAR 0 [mem size 0x00400000 64bit pref]: can't assign; no space",
        # ROM and port BARs
        "pci 0000:06:00.0: BAR 6: no space for [mem size 0x00080000 pref]",
        "pci 0000:06:00.0: ROM [mem size 0x00080000 pref]: can't assign; no space",
        "pci 0000:06:00.0: BAR 5 [io  size 0x0080]: can't assign; no space",
    ],
)
def test_what_a_guest_does_not_need_is_a_warning(line: str) -> None:
    problems = bar_problems([line], "0000:06:00.0")
    assert [(p.fatal, p.recovered) for p in problems] == [(False, False)]


@pytest.mark.parametrize(
    "line",
    [
        "pci 0000:07:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]",
        "pci 0001:06:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]",
        "pci 0000:06:00.0: BAR 1: assigned [mem 0x380000000000-0x381fffffffff 64bit pref]",
        "pci 0000:06:00.0: BAR 1 [mem 0x380000000000-0x381fffffffff 64bit pref]",
        "NVRM: BAR0 is 0M @ 0x0 (PCI:0000:07:00.0)",
        "NVRM: The NVIDIA probe routine failed for 2 device(s).",
    ],
)
def test_lines_about_others_and_good_news_are_no_problem(line: str) -> None:
    assert bar_problems([line], "0000:06:00.0", nvidia=True) == []


@pytest.mark.parametrize(
    ("failed", "assigned"),
    [
        (
            "BAR 1: no space for [mem size 0x2000000000 64bit pref]",
            "BAR 1: assigned [mem 0x380000000000-0x381fffffffff 64bit pref]",
        ),
        (
            "BAR 1 [mem 0xc000-0xcfff]: can't claim; no compatible bridge window",
            "BAR 1 [mem 0x380000000000-0x381fffffffff 64bit pref]: assigned",
        ),
    ],
)
def test_a_later_assignment_makes_good_an_earlier_failure_and_only_that_order(failed: str, assigned: str) -> None:
    lines = [f"pci 0000:06:00.0: {failed}", f"pci 0000:06:00.0: {assigned}"]
    assert [(p.fatal, p.recovered) for p in bar_problems(lines, "0000:06:00.0")] == [(False, True)]
    assert [(p.fatal, p.recovered) for p in bar_problems(lines[::-1], "0000:06:00.0")] == [(True, False)]


def test_assigning_another_bar_makes_good_nothing() -> None:
    lines = [
        "pci 0000:06:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]",
        "pci 0000:06:00.0: BAR 0: assigned [mem 0x1000-0x1fff]",
    ]
    assert [p.fatal for p in bar_problems(lines, "0000:06:00.0")] == [True]


def test_the_nvidia_drivers_complaint_belongs_to_the_device_it_names() -> None:
    complaint = "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:"
    named = [complaint, "NVRM: BAR0 is 0M @ 0x0 (PCI:0000:07:00.0)"]
    assert [p.fatal for p in bar_problems(named, "0000:06:00.0", nvidia=True)] == [False]
    assert [p.fatal for p in bar_problems(named, "0000:07:00.0", nvidia=True)] == [False, True]
    assert [p.fatal for p in bar_problems([complaint], "0000:06:00.0", nvidia=True)] == [True]
    assert bar_problems([complaint], "0000:06:00.0", nvidia=False) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0000:06:00.0", "06:00.0", True),
        ("00000000:17:00.0", "0000:17:00.0", True),
        ("0000000F:01:00.0", "000f:01:00.0", True),
        ("0000:06:00.0", "0000:06:00.1", False),
        ("0001:c8:00.0", "0000:c8:00.0", False),
        ("10000:e1:00.0", "0000:e1:00.0", False),
    ],
)
def test_same_function(one: str, other: str, same: bool) -> None:
    assert same_function(one, other) is same
