# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What outlives a run: a folder with one JSON file of state, and the processes that it names. Private to the collection."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Iterator, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import FileLock, read_json, write_json_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import ProcessRef


class StateError(FleetError):
    """A name, or a state that was kept, cannot be used."""


@dataclass(frozen=True)
class LoggedProcess:
    """A process that goes on after the run that started it, with its log."""

    name: str
    pid: int
    start_time: int
    log: str

    @property
    def ref(self) -> ProcessRef:
        return ProcessRef(self.pid, self.start_time)


class StateFolder:
    """Where the files of one thing are; `what` says in messages what it is, such as "a virtual host"."""

    def __init__(self, root: str, name: str, what: str) -> None:
        self.name = name
        self.root = root
        self.what = what
        self.folder = os.path.join(root, name)
        self.state = self._in("state.json")
        # Next to the folder, not in it: the lock must outlive the folder's removal.
        self.lock = os.path.join(root, f".{name}.lock")

    def _in(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def guard(self, timeout_s: float) -> FileLock:
        return FileLock(self.lock, timeout_s)

    def read_state(self) -> Optional[dict[str, Any]]:
        """The content of the state file; None where there is none."""
        raw = read_json(self.state)
        if raw is not None and not isinstance(raw, dict):
            raise StateError(
                f"{self.state} does not hold the state of {self.what}; remove it to start afresh", path=self.state
            )
        return raw

    def write_state(self, state: Mapping[str, Any]) -> None:
        write_json_atomic(self.state, state)


def known_fields(cls: Any, raw: Mapping[str, Any]) -> dict[str, Any]:
    """What a dataclass knows of a state, which an older or a newer release may have written."""
    known = {item.name for item in fields(cls)}
    return {key: value for key, value in raw.items() if key in known}


@contextmanager
def complete_state(what: str) -> Iterator[None]:
    """A state that lacks something is a StateError."""
    try:
        yield
    except TypeError as error:
        raise StateError(f"the state of {what} is incomplete: {error}; remove its folder to start afresh") from error


def list_folders(root: str, names: re.Pattern[str]) -> list[str]:
    """The names of all that have a folder below `root`, running or not."""
    try:
        entries = sorted(os.listdir(root))
    except FileNotFoundError:
        return []
    return [name for name in entries if names.match(name) and os.path.isdir(os.path.join(root, name))]
