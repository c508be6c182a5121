# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guest's kernel says about BARs that it could not place, in the wording of old and new kernels. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Iterable, Optional

_LINE = re.compile(
    r"(?:^|\s)[\w-]+ (?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?P<text>.*)$", re.IGNORECASE
)
# Kernels up to 6.8: "BAR 1: no space for [mem ...]"; later: "BAR 1 [mem ...]: can't assign; no space", "VF BAR 0 [...]", "ROM [...]".
# The oldest claim is the other way round: "can't claim BAR 0 [mem ...]: no compatible bridge window".
_BAR = re.compile(r"(?P<vf>VF )?BAR (?P<number>\d+)")
_FAILED = re.compile(r"can't assign|no space for|failed to assign|can't claim|can't reserve")
_ASSIGNED = re.compile(r": assigned\b")
_IO = re.compile(r"\[io\s")
# "NVRM: BAR0 is 0M @ 0x0 (PCI:0000:07:00.0)": the driver found a BAR without an address.
_NVRM_BAR = re.compile(r"NVRM: BAR(?P<number>\d+) is 0M @ 0x0 \(PCI:(?P<address>[0-9a-f:.]+)\)", re.IGNORECASE)
_NVRM_INVALID = "PCI I/O region assigned to your NVIDIA device is invalid"

# Numbers of the old wording above the six BARs: 6 is the ROM, 7 to 12 belong to virtual functions (PCI_IOV_RESOURCES), 13 up to bridge windows.
_LAST_BAR = 5


@dataclass(frozen=True)
class BarProblem:
    """A line about a BAR that found no place. Only a BAR of the device itself that never got one is fatal."""

    line: str
    index: Optional[int]
    fatal: bool
    recovered: bool = False


def bar_problems(lines: Iterable[str], address: str, nvidia: bool = False) -> list[BarProblem]:
    """All lines about BARs of the function at `address` that failed; a later assignment of the same BAR makes good what came before it."""
    problems: list[BarProblem] = []
    log = [line.strip() for line in lines]
    nobody_named = not any(_NVRM_BAR.search(line) for line in log)
    for line in log:
        if nvidia:
            problem = _nvrm(line, address, nobody_named)
            if problem is not None:
                problems.append(problem)
                continue
        match = _LINE.search(line)
        if match is None or not same_function(match["address"], address):
            continue
        text = match["text"]
        named = _BAR.search(text)
        if _FAILED.search(text):
            number = int(named["number"]) if named else None
            fatal = number is not None and number <= _LAST_BAR and not (named and named["vf"]) and not _IO.search(text)
            problems.append(BarProblem(line, number, fatal))
        elif named and not named["vf"] and _ASSIGNED.search(text):
            number = int(named["number"])
            problems = [
                replace(p, fatal=False, recovered=True) if p.fatal and p.index == number else p for p in problems
            ]
    return problems


def same_function(one: str, other: str) -> bool:
    """0000:06:00.0, 06:00.0 and nvidia-smi's 00000000:06:00.0 are one function."""
    return _normal(one) == _normal(other)


def _normal(address: str) -> str:
    parts = address.lower().split(":")
    if len(parts) == 2:
        parts.insert(0, "0")
    return f"{int(parts[0], 16):x}:{':'.join(parts[1:])}"


def _nvrm(line: str, address: str, nobody_named: bool) -> Optional[BarProblem]:
    found = _NVRM_BAR.search(line)
    if found:
        return BarProblem(line, int(found["number"]), True) if same_function(found["address"], address) else None
    # This line names no device. The next one usually does; where none does, every NVIDIA device is under suspicion.
    return BarProblem(line, None, nobody_named) if _NVRM_INVALID in line else None
