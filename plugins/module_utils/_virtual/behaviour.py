# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Misbehaviour that a device can be told to show, for fault injection: one table of names; private to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# A vfio-user client such as QEMU gives up on a request after 5 s, so a stall beyond a minute adds nothing.
MAX_STALL_S = 60.0


class BehaviourError(FleetError):
    """A behaviour that does not exist or has a value that it cannot take."""


@dataclass(frozen=True)
class Behaviour:
    """How a device departs from a well-behaved one; the defaults are the well-behaved one."""

    config_ff_after_reset: bool = False
    stall_config_reads_s: float = 0.0


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise BehaviourError(f"{path} is {value!r}; it takes true or false.")
    return value


def _stall(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_STALL_S:
        raise BehaviourError(f"{path} is {value!r}; it takes a number of seconds from 0 to {MAX_STALL_S:g}.")
    return float(value)


# name in a description -> how its value is checked
KNOWN: Mapping[str, Callable[[object, str], Any]] = {
    "config_ff_after_reset": _flag,
    "stall_config_reads_s": _stall,
}


def parse_behaviour(raw: object, path: str = "behaviour") -> Behaviour:
    """The behaviour that a mapping of names asks for."""
    if not isinstance(raw, Mapping):
        raise BehaviourError(f"{path} is {raw!r}; it takes a mapping of names: {', '.join(KNOWN)}.")
    values: dict[str, Any] = {}
    for name, value in raw.items():
        if name not in KNOWN:
            raise BehaviourError(f"{path} names {name!r}, which no device can do; known are: {', '.join(KNOWN)}.")
        values[name] = KNOWN[name](value, f"{path}.{name}")
    return Behaviour(**values)
