# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out the steps of a plan on LXD, and leaves GPUs on their former drivers whenever an instance stops. Private to the collection."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Optional, Sequence, TypeVar

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd import failures
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import (
    Instance,
    Lxd,
    LxdError,
    LxdEtagMismatch,
    LxdNotFound,
    LxdTimeout,
    LxdUnreachable,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.compare import compare, updated
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.hardware import Hardware
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import VIRTUAL_MACHINE
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.plan import (
    CREATE,
    DELETE,
    START,
    STOP,
    UNFREEZE,
    UPDATE,
    Plan,
    create_body,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.preflight import gpu_addresses, running_users
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.spec import InstanceSpec

T = TypeVar("T")

_UPDATE_TRIES = 4
_RETRY_S = 1.0
_DELETE_LIMIT_S = 120.0
_FORCED_STOP_LIMIT_S = 60.0


class StartFailed(FleetError):
    """LXD could not start the instance; details: reason, instance_log, holders, released."""


class NotReleased(FleetError):
    """After the instance stopped, a function is not back on its former driver; details: released."""


class Applier:
    """One instance, one deadline. `actions` tells what was done, also when a step fails."""

    def __init__(
        self,
        lxd: Lxd,
        hardware: Hardware,
        spec: InstanceSpec,
        deadline: Deadline,
        say: Callable[[str], None],
        warn: Callable[[str], None],
        stop_timeout_s: float,
        release_timeout_s: float,
    ) -> None:
        self._lxd = lxd
        self._hardware = hardware
        self._spec = spec
        self._deadline = deadline
        self._say = say
        self._warn = warn
        self._stop_timeout_s = stop_timeout_s
        self._release_timeout_s = release_timeout_s
        self.actions: list[str] = []
        self.released: list[dict[str, object]] = []

    def run(self, plan: Plan, source: Callable[[], Mapping[str, Any]]) -> None:
        """All steps in their order; `source` brings the image in when the instance is made."""
        steps: dict[str, Callable[[], None]] = {
            CREATE: lambda: self._create(source()),
            UPDATE: lambda: self._update(hot_only=plan.restart_required),
            STOP: self._stop,
            START: self._start,
            UNFREEZE: lambda: self._lxd.set_state(self._spec.name, "unfreeze", False, self._deadline),
            DELETE: self._delete,
        }
        for step in plan.steps:
            self._say(f"{step} {self._spec.name}")
            steps[step]()
            self.actions.append(step)
        if DELETE in plan.steps or self._spec.state == "stopped":
            self._demand_release()

    def give_back(self, addresses: Sequence[str]) -> None:
        """Check and restore functions that no other running instance has, and note how each stands."""
        others = patiently(lambda: running_users(self._lxd, addresses, self._spec.name), self._deadline)
        mine = [address for address in addresses if address not in others]
        if mine:
            self._say(f"giving {', '.join(mine)} back to the host")
            self.released = self._hardware.give_back(mine, self._release_timeout_s)

    def _create(self, source: Mapping[str, Any]) -> None:
        try:
            self._lxd.create(create_body(self._spec, source), self._deadline, self._say)
        except LxdError as error:
            # What a failed or unfinished creation leaves is not to be found by the next run.
            self._remove_unfinished()
            raise FleetError(
                f"LXD could not create {self._spec.name} from the image {_source_text(source)}: {error.message}",
                option="image",
                reason="create_failed",
                **error.details,
            ) from error

    def _remove_unfinished(self) -> None:
        try:
            observed = self._lxd.get_instance(self._spec.name)
            if observed is not None and observed.config.get("user.gpulab.fleet") and not observed.running:
                self._lxd.delete(self._spec.name, Deadline(_DELETE_LIMIT_S))
        except LxdError as error:
            self._say(f"could not remove the unfinished {self._spec.name}: {error.message}")

    def _update(self, hot_only: bool) -> None:
        for attempt in range(1, _UPDATE_TRIES + 1):
            observed = self._observe()
            changes = compare(self._spec, observed, self._lxd.has)
            if hot_only:
                changes = [change for change in changes if not change.cold]
            if not changes:
                return
            try:
                self._lxd.update(self._spec.name, updated(observed, changes), observed.etag, self._deadline)
                return
            except (LxdEtagMismatch, LxdUnreachable, LxdNotFound):
                if attempt == _UPDATE_TRIES:
                    raise
                # Somebody else changed the instance in between, or LXD was restarted: look again, and change only what
                # still differs.
                time.sleep(_RETRY_S / 4)
            except LxdError as error:
                paths = ", ".join(change.path for change in changes)
                raise LxdError(
                    f"LXD refused to change {paths} of {self._spec.name}: {error.message}",
                    status=error.status,
                    **error.details,
                ) from error

    def _start(self) -> None:
        addresses = self._addresses()
        if self._spec.kind == VIRTUAL_MACHINE and addresses:
            # LXD would wait in the kernel, without a limit, for whoever holds the GPU.
            self._hardware.wait_free(addresses, min(self._release_timeout_s, self._deadline.remaining_s()))
        if addresses:
            self._hardware.remember(addresses)
        try:
            self._request_start()
        except LxdError as error:
            raise self._start_failed(error, addresses) from error

    def _request_start(self) -> None:
        self._insist(
            lambda: self._lxd.set_state(self._spec.name, "start", False, self._deadline, self._say),
            lambda observed: observed is not None and observed.running,
        )

    def _insist(self, request: Callable[[], None], done: Callable[[Optional[Instance]], bool]) -> None:
        """Make a request, once more if LXD was restarted under it and has not carried it out."""
        try:
            request()
        except (LxdUnreachable, LxdNotFound):
            if not done(observe(self._lxd, self._spec.name, self._deadline)):
                request()

    def _start_failed(self, error: LxdError, addresses: Sequence[str]) -> StartFailed:
        details: dict[str, object] = {}
        log = self._log_lines()
        if isinstance(error, LxdTimeout):
            holders = self._hardware.holders(addresses) if addresses else None
            cause = failures.Cause(
                "start_hangs", "LXD's start does not end; with GPUs the host's driver often does not let go of one"
            )
            if holders:
                cause = failures.Cause(
                    "start_hangs", f"LXD's start does not end while {_names(holders)} hold the GPU; stop them"
                )
                details["holders"] = holders
        else:
            cause = failures.start_cause(error.message, log)
            self._roll_back(addresses)
        quoted = f"; QEMU: {_telling(log)}" if log and self._spec.kind == VIRTUAL_MACHINE else ""
        return StartFailed(
            f"{self._spec.name} did not start: {cause.text}; LXD: {_short(error.message)}{quoted}",
            reason=cause.reason,
            instance_log=log,
            lxd_error=error.message,
            actions=list(self.actions),
            released=self.released,
            **details,
        )

    def _roll_back(self, addresses: Sequence[str]) -> None:
        """A start that failed leaves nothing: the GPUs go back, and an instance made by this very call goes away."""
        try:
            if CREATE in self.actions:
                self._delete()
                self.actions.append("delete")
            self.give_back(addresses)
        except FleetError as error:
            self._say(f"cleaning up after the failed start: {error.message}")

    def _stop(self) -> None:
        addresses = self._addresses()
        if not self._spec.force and self._spec.state != "absent":
            self._stop_cleanly()
        else:
            self._end("stop", True, Deadline(_FORCED_STOP_LIMIT_S))
        self.give_back(addresses)

    def _stop_cleanly(self) -> None:
        if self._observe().status == "Error":
            # Nobody is left in there who could shut down.
            self._end("stop", True, Deadline(_FORCED_STOP_LIMIT_S))
            return
        try:
            self._end("stop", False, Deadline(self._stop_timeout_s))
        except LxdError as error:
            raise LxdError(
                f"{self._spec.name} did not shut down within {self._stop_timeout_s:.0f} s (stop_timeout_s): {error.message};"
                " set force: true to switch it off",
                option="force",
                reason="stop_refused",
            ) from error

    def _end(self, action: str, force: bool, deadline: Deadline) -> None:
        try:
            self._insist(
                lambda: self._lxd.set_state(self._spec.name, action, force, deadline, self._say),
                lambda observed: observed is None or not observed.running,
            )
        except LxdError:
            # It may have stopped by itself in the same moment.
            if self._observe().running:
                raise

    def _delete(self) -> None:
        observed = observe(self._lxd, self._spec.name, self._deadline)
        if observed is None:
            return
        addresses = gpu_addresses(self._lxd, observed)
        if observed.running:
            self._end("stop", True, Deadline(_FORCED_STOP_LIMIT_S))
        if not self.released and addresses:
            # Also when it was stopped long ago: a host that crashed meanwhile may have left a GPU between drivers.
            self.give_back(addresses)
        self._insist(
            lambda: self._lxd.delete(self._spec.name, Deadline(_DELETE_LIMIT_S)),
            # Gone is what was asked for, whoever did it.
            lambda observed: observed is None,
        )

    def _demand_release(self) -> None:
        missing = [state for state in self.released if not state.get("released")]
        # Without a record (the instance was started by somebody else) nobody can tell what the former driver was.
        kept = [state for state in missing if state.get("former_known") or state.get("holders")]
        for state in missing:
            if state not in kept:
                self._warn(str(state.get("reason")))
        if kept:
            texts = "; ".join(f"{state.get('address')}: {state.get('reason')}" for state in kept)
            raise NotReleased(
                f"{self._spec.name} is {'gone' if DELETE in self.actions else 'stopped'}, but the host has not got back {texts}"
                f" within {self._release_timeout_s:.0f} s (release_timeout_s)",
                reason="not_released",
                released=self.released,
                actions=list(self.actions),
            )

    def _addresses(self) -> tuple[str, ...]:
        return gpu_addresses(self._lxd, self._observe())

    def _observe(self) -> Instance:
        observed = observe(self._lxd, self._spec.name, self._deadline)
        if observed is None:
            raise LxdNotFound(f"{self._spec.name} was deleted by somebody else meanwhile", status=404)
        return observed

    def _log_lines(self) -> list[str]:
        try:
            return failures.last_lines(
                self._lxd.log(self._spec.name, "qemu.log" if self._spec.kind == VIRTUAL_MACHINE else "lxc.log")
            )
        except LxdError:
            return []


def observe(lxd: Lxd, name: str, deadline: Deadline) -> Optional[Instance]:
    """The instance now; an LXD that restarts is asked again until the deadline."""
    return patiently(lambda: lxd.get_instance(name), deadline)


def patiently(ask: Callable[[], T], deadline: Deadline) -> T:
    """Ask again while LXD does not answer, until the deadline."""
    while True:
        try:
            return ask()
        except LxdUnreachable:
            if deadline.expired():
                raise
            time.sleep(min(_RETRY_S, deadline.remaining_s()))


def _source_text(source: Mapping[str, Any]) -> str:
    name = source.get("alias") or str(source.get("fingerprint", ""))[:12]
    return f"{name} of {source['server']}" if source.get("server") else str(name)


def _names(holders: Sequence[Mapping[str, object]]) -> str:
    return ", ".join(f"{holder.get('command')} (pid {holder.get('pid')})" for holder in holders)


def _short(text: str) -> str:
    """LXD quotes QEMU's whole command line; the ends are what tells."""
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 300 else f"{one_line[:120]} … {one_line[-170:]}"


def _telling(log: Sequence[str]) -> str:
    """The line of a log that names the fault: the last error, else the last line."""
    for line in reversed(log):
        if "qemu-system" in line or "error" in line.lower():
            return line[-300:]
    return log[-1][-300:]
