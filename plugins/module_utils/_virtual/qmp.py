# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speaks QMP, QEMU's control protocol, over a unix socket. Private to the collection."""

from __future__ import annotations

import json
import socket
from types import TracebackType
from typing import Any, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# A reply of ours is a few kilobytes; a peer that sends more is no QEMU.
MAX_LINE_BYTES = 16 << 20


class QmpError(FleetError):
    """QEMU does not answer, or refuses a command."""


class Qmp:
    """One connection. `execute` skips the events that arrive between a command and its answer."""

    def __init__(self, path: str, timeout_s: float = 5.0) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self._socket: Optional[socket.socket] = None
        self._buffer = b""

    def __enter__(self) -> Qmp:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self.timeout_s)
        try:
            connection.connect(self.path)
            self._socket = connection
            greeting = self._read(Deadline(self.timeout_s))
            if "QMP" not in greeting:
                raise QmpError(f"{self.path} is not QEMU's control socket: {greeting}")
            self.execute("qmp_capabilities")
        except OSError as error:
            connection.close()
            raise QmpError(f"QEMU does not answer on {self.path}: {error}") from error
        except QmpError:
            connection.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def execute(self, command: str, **arguments: object) -> Any:
        if self._socket is None:
            raise QmpError(f"not connected to {self.path}")
        request: dict[str, object] = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        deadline = Deadline(self.timeout_s)
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            while True:
                answer = self._read(deadline)
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise QmpError(f"QEMU refuses {command}: {answer['error'].get('desc', answer['error'])}")
        except OSError as error:
            raise QmpError(f"QEMU does not answer {command} on {self.path}: {error}") from error

    def _read(self, deadline: Deadline) -> dict[str, Any]:
        connection = self._socket
        if connection is None:
            raise QmpError(f"not connected to {self.path}")
        while b"\n" not in self._buffer:
            if deadline.expired() or len(self._buffer) > MAX_LINE_BYTES:
                raise QmpError(f"no whole answer on {self.path} within {deadline.timeout_s:.0f} s")
            connection.settimeout(max(deadline.remaining_s(), 0.01))
            chunk = connection.recv(65536)
            if not chunk:
                raise QmpError(f"QEMU closed {self.path}")
            self._buffer += chunk
        line, _newline, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise QmpError(f"what came over {self.path} is not JSON: {line[:200]!r}") from error
        if not isinstance(answer, dict):
            raise QmpError(f"what came over {self.path} is not an answer of QMP: {line[:200]!r}")
        return answer
