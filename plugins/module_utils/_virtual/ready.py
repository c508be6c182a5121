# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until a starting virtual host lets us in, or until it is clear why it never will. Private to the collection."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.judge import panic_line
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.logs import excerpt, tail
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.ports import LOOPBACK
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.processes import Child
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import HostState

BANNER, LOGIN = "banner", "login"
WAITS = (LOGIN, BANNER)
PROGRESS_EVERY_S = 4.0
# QEMU takes the connection at once, whether or not anybody listens inside; so a silent one is given up soon.
BANNER_TIMEOUT_S = 2.0
LOGIN_TIMEOUT_S = 20.0
# The server is up and keeps refusing the key: waiting longer does not help.
MAX_REFUSALS = 6
PORT_TAKEN = "Could not set up host forwarding"


class NotReady(FleetError):
    """The host did not come up; the message says why, the details hold the ends of its logs."""


class PortTaken(NotReady):
    """Somebody took the chosen port before QEMU did."""


@dataclass(frozen=True)
class Started:
    """A host whose processes have just been started by us."""

    state: HostState
    qemu: Child
    others: Sequence[tuple[str, Child]]


def await_ready(started: Started, wait: str, progress: Progress, deadline: Deadline) -> None:
    """Return once the ssh server greets (`banner`) or lets us in (`login`)."""
    state = started.state
    began = Deadline(deadline.remaining_s())
    said_at_s, refusals, last = -PROGRESS_EVERY_S, 0, "nothing answers on the ssh port"
    while True:
        _raise_if_hopeless(started)
        if read_banner(state.ssh_port, min(BANNER_TIMEOUT_S, max(deadline.remaining_s(), 0.1))) is not None:
            if wait == BANNER:
                return
            refused = try_login(state, min(LOGIN_TIMEOUT_S, max(deadline.remaining_s(), 1.0)))
            if refused is None:
                return
            last = f"ssh refuses: {refused}"
            refusals += 1 if "Permission denied" in refused else 0
        if deadline.expired() or refusals >= MAX_REFUSALS:
            raise _not_ready(state, f"no ssh login after {began.elapsed_s():.0f} s: {last}", "console", state.console)
        if began.elapsed_s() - said_at_s >= PROGRESS_EVERY_S:
            said_at_s = began.elapsed_s()
            progress.say(f"booting, {said_at_s:.0f} s: {_last_line(state.console)}")
        time.sleep(min(0.3, max(deadline.remaining_s(), 0.01)))


def read_banner(port: int, timeout_s: float) -> Optional[str]:
    """What an ssh server says first; None when none answers in time."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            greeting = connection.recv(255)
    except OSError:
        return None
    text = greeting.decode(errors="replace").strip()
    return text if text.startswith("SSH-") else None


def responds(state: HostState, timeout_s: float) -> bool:
    """Whether a host that should be running still greets; a busy emulated one may take its time."""
    deadline = Deadline(timeout_s)
    while True:
        if read_banner(state.ssh_port, min(5.0, max(deadline.remaining_s(), 0.1))) is not None:
            return True
        if deadline.expired():
            return False
        time.sleep(min(0.5, max(deadline.remaining_s(), 0.01)))


def ssh_command(state: HostState, timeout_s: float) -> list[str]:
    """ssh to the host with nothing of the user's own configuration in the way."""
    options = [
        "BatchMode=yes",
        "IdentitiesOnly=yes",
        "StrictHostKeyChecking=accept-new",
        f"ConnectTimeout={max(1, int(timeout_s))}",
    ]
    argv = ["ssh", "-F", os.devnull, "-i", state.ssh_key, "-p", str(state.ssh_port)]
    for option in [*options, f"UserKnownHostsFile={state.known_hosts}", "LogLevel=ERROR"]:
        argv += ["-o", option]
    return [*argv, f"root@{LOOPBACK}"]


def try_login(state: HostState, timeout_s: float) -> Optional[str]:
    """Log in and do nothing; None when it works, else what ssh says."""
    try:
        answer = subprocess.run(
            [*ssh_command(state, timeout_s), "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {timeout_s:.0f} s"
    except OSError as error:
        raise NotReady(f"ssh does not run: {error}; install openssh-client") from error
    if answer.returncode == 0:
        return None
    return answer.stderr.decode(errors="replace").strip().replace("\n", " ") or f"status {answer.returncode}"


def _raise_if_hopeless(started: Started) -> None:
    state = started.state
    status = started.qemu.exit_status()
    panic = panic_line(state.console)
    if panic is not None:
        raise _not_ready(state, f"its kernel panicked: {panic}", "console", state.console)
    for name, child in started.others:
        if child.exit_status() is not None:
            log = next(program.log for program in state.programs() if program.name == name)
            raise _not_ready(state, f"{name} ended with {_status(child.exit_status())}", name, log)
    if status is not None and state.qemu is not None:
        if any(PORT_TAKEN in line for line in tail(state.qemu.log)):
            raise PortTaken(f"port {state.ssh_port} was taken by another program")
        raise _not_ready(state, f"QEMU ended with {_status(status)}", "qemu", state.qemu.log)


def _not_ready(state: HostState, reason: str, log_name: str, log: str) -> NotReady:
    logs = {program.name: tail(program.log) for program in state.programs()}
    logs["console"] = tail(state.console)
    return NotReady(
        f"virtual host {state.name!r} did not come up: {reason}. {excerpt(log)}", failed=log_name, logs=logs, log=log
    )


def _status(code: Optional[int]) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"status {code}"


def _last_line(console: str) -> str:
    lines = tail(console, 1)
    return lines[0].strip()[:100] if lines else "no output yet"
