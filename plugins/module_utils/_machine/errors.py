# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a machine description is refused: where, what was there, and what would be right; private to the collection."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

SHOWN_CHARACTERS = 80


class MachineError(FleetError):
    """A machine description, or something in it, that cannot be used."""


def refuse(path: str, value: object, problem: str, remedy: str) -> MachineError:
    """The error for ``value`` at ``path``; ``problem`` continues the sentence that the value begins."""
    where = path or "machine description"
    return MachineError(f"{where}: {show(value)} {problem}; {remedy}", path=path, value=show(value))


def refuse_missing(path: str, remedy: str) -> MachineError:
    """The error for a key that has to be there."""
    return MachineError(f"{path} is missing; {remedy}", path=path)


def show(value: object) -> str:
    """A value as a message shows it: unmistakable, and never longer than a line."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


def nearest(word: str, known: Iterable[str]) -> str:
    """A remedy for a misspelt word: the nearest known one, then all that are allowed."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}allowed: {', '.join(names)}" if names else "nothing is allowed here"
