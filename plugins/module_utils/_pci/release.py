# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether functions were given back after a test, and giving them back, within a deadline. Private to the collection."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Callable, Iterable, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.bounded_write import write_bounded
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.holders import (
    Holder,
    find_holders,
    kernel_users,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.nodes import KFD
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.records import (
    RUN_DIR,
    Record,
    forget,
    holder_key,
    recall,
    remember,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import PciFunction, devices_folder, read_function

__all__ = [
    "RUN_DIR",
    "Record",
    "ReleaseState",
    "RestoreResult",
    "check_released",
    "forget",
    "recall",
    "remember",
    "restore",
]

VFIO_DRIVER = "vfio-pci"
# A write gets this long even when the deadline has passed, so that one stuck function does not cost the others their turn.
MIN_WRITE_S = 1.0
HOLDER_POLL_S = 0.5
SETTLE_S = 1.0
SETTLE_POLL_S = 0.05


@dataclass(frozen=True)
class ReleaseState:
    """Where a function stands after a test. `told_apart`: it had no driver before and is idle on vfio-pci now."""

    address: str
    released: bool
    reason: str
    former_known: bool
    former_driver: Optional[str]
    driver: Optional[str]
    driver_override: Optional[str]
    told_apart: bool = False
    holders: tuple[Holder, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "address": self.address,
            "released": self.released,
            "reason": self.reason,
            "former_known": self.former_known,
            "former_driver": self.former_driver,
            "driver": self.driver,
            "driver_override": self.driver_override,
            "told_apart": self.told_apart,
            "holders": [holder.to_dict() for holder in self.holders],
        }


@dataclass(frozen=True)
class RestoreResult:
    """What was done to give a function back; `done` only when sysfs shows it back."""

    address: str
    done: bool
    changed: bool
    reason: str
    actions: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "address": self.address,
            "done": self.done,
            "changed": self.changed,
            "reason": self.reason,
            "actions": list(self.actions),
            "holders": [holder.to_dict() for holder in self.holders],
        }


def check_released(
    addresses: Iterable[str],
    run_dir: str = RUN_DIR,
    sysfs: str = "/sys",
    procfs: str = "/proc",
    deadline: Optional[Deadline] = None,
) -> list[ReleaseState]:
    """Look, without touching anything, whether each function is back on its former driver and nothing holds it."""
    return [_state(address, run_dir, sysfs, procfs, deadline) for address in addresses]


def restore(
    addresses: Iterable[str],
    deadline: Deadline,
    run_dir: str = RUN_DIR,
    sysfs: str = "/sys",
    procfs: str = "/proc",
    sleep: Callable[[float], None] = time.sleep,
) -> list[RestoreResult]:
    """Put functions back as their records say: override, then driver. Whoever still holds one is waited for and named."""
    return [_Restore(address, deadline, run_dir, sysfs, procfs, sleep).run() for address in addresses]


def _state(address: str, run_dir: str, sysfs: str, procfs: str, deadline: Optional[Deadline]) -> ReleaseState:
    record = recall(address, run_dir)
    function = read_function(address, sysfs)
    if function is None:
        return ReleaseState(
            address, False, f"{address} is gone from the PCI bus; rescan the bus or reboot the host",
            record is not None, record.driver if record else None, None, None,
        )  # fmt: skip
    holders = tuple(find_holders([address], procfs, sysfs, deadline))
    leftover = _leftover(holders, record)
    told_apart = record is not None and record.driver is None and function.driver == VFIO_DRIVER
    released, reason = _verdict(function, record, leftover, told_apart)
    return ReleaseState(
        address=address,
        released=released,
        reason=reason,
        former_known=record is not None,
        former_driver=record.driver if record else None,
        driver=function.driver,
        driver_override=function.driver_override,
        told_apart=told_apart and released,
        holders=holders,
    )


def _verdict(
    function: PciFunction, record: Optional[Record], leftover: Sequence[Holder], told_apart: bool
) -> tuple[bool, str]:
    address = function.address
    if leftover:
        return False, f"{address} is still held: " + "; ".join(str(holder) for holder in leftover)
    if told_apart:
        return True, f"{address} had no driver before; it is left on {VFIO_DRIVER} and nothing holds it"
    if record is None:
        if function.driver == VFIO_DRIVER or function.driver_override is not None:
            return False, (
                f"{address} is on {_name(function.driver)} with driver_override {function.driver_override or 'unset'}, "
                "and its former driver is not on record"
            )
        return True, f"{address} is on {_name(function.driver)}; nothing is on record about it"
    if function.driver != record.driver:
        return False, f"{address} is on {_name(function.driver)}; it was on {_name(record.driver)} before"
    if function.driver_override != record.driver_override:
        return (
            False,
            f"{address} has driver_override {function.driver_override or 'unset'}; it was {record.driver_override or 'unset'} before",
        )
    return True, f"{address} is back on {_name(function.driver)} and nothing holds it"


def _leftover(holders: Iterable[Holder], record: Optional[Record]) -> list[Holder]:
    """Holders that the test left behind: not those of before, and not /dev/kfd, which does not tell one GPU from another."""
    before = set(record.held_by) if record else set()
    return [holder for holder in holders if holder.path != KFD and holder_key(holder) not in before]


def _name(driver: Optional[str]) -> str:
    return driver or "no driver"


class _Restore:
    """Gives one function back; a failed step ends it, and what was done until then is in the result."""

    def __init__(
        self, address: str, deadline: Deadline, run_dir: str, sysfs: str, procfs: str, sleep: Callable[[float], None]
    ) -> None:
        self.address = address
        self.deadline = deadline
        self.run_dir = run_dir
        self.sysfs = sysfs
        self.procfs = procfs
        self.sleep = sleep
        self.actions: list[str] = []

    def run(self) -> RestoreResult:
        record = recall(self.address, self.run_dir)
        function = read_function(self.address, self.sysfs)
        if record is None:
            return self._result(False, f"nothing is on record about {self.address}, so its former driver is not known")
        if function is None:
            return self._result(False, f"{self.address} is gone from the PCI bus; rescan the bus or reboot the host")
        if record.is_state_of(function):
            return self._result(True, f"{self.address} is on {_name(record.driver)} already")
        problem = self._override(function, record) or self._unbind(function, record) or self._bind(record)
        if problem is not None:
            holders = find_holders([self.address], self.procfs, self.sysfs)
            users = [str(holder) for holder in holders]
            users += [str(user) for user in kernel_users([self.address], self.sysfs)]
            named = "; held by: " + "; ".join(users) if users else ""
            return self._result(False, f"{self.address}: {problem}{named}", holders)
        after = read_function(self.address, self.sysfs)
        if after is None or not record.is_state_of(after):
            shown = (
                "gone"
                if after is None
                else f"on {_name(after.driver)} with driver_override {after.driver_override or 'unset'}"
            )
            return self._result(False, f"{self.address} is {shown} although every write went well")
        return self._result(True, f"{self.address} is back on {_name(record.driver)}")

    def _override(self, function: PciFunction, record: Record) -> Optional[str]:
        if function.driver_override == record.driver_override:
            return None
        # An empty line takes the override away.
        path = os.path.join(devices_folder(self.sysfs), self.address, "driver_override")
        return self._write(
            path, f"{record.driver_override or ''}\n", f"set driver_override to {record.driver_override or 'unset'}"
        )

    def _unbind(self, function: PciFunction, record: Record) -> Optional[str]:
        if function.driver is None or function.driver == record.driver:
            return None
        if self._wait_for_holders():
            return f"cannot be taken from {function.driver} while it is held (waited {self.deadline.elapsed_s():.0f} s)"
        path = os.path.join(devices_folder(self.sysfs), self.address, "driver", "unbind")
        problem = self._write(path, self.address, f"unbind from {function.driver}")
        return problem or self._settle(None)

    def _bind(self, record: Record) -> Optional[str]:
        now = read_function(self.address, self.sysfs)
        if record.driver is None or (now is not None and now.driver == record.driver):
            return None
        folder = os.path.join(self.sysfs, "bus", "pci", "drivers", record.driver)
        if not os.path.isdir(folder):
            return f"its former driver {record.driver} is not loaded; load it with: modprobe {record.driver}"
        problem = self._write(os.path.join(folder, "bind"), self.address, f"bind to {record.driver}")
        return problem or self._settle(record.driver)

    def _settle(self, driver: Optional[str]) -> Optional[str]:
        """Wait until sysfs shows the driver; a driver may probe after the write has ended."""
        limit = Deadline(max(SETTLE_S, self.deadline.remaining_s()))
        while True:
            function = read_function(self.address, self.sysfs)
            if function is None or function.driver == driver:
                return None
            if limit.expired():
                return f"is on {_name(function.driver)} although the write went well"
            self.sleep(SETTLE_POLL_S)

    def _wait_for_holders(self) -> bool:
        """Whether somebody still holds the function when the time is up; an unbind would wait for them without a limit."""
        while any(holder.path != KFD for holder in find_holders([self.address], self.procfs, self.sysfs)):
            if self.deadline.expired():
                return True
            self.sleep(min(HOLDER_POLL_S, max(self.deadline.remaining_s(), 0.01)))
        return False

    def _write(self, path: str, text: str, action: str) -> Optional[str]:
        problem = write_bounded(path, text, max(self.deadline.remaining_s(), MIN_WRITE_S))
        if problem is None:
            self.actions.append(action)
            return None
        return f"could not {action}: {problem}"

    def _result(self, done: bool, reason: str, holders: Sequence[Holder] = ()) -> RestoreResult:
        return RestoreResult(self.address, done, bool(self.actions), reason, tuple(self.actions), tuple(holders))
