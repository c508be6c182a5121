# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""Runs kwokctl, and looks after the processes that it starts while it waits. Private to the collection."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Callable, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import tail
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import ProcessRef, start_time_of
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress

HEARTBEAT_S = 5.0
LOOK_S = 0.25


class KwokctlError(FleetError):
    """kwokctl failed; the message holds its last words."""


def run(
    program: str,
    arguments: Sequence[str],
    workdir: str,
    log: str,
    progress: Progress,
    deadline: Deadline,
    started: Callable[[ProcessRef], None],
    look: Callable[[], None],
) -> None:
    """Run it to its end. `started` is told which process it is, and `look` is called now and then meanwhile.

    What `look` raises ends kwokctl, but not the processes it has started.
    """
    command = [program, *arguments]
    with open(log, "ab") as stream:
        os.fchmod(stream.fileno(), 0o600)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment(os.environ, workdir),
                start_new_session=True,
            )
        except OSError as error:
            raise KwokctlError(f"cannot start {program}: {error}") from error
    try:
        started(ProcessRef(process.pid, start_time_of(process.pid) or 0))
        status = _wait(process, log, progress, deadline, look)
    except BaseException:
        if process.poll() is None:
            # Its own group only: components have sessions of their own.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        raise
    if status != 0:
        raise KwokctlError(
            f"kwokctl {arguments[0]} {arguments[1]} ended with status {status}: {last_message(log)}. Log: {log}",
            log=log,
        )


def _wait(
    process: subprocess.Popen[bytes], log: str, progress: Progress, deadline: Deadline, look: Callable[[], None]
) -> int:
    said_at_s = deadline.elapsed_s()
    while True:
        try:
            return process.wait(timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            look()
        if deadline.expired():
            raise KwokctlError(
                f"the control plane did not start within {deadline.timeout_s:.0f} s; last step: {last_message(log)}. Log: {log}",
                log=log,
            )
        if deadline.elapsed_s() - said_at_s >= HEARTBEAT_S:
            said_at_s = deadline.elapsed_s()
            progress.say(f"starting, {said_at_s:.0f} s: {last_message(log)}")


def environment(ours: os._Environ[str] | dict[str, str], workdir: str) -> dict[str, str]:
    """kwokctl takes every option from KWOK_ variables as well: those of the user must not reach a cluster of ours."""
    kept = {name: value for name, value in ours.items() if not name.startswith("KWOK_")}
    return {**kept, "KWOK_WORKDIR": workdir}


def last_message(log: str) -> str:
    """What kwokctl said last, with the error if there is one; it logs JSON lines when it has no terminal."""
    for line in reversed(tail(log)):
        try:
            entry = json.loads(line)
        except ValueError:
            return line[:200]
        if isinstance(entry, dict) and entry.get("msg"):
            return ": ".join(str(entry[key]) for key in ("msg", "err") if entry.get(key))[:300]
    return "no word from kwokctl"
