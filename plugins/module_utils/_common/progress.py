# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A line of progress for the person who waits, as JSON lines in a file. Private to the collection."""

from __future__ import annotations

import json
import os
import time
from typing import Callable

from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import progress_dir

# Progress of earlier runs is of no use to anybody.
_MAX_BYTES = 1 << 20


def progress_file(name: str, given: str | None = None, state_root: str | None = None) -> str:
    """`given`, or the file of that name where the callback looks; one that earlier runs have made long is removed."""
    folder = os.path.join(state_root, "progress") if state_root else progress_dir()
    path = given or os.path.join(folder, f"{name}.jsonl")
    if os.path.exists(path) and os.path.getsize(path) > _MAX_BYTES:
        os.unlink(path)
    return path


class Progress:
    """Appends `{"time", "who", "text"}` lines to a file; without a path it says nothing."""

    def __init__(self, path: str | None, who: str, clock: Callable[[], float] = time.time) -> None:
        self.path = path or None
        self.who = who
        self._clock = clock

    def say(self, text: str) -> None:
        if self.path is None:
            return
        folder = os.path.dirname(self.path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        line = json.dumps({"time": round(self._clock(), 3), "who": self.who, "text": text}) + "\n"
        # One write in append mode: lines of several writers never mix.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line.encode("utf-8"))
        finally:
            os.close(descriptor)
