# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command inside an instance, with a limit that holds whatever LXD, agent or guest do. Private to the collection."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import Mapping, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import (
    Lxd,
    LxdError,
    LxdNotFound,
    LxdTimeout,
    LxdUnreachable,
)

_OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024
# Time that LXD gets after the guest's own limit to tell the end of a command.
_GRACE_S = 5.0

# Limit, file, command. The guest ends the command itself where it can: LXD cannot cancel it from outside. The output goes into one file,
# first that of stdout, then that of stderr, then the length of either in ten digits; LXD fetches it. With VMs LXD's own recording never ends
# (canonical/lxd#14101), a command without websockets is killed when LXD's own connection with the agent closes (both seen with 5.0.2), and
# output over websockets can be lost at the end (canonical/pylxd#538). So the websockets are opened and stay silent.
_RECORDED = """limit=$1 file=$2; shift 2; umask 077
exec </dev/null 2>/dev/null
command -v timeout >/dev/null && set -- timeout -s KILL "$limit" "$@"
(exec "$@") >"$file.1" 2>"$file.2"
status=$?
{ cat "$file.1" "$file.2"; printf %010d%010d "$(($(wc -c <"$file.1")))" "$(($(wc -c <"$file.2")))"; } >"$file"
rm -f "$file.1" "$file.2"
exit "$status"
"""
_DIGITS = 10


class GuestTimeout(FleetError):
    """The command did not end in time; `details` carry the argv and the limit."""


class GuestUnreachable(FleetError):
    """The command could not be run: no agent, instance not running, or LXD away."""


@dataclass(frozen=True)
class GuestResult:
    """What a command left: its exit status and its output."""

    rc: int
    stdout: str
    stderr: str


def run_in_guest(
    lxd: Lxd, name: str, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> GuestResult:
    """Run `argv` as root in the instance, which needs a shell, and return rc, stdout and stderr.

    The wait ends at `timeout_s` with GuestTimeout; the guest's own `timeout` (if it has one) kills the command then.
    """
    file = f"/tmp/gpulab-{uuid.uuid4().hex}"  # mode 0600, a name that nobody can guess
    limit = str(max(1, math.ceil(timeout_s)))
    deadline = Deadline(timeout_s + _GRACE_S)
    command = ["sh", "-c", _RECORDED, "sh", limit, file, *argv]
    rc = _run(lxd, name, command, argv, timeout_s, deadline, environment or {})
    stdout, stderr = _collect(lxd, name, file, argv, rc)
    # KILL by the guest's `timeout`: coreutils and busybox exit with 128 + 9.
    if rc == 137 and deadline.elapsed_s() >= timeout_s:
        raise _timeout(name, argv, timeout_s, stdout, stderr)
    return GuestResult(rc, stdout, stderr)


def answers(lxd: Lxd, name: str, timeout_s: float) -> None:
    """Run a command in the instance whatever its exit status, without output: raises what run_in_guest raises. No shell is needed."""
    _run(lxd, name, ["true"], ["true"], timeout_s, Deadline(timeout_s + _GRACE_S), {})


def _run(
    lxd: Lxd,
    name: str,
    command: Sequence[str],
    argv: Sequence[str],
    timeout_s: float,
    deadline: Deadline,
    environment: Mapping[str, str],
) -> int:
    """The exit status of `command`; messages show `argv`."""
    body = {
        "command": list(command),
        "environment": dict(environment),
        "interactive": False,
        "record-output": False,
        "wait-for-websocket": True,
    }
    try:
        operation, _headers = lxd.transport.request(
            "post", f"instances/{name}/exec", body=body, timeout_s=min(30.0, timeout_s + _GRACE_S)
        )
        secrets = [(operation.get("metadata") or {})["fds"][stream] for stream in ("0", "1", "2")]
        with lxd.transport.websockets(f"operations/{operation['id']}/websocket", secrets, deadline.remaining_s()):
            ended = lxd.wait_operation(operation, deadline, f"`{_words(argv)}` in {name}")
    except LxdTimeout as error:
        raise _timeout(name, argv, timeout_s) from error
    except LxdUnreachable as error:
        raise GuestUnreachable(
            f"`{_words(argv)}` in {name}: {error.message}", instance=name, reason="lxd_unreachable"
        ) from error
    except LxdNotFound as error:
        raise GuestUnreachable(f"`{_words(argv)}` in {name}: {error.message}", instance=name, reason="lost") from error
    except LxdError as error:
        # A command that was run and failed is an operation that succeeded; some releases say otherwise but still give the status.
        operation_seen = error.details.get("operation")
        ended = dict(operation_seen) if isinstance(operation_seen, dict) else {}
        if "return" not in (ended.get("metadata") or {}):
            raise GuestUnreachable(
                f"`{_words(argv)}` could not be run in {name}: {error.message}", instance=name, reason="refused"
            ) from error
    return int((ended.get("metadata") or {}).get("return", -1))


def _collect(lxd: Lxd, name: str, file: str, argv: Sequence[str], rc: int) -> tuple[str, str]:
    """Fetch what the command printed, and remove it from the guest."""
    path, params = f"instances/{name}/files", {"path": file}
    try:
        data = lxd.transport.read_bytes(path, _OUTPUT_LIMIT_BYTES, params=params)
    except LxdNotFound as error:
        # No shell to write it, or a guest whose /tmp cannot be written.
        raise GuestUnreachable(
            f"`{_words(argv)}` in {name} ended with {rc} and left no output; the guest needs sh, cat, wc and a writable /tmp",
            instance=name,
            reason="no_output",
        ) from error
    except LxdError as error:
        raise GuestUnreachable(
            f"the output of `{_words(argv)}` could not be fetched from {name}: {error.message}",
            instance=name,
            reason="lxd_unreachable" if isinstance(error, LxdUnreachable) else "refused",
        ) from error
    try:
        lxd.transport.request("delete", path, params=params)
    except LxdError:
        # The output is in hand; the file goes with the instance.
        pass
    text, lengths = data[: -2 * _DIGITS], data[-2 * _DIGITS :]
    begin_of_stderr = max(0, len(text) - int(lengths[_DIGITS:]))
    return text[:begin_of_stderr].decode("utf-8", "replace"), text[begin_of_stderr:].decode("utf-8", "replace")


def _timeout(name: str, argv: Sequence[str], timeout_s: float, stdout: str = "", stderr: str = "") -> GuestTimeout:
    return GuestTimeout(
        f"`{_words(argv)}` in {name} did not end within {timeout_s:.0f} s",
        instance=name,
        argv=list(argv),
        timeout_s=timeout_s,
        stdout=stdout,
        stderr=stderr,
    )


def _words(argv: Sequence[str]) -> str:
    """The command for a message: short, on one line."""
    text = " ".join(argv).replace("\n", " ")
    return text if len(text) <= 80 else text[:77] + "..."
