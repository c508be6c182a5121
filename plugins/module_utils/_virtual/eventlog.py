# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log of one line an event that cannot grow without limit; private to the collection."""

from __future__ import annotations

import os
import time

MAX_LOG_BYTES = 4 << 20
MAX_LINE_CHARACTERS = 500


class EventLog:
    """Lines with the time, written at once; beyond a size the file becomes ``<path>.1`` and a new one begins.

    A log that cannot be written is no reason for a device to stop: lines are then lost and counted.
    """

    def __init__(self, path: str, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self.lost = 0
        self._fd = self._open()
        self._bytes = os.fstat(self._fd).st_size

    def line(self, text: str) -> None:
        """One event."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        data = f"{stamp} {text[:MAX_LINE_CHARACTERS]}\n".encode("utf-8", "backslashreplace")
        try:
            if self._bytes + len(data) > self._max_bytes:
                self._turn()
            self._bytes += os.write(self._fd, data)
        except OSError:
            self.lost += 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _turn(self) -> None:
        os.replace(self._path, f"{self._path}.1")
        fd = self._open()
        os.close(self._fd)
        self._fd, self._bytes = fd, 0
