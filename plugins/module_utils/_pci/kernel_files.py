# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what the kernel shows in sysfs and procfs, where anything may be missing or go away. Private to the collection."""

from __future__ import annotations

import os
from typing import Optional

# cgroup, cmdline and the like are short; a limit keeps a strange file from filling the memory.
_LIMIT_CHARACTERS = 1 << 20


def read_text(*path: str) -> str:
    """The content without blanks at its ends; empty when the file cannot be read."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as stream:
            return stream.read(_LIMIT_CHARACTERS).strip()
    except OSError:
        return ""


def read_number(*path: str, base: int = 10) -> Optional[int]:
    """The number that a file holds; None when it is missing or holds something else."""
    try:
        return int(read_text(*path), base)
    except ValueError:
        return None


def list_names(*path: str) -> list[str]:
    """The names in a folder, sorted; none when there is no such folder."""
    try:
        return sorted(os.listdir(os.path.join(*path)))
    except OSError:
        return []


def link_name(*path: str) -> Optional[str]:
    """The last part of what a symbolic link points at; None when there is no such link."""
    try:
        return os.path.basename(os.readlink(os.path.join(*path)))
    except OSError:
        return None
