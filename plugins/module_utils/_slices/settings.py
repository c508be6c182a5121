# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drivers a node runs, and how; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import (
    COMPUTE_DOMAIN,
    DRANET,
    FULL,
    GPU,
    STATIC_MIG,
)

VENDOR_NVIDIA = 0x10DE


@dataclass(frozen=True)
class DriverSettings:
    """A DRA driver on a node.

    ``release`` None is the newest known. ``options`` of static-mig: ``mig``, a layout for each GPU by the name of its device,
    "*" for all others; without it the machine's own layout holds.
    """

    driver: str
    release: Optional[str] = None
    mode: str = FULL
    options: Mapping[str, object] = field(default_factory=dict, hash=False)


def driver_arguments() -> dict[str, Any]:
    """The argument spec of the option ``drivers`` of modules that render a machine."""
    return {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "release": {"type": "str"},
            "mode": {"type": "str", "default": FULL},
            "options": {"type": "dict", "default": {}},
        },
    }


def chosen_drivers(machine: Machine, given: Optional[Sequence[Mapping[str, Any]]]) -> tuple[DriverSettings, ...]:
    """What the option ``drivers`` means; unset, those that have something to publish on the machine."""
    if given is None:
        return default_drivers(machine)
    return tuple(DriverSettings(entry["name"], entry["release"], entry["mode"], entry["options"]) for entry in given)


def default_drivers(machine: Machine) -> tuple[DriverSettings, ...]:
    """The drivers that have something to publish on a machine."""
    boards = [device.board for _root, device in machine.devices()]
    drivers: list[DriverSettings] = []
    if any(board.kind == "gpu" and board.main.vendor_id == VENDOR_NVIDIA for board in boards):
        divided = any(device.mig is not None for _root, device in machine.devices())
        drivers.append(DriverSettings(GPU, mode=STATIC_MIG if divided else FULL))
        drivers.append(DriverSettings(COMPUTE_DOMAIN))
    if any(board.kind == "nic" for board in boards):
        drivers.append(DriverSettings(DRANET))
    return tuple(drivers)
