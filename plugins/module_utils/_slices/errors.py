# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How slices, and what they are made from, are refused; private to the collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# A message names this many violations; all of them are in the details.
NAMED = 10


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong: in which object, at which field, and what."""

    object: str
    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.object}: {self.field}: {self.problem}" if self.field else f"{self.object}: {self.problem}"


class SliceError(FleetError):
    """Slices that cannot be made, read or sent."""


def refuse_all(violations: Sequence[Violation], what: str) -> SliceError:
    """One error for all violations, the first of them in its message."""
    shown = "\n".join(f"- {violation}" for violation in violations[:NAMED])
    rest = f"\n- and {len(violations) - NAMED} more" if len(violations) > NAMED else ""
    return SliceError(f"{what}:\n{shown}{rest}", violations=[vars(violation) for violation in violations])
