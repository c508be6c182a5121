# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until commands can be run in an instance; ends early when that cannot come any more, and always with a reason. Private to the collection."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd import failures
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import Lxd, LxdError, LxdUnreachable
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.console import PANIC, SILENT, ConsoleReader, boot_stage
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.guest import (
    GuestTimeout,
    GuestUnreachable,
    answers,
    run_in_guest,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import VIRTUAL_MACHINE

_INTERVAL_S = 1.0
_SAY_EVERY_S = 5.0
_EXEC_LIMIT_S = 30.0
# A guest that reboots is `Stopped` for a moment, until LXD has started its QEMU anew.
STOPPED_GRACE_S = 5.0
# QEMU's monitor may be slow to answer on a loaded host, which LXD shows as `Error`.
ERROR_GRACE_S = 30.0
_LINES = 20


class NotReady(FleetError):
    """Commands cannot be run in the instance; details: reason, console, qemu_log, last_state, seconds."""


@dataclass(frozen=True)
class Ready:
    """How long it took until the instance answered, and how far its system has come when that was asked for."""

    seconds: float
    system_state: Optional[str] = None
    failed_units: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "ready": True,
            "seconds": round(self.seconds, 1),
            "system_state": self.system_state,
            "failed_units": list(self.failed_units),
        }


