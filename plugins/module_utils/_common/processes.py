# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""Long-lived processes: started detached, trusted only by pid and start time, ended by pid. Private to the collection."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError


class ProcessError(FleetError):
    """A process could not be started."""


@dataclass(frozen=True)
class ProcessRef:
    """A process of any parent: the start time tells it from a later one with the same pid."""

    pid: int
    start_time: int

    def is_alive(self) -> bool:
        return start_time_of(self.pid) == self.start_time


@dataclass(frozen=True)
class Child:
    """A process that this one started, whose exit status it can still learn."""

    ref: ProcessRef
    popen: subprocess.Popen[bytes]

    def exit_status(self) -> Optional[int]:
        """None while it runs; negative numbers are signals."""
        return self.popen.poll()


# Popen objects of detached children are kept, so that none is reported as forgotten when it is collected.
_CHILDREN: list[subprocess.Popen[bytes]] = []


def start_time_of(pid: int) -> Optional[int]:
    """Field 22 of /proc/PID/stat (proc(5)), in clock ticks since boot; None when the process is gone or only a zombie is left."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError:
        return None
    # The second field is the command in parentheses, which may hold blanks and parentheses itself.
    fields = text[text.rfind(")") + 2 :].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def boot_id() -> str:
    """Changes with every boot of this machine: pids of another boot mean nothing."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def spawn(argv: Sequence[str], log: str, environ: Optional[Mapping[str, str]] = None, cwd: str = "/") -> Child:
    """Start a program in its own session, both outputs appended to `log`; it outlives us."""
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            popen = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
                cwd=cwd,
                env=None if environ is None else {**os.environ, **environ},
            )
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ProcessError(f"cannot start {argv[0]}: {error}", argv=list(argv)) from error
    _CHILDREN.append(popen)
    # A child that is already gone has no start time any more: 0 matches nothing, so it counts as dead.
    return Child(ProcessRef(popen.pid, start_time_of(popen.pid) or 0), popen)


def end(ref: ProcessRef, grace_s: float = 5.0, interval_s: float = 0.05) -> str:
    """End one process: SIGTERM, then SIGKILL after `grace_s`. Tells what it took: `gone`, `terminated`, `killed` or `stuck`."""
    if not _signal(ref, signal.SIGTERM):
        return "gone"
    if wait_gone(ref, grace_s, interval_s):
        return "terminated"
    _signal(ref, signal.SIGKILL)
    return "killed" if wait_gone(ref, 10.0, interval_s) else "stuck"


def wait_gone(ref: ProcessRef, timeout_s: float, interval_s: float = 0.05) -> bool:
    deadline = Deadline(timeout_s)
    while ref.is_alive():
        if deadline.expired():
            return False
        time.sleep(min(interval_s, max(deadline.remaining_s(), 0.001)))
    return True


def _signal(ref: ProcessRef, number: int) -> bool:
    """Signal the very process that `ref` names: the descriptor pins it, so that its pid cannot be reused in between."""
    try:
        descriptor = os.pidfd_open(ref.pid)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise ProcessError(f"cannot address process {ref.pid}: {error} (Linux 5.3 or later is needed)") from error
    try:
        if not ref.is_alive():
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True
