# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""Waits until a starting virtual host lets us in, or until it is clear why it never will. Private to the collection."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import Optional, Sequence, Union

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import excerpt, tail
from ansible_collections.gpulab.fleet.plugins.module_utils._common.ports import LOOPBACK
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import Child
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.judge import panic_line
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import HostState

BANNER, LOGIN = "banner", "login"
WAITS = (LOGIN, BANNER)
PROGRESS_EVERY_S = 4.0
POLL_S = 0.25
# QEMU takes a connection at once, whether or not anybody listens inside; a busy emulated host may take seconds to greet.
BANNER_TIMEOUT_S = 15.0
LOGIN_TIMEOUT_S = 60.0
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
    """Return once the ssh server greets (`banner`) or lets us in (`login`); look after everything else meanwhile."""
    state = started.state
    began = Deadline(deadline.remaining_s())
    said_at_s, refusals, last = -PROGRESS_EVERY_S, 0, "nothing answers on the ssh port"
    attempt: Union[Greeting, Login] = Greeting(state.ssh_port)
    try:
        while True:
            _raise_if_hopeless(started)
            answer = attempt.poll(POLL_S)
            if isinstance(attempt, Greeting) and answer is not None:
                if wait == BANNER:
                    return
                attempt = Login(state, LOGIN_TIMEOUT_S)
            elif answer is not None:
                if answer == "":
                    return
                last = f"ssh refuses: {answer}"
                refusals += 1 if "Permission denied" in answer else 0
                attempt = Greeting(state.ssh_port)
            if deadline.expired() or refusals >= MAX_REFUSALS:
                raise _not_ready(
                    state, f"no ssh login after {began.elapsed_s():.0f} s: {last}", "console", state.console
                )
            if began.elapsed_s() - said_at_s >= PROGRESS_EVERY_S:
                said_at_s = began.elapsed_s()
                progress.say(f"booting, {said_at_s:.0f} s: {_last_line(state.console)}")
    finally:
        attempt.close()


class Greeting:
    """Waits for what an ssh server says first, over one connection after another."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection: Optional[socket.socket] = None
        self._since = Deadline(BANNER_TIMEOUT_S)

    def poll(self, timeout_s: float) -> Optional[str]:
        """The greeting, or None when none came within `timeout_s`."""
        try:
            if self._connection is None or self._since.expired():
                self.close()
                self._connection = socket.create_connection((LOOPBACK, self.port), timeout=timeout_s)
                self._since = Deadline(BANNER_TIMEOUT_S)
            self._connection.settimeout(timeout_s)
            greeting = self._connection.recv(255)
        except socket.timeout:
            return None
        except OSError:
            greeting = b""
        self.close()
        if greeting.startswith(b"SSH-"):
            return greeting.decode(errors="replace").strip()
        # Refused, reset, or no ssh server: the next try is not at once.
        time.sleep(timeout_s)
        return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Login:
    """Logs in and does nothing."""

    def __init__(self, state: HostState, timeout_s: float) -> None:
        self._deadline = Deadline(timeout_s)
        self._output = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                [*ssh_command(state, timeout_s), "true"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._output,
            )
        except OSError as error:
            self._output.close()
            raise NotReady(f"ssh does not run: {error}; install openssh-client") from error

    def poll(self, timeout_s: float) -> Optional[str]:
        """None while it lasts, an empty text when it worked, else what ssh said."""
        try:
            status = self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            if not self._deadline.expired():
                return None
            self.close()
            return f"no answer within {self._deadline.timeout_s:.0f} s"
        self._output.seek(0)
        text = self._output.read().decode(errors="replace").strip().replace("\n", " ")
        self.close()
        return "" if status == 0 else text or f"status {status}"

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._output.close()


def responds(state: HostState, timeout_s: float) -> bool:
    """Whether a host that should be running still greets; a busy emulated one may take its time."""
    deadline = Deadline(timeout_s)
    attempt = Greeting(state.ssh_port)
    try:
        while not deadline.expired():
            if attempt.poll(POLL_S) is not None:
                return True
        return False
    finally:
        attempt.close()


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
