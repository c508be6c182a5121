# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command inside an instance, with a limit that holds whatever LXD, agent or guest do. Private to the collection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

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

# The guest ends the command itself where it can: LXD cannot cancel a recorded command from outside.
_LIMITED = (
    'limit=$1; shift; if command -v timeout >/dev/null 2>&1; then exec timeout -s KILL "$limit" "$@"; fi; exec "$@"'
)


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
    lxd: Lxd,
    name: str,
    argv: Sequence[str],
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    shell_limit: bool = True,
) -> GuestResult:
    """Run `argv` as root in the instance and return rc, stdout and stderr.

    LXD records the output on the host, so no websocket can hang; the wait ends at `timeout_s` with GuestTimeout.
    With `shell_limit` the guest's own `timeout` (if it has one) also kills the command; it needs a shell in the guest.
    """
    deadline = Deadline(timeout_s + _GRACE_S)
    command = list(argv)
    if shell_limit:
        command = ["sh", "-c", _LIMITED, "sh", str(max(1, math.ceil(timeout_s))), *command]
    body = {
        "command": command,
        "environment": dict(environment or {}),
        "interactive": False,
        "record-output": True,
        "wait-for-websocket": False,
    }
    try:
        operation, _headers = lxd.transport.request(
            "post", f"instances/{name}/exec", body=body, timeout_s=min(30.0, timeout_s + _GRACE_S)
        )
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
    metadata = ended.get("metadata") or {}
    rc = int(metadata.get("return", -1))
    stdout, stderr = _collect(lxd, metadata)
    # KILL by the guest's `timeout`: coreutils and busybox exit with 128 + 9.
    if shell_limit and rc == 137 and deadline.elapsed_s() >= timeout_s:
        raise _timeout(name, argv, timeout_s, stdout, stderr)
    return GuestResult(rc, stdout, stderr)


def _collect(lxd: Lxd, metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Fetch the recorded output and remove it from LXD's log folder, which LXD does not do itself."""
    texts = []
    outputs: Mapping[str, str] = metadata.get("output") or {}
    for stream in ("1", "2"):
        path: Optional[str] = outputs.get(stream)
        if not path:
            texts.append("")
            continue
        below = path.split("/1.0/", 1)[-1]
        texts.append(lxd.transport.read_text(below, _OUTPUT_LIMIT_BYTES))
        try:
            lxd.transport.request("delete", below)
        except LxdError:
            # The output is in hand; a file left in the log folder goes with the instance.
            pass
    return texts[0], texts[1]


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
