# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What drivers functions had before a test touched them, one file each, gone with a reboot. Private to the collection."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Collection, Iterable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import read_json, write_json_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.holders import Holder
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import PciFunction

# A reboot puts every function back on its driver and empties /run, so that no record outlives what it tells.
RUN_DIR = "/run/gpulab-fleet/pci"
SCHEMA = 1


@dataclass(frozen=True)
class Record:
    """The former state of a function; `held_by` names what held it then and is no leftover afterwards."""

    address: str
    ids: str
    driver: Optional[str]
    driver_override: Optional[str]
    held_by: tuple[str, ...] = ()

    def is_state_of(self, function: PciFunction) -> bool:
        return (function.driver, function.driver_override) == (self.driver, self.driver_override)


def remember(
    functions: Iterable[PciFunction], run_dir: str = RUN_DIR, holders: Collection[Holder] = ()
) -> list[Record]:
    """Write down the drivers of functions before anything is done to them.

    A record that a broken-off run left stays until its function is back on its former driver; it alone still knows that one.
    """
    records = []
    for function in functions:
        known = recall(function.address, run_dir)
        if known is not None and known.ids == function.ids and not known.is_state_of(function):
            records.append(known)
            continue
        held_by = sorted({holder_key(holder) for holder in holders if function.address in holder.addresses})
        record = Record(function.address, function.ids, function.driver, function.driver_override, tuple(held_by))
        write_json_atomic(
            _path(function.address, run_dir),
            {
                "schema": SCHEMA,
                "address": record.address,
                "ids": record.ids,
                "driver": record.driver,
                "driver_override": record.driver_override,
                "held_by": list(record.held_by),
                "time": round(time.time(), 3),
            },
        )
        records.append(record)
    return records


def recall(address: str, run_dir: str = RUN_DIR) -> Optional[Record]:
    """The record of a function; None when there is none, or none that can be read."""
    try:
        content = read_json(_path(address, run_dir))
    except FleetError:
        # Half a file cannot come from write_json_atomic; whatever this is, it tells nothing about a driver.
        return None
    if not isinstance(content, Mapping) or content.get("schema") != SCHEMA or content.get("address") != address:
        return None
    held_by = content.get("held_by")
    return Record(
        address,
        str(content.get("ids", "")),
        _optional(content.get("driver")),
        _optional(content.get("driver_override")),
        tuple(str(item) for item in held_by) if isinstance(held_by, list) else (),
    )


def forget(addresses: Iterable[str], run_dir: str = RUN_DIR) -> None:
    """Remove the records of functions that are done with."""
    for address in addresses:
        try:
            os.unlink(_path(address, run_dir))
        except FileNotFoundError:
            continue


def holder_key(holder: Holder) -> str:
    """What stays the same of a holder when its process is started anew."""
    return holder.unit or holder.container or holder.command


def _optional(value: object) -> Optional[str]:
    return None if value is None else str(value)


def _path(address: str, run_dir: str) -> str:
    return os.path.join(run_dir, f"{address}.json")