class Waiter:
    """One wait for one instance."""

    def __init__(
        self,
        lxd: Lxd,
        name: str,
        kind: str,
        deadline: Deadline,
        console: Optional[ConsoleReader],
        say: Callable[[str], None],
        from_start: bool = True,
    ) -> None:
        self._lxd = lxd
        self._from_start = from_start
        self._name = name
        self._kind = kind
        self._deadline = deadline
        self._console = console
        self._say = say
        self._last_state = "not asked yet"
        self._last_error = ""
        self._bad_since: dict[str, float] = {}
        self._said_s = -_SAY_EVERY_S

    def until_answering(self) -> Ready:
        """Until a command can be run: for a VM first `processes` above -1, which only its agent can tell."""
        while True:
            cause = self._look()
            if cause is None:
                return Ready(self._deadline.elapsed_s())
            if (
                cause.reason in ("stopped_by_itself", "qemu_broken", "vanished", "kernel_panic")
                or self._deadline.expired()
            ):
                raise self._not_ready(cause)
            self._tell()
            time.sleep(min(_INTERVAL_S, self._deadline.remaining_s()))

    def until_system_runs(self, allow_degraded: bool) -> Ready:
        """Until systemd has finished its start. A guest without systemd is done as soon as it answers."""
        while True:
            result = None
            try:
                limit_s = min(_EXEC_LIMIT_S, max(1.0, self._deadline.remaining_s()))
                result = run_in_guest(self._lxd, self._name, ["systemctl", "is-system-running"], limit_s)
            except (GuestTimeout, GuestUnreachable) as error:
                self._last_error = error.message
            state = "" if result is None else result.stdout.strip()
            if result is not None and result.rc in (126, 127):
                return Ready(self._deadline.elapsed_s(), "no systemd")
            if state == "running":
                return Ready(self._deadline.elapsed_s(), state)
            if state in ("degraded", "maintenance"):
                units = self._failed_units()
                if state == "degraded" and allow_degraded:
                    return Ready(self._deadline.elapsed_s(), state, units)
                cause = failures.Cause(
                    "degraded", f"systemd in the guest is {state}, failed units: {', '.join(units) or 'none'}"
                )
                raise self._not_ready(cause, failed_units=list(units))
            self._last_state = f"systemd: {state or self._last_error or 'no answer'}"
            if self._deadline.expired():
                raise self._not_ready(
                    failures.Cause("system_not_up", f"systemd in the guest is still {state or 'silent'}")
                )
            self._tell()
            time.sleep(min(_INTERVAL_S, self._deadline.remaining_s()))

    def _failed_units(self) -> tuple[str, ...]:
        try:
            result = run_in_guest(
                self._lxd, self._name, ["systemctl", "--failed", "--plain", "--no-legend"], _EXEC_LIMIT_S
            )
        except (GuestTimeout, GuestUnreachable):
            return ()
        return tuple(line.split()[0] for line in result.stdout.splitlines() if line.strip())

    def _look(self) -> Optional[failures.Cause]:
        """None when a command could be run, else why not."""
        if self._console is not None and boot_stage(self._console.lines()) == PANIC:
            return failures.boot_cause(PANIC)
        try:
            state = self._lxd.get_state(self._name)
        except LxdUnreachable as error:
            self._last_state = error.message
            return failures.UNREACHABLE
        except LxdError as error:
            self._last_state = error.message
            return failures.NO_EXEC
        if state is None:
            return failures.VANISHED
        status, processes = str(state.get("status", "")), int(state.get("processes", -1))
        self._last_state = f"status {status}, processes {processes}"
        if self._lasts("Stopped", status, STOPPED_GRACE_S):
            return failures.STOPPED
        if self._lasts("Error", status, ERROR_GRACE_S):
            return failures.BROKEN
        if status != "Running" or (processes < 0 and self._agent_would_tell()):
            return self._boot_cause()
        return self._try_command()

    def _boot_cause(self) -> failures.Cause:
        """By the console. One that was not listened to from the start may have said all before."""
        if self._console is None:
            return failures.NO_EXEC
        stage = boot_stage(self._console.lines())
        return failures.NO_AGENT if stage == SILENT and not self._from_start else failures.boot_cause(stage)

    def _try_command(self) -> Optional[failures.Cause]:
        limit_s = min(_EXEC_LIMIT_S, max(1.0, self._deadline.remaining_s()))
        try:
            # Whatever its status: that the command was run is the answer. A guest need not have a shell.
            answers(self._lxd, self._name, limit_s)
        except (GuestTimeout, GuestUnreachable) as error:
            self._last_error = error.message
            self._last_state += f"; {error.message}"
            return failures.NO_EXEC
        except LxdError as error:
            self._last_error = error.message
            return failures.NO_EXEC
        return None

    def _agent_would_tell(self) -> bool:
        """With security.agent.metrics off, LXD never asks the agent and shows -1 for ever."""
        if self._kind != VIRTUAL_MACHINE:
            return False
        try:
            instance = self._lxd.get_instance(self._name)
        except LxdError:
            return True
        return instance is None or instance.expanded_config.get("security.agent.metrics", "true") != "false"

    def _lasts(self, bad: str, status: str, grace_s: float) -> bool:
        if status != bad:
            self._bad_since.pop(bad, None)
            return False
        since = self._bad_since.setdefault(bad, self._deadline.elapsed_s())
        return self._deadline.elapsed_s() - since >= grace_s

    def _tell(self) -> None:
        elapsed_s = self._deadline.elapsed_s()
        if elapsed_s - self._said_s >= _SAY_EVERY_S:
            self._said_s = elapsed_s
            last = self._console.lines(1) if self._console is not None else []
            self._say(
                f"waiting for {self._name}: {elapsed_s:.0f} s, {self._last_state}"
                + (f"; console: {last[0]}" if last else "")
            )

    def _not_ready(self, cause: failures.Cause, **details: object) -> NotReady:
        console = self._console.lines(_LINES) if self._console is not None else []
        try:
            log = failures.last_lines(
                self._lxd.log(self._name, "qemu.log" if self._kind == VIRTUAL_MACHINE else "lxc.log"), _LINES
            )
        except LxdError as error:
            log = [f"(not readable: {error.message})"]
        elapsed_s = self._deadline.elapsed_s()
        words = [
            f"{self._name} is not ready after {elapsed_s:.0f} s (limit {self._deadline.timeout_s:.0f} s, timeout_s): {cause.text}"
        ]
        words.append(f"last state: {self._last_state}")
        if console:
            words.append(f"last console line: {console[-1]}")
        return NotReady(
            "; ".join(words),
            reason=cause.reason,
            last_state=self._last_state,
            console=console,
            instance_log=log,
            seconds=round(elapsed_s, 1),
            **details,
        )
