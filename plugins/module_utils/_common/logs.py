# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the end of a log file, cleaned for a terminal. Private to the collection."""

from __future__ import annotations

import os
import re

TAIL_LINES = 20
# Enough for TAIL_LINES of any length that helps.
TAIL_BYTES = 32768
MAX_LINE_CHARACTERS = 500
# Control sequences of firmware and systemd on a serial console.
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?=]*[ -/]*[@-~]|[()][A-Za-z0-9]|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def tail(path: str, lines: int = TAIL_LINES) -> list[str]:
    """The last lines that hold anything; an empty list when there is no such file."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL_BYTES))
            content = stream.read(TAIL_BYTES)
    except OSError:
        return []
    text = _ESCAPES.sub("", content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n"))
    cleaned = (_CONTROLS.sub("", line).rstrip()[:MAX_LINE_CHARACTERS] for line in text.split("\n"))
    return [line for line in cleaned if line.strip()][-lines:]


def excerpt(path: str, lines: int = 5) -> str:
    """The last lines and the path, as the end of an error message."""
    found = tail(path, lines)
    return f"Last lines of {path}: " + " | ".join(found) if found else f"{path} is empty."
