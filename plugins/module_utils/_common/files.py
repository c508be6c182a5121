# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that two runs may touch at once: atomic JSON and locks. Private to the collection."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from types import TracebackType
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired, FleetError


def write_json_atomic(path: str, obj: object, mode: int = 0o600) -> None:
    """Replace `path` in one step: a reader, or a run after a crash, sees the old content or the new, never half of it."""
    write_text_atomic(path, json.dumps(obj, indent=2, sort_keys=True) + "\n", mode)


def write_text_atomic(path: str, text: str, mode: int = 0o600) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix="." + os.path.basename(path) + ".", dir=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_json(path: str) -> Any:
    """The content of a JSON file; None when there is no such file."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise FleetError(f"{path} is not JSON: {error}; remove it to start afresh", path=path) from error


class FileLock:
    """An flock that goes with its process, so a killed run never leaves one behind.

    The file itself stays: removing it would let a third run lock a new file while a second still waits for the old one.
    """

    def __init__(self, path: str, timeout_s: float, interval_s: float = 0.2) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self.interval_s = interval_s
        self._descriptor: int | None = None

    def acquire(self) -> None:
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        # O_CLOEXEC is Python's default: a started daemon does not inherit the lock.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = Deadline(self.timeout_s)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if deadline.expired():
                        raise DeadlineExpired(
                            f"{self.path} is still locked by another run (pid {_holder(descriptor)}) after {self.timeout_s:.0f} s",
                            path=self.path,
                        ) from None
                time.sleep(min(self.interval_s, max(deadline.remaining_s(), 0.01)))
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
