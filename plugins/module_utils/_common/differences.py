# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One list of differences that feeds both `changed` and `diff` of a module. Private to the collection."""

from __future__ import annotations


class Differences:
    """Collects what differs between what is and what should be; equal values leave no trace."""

    def __init__(self) -> None:
        self._before: dict[str, object] = {}
        self._after: dict[str, object] = {}

    def add(self, name: str, before: object, after: object) -> bool:
        """Note one value by name and tell whether it differs; None stands for absent."""
        if before == after:
            return False
        self._before[name] = before
        self._after[name] = after
        return True

    @property
    def changed(self) -> bool:
        return bool(self._after)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._after)

    def diff(self) -> dict[str, dict[str, object]]:
        """The `diff` that Ansible prints: before and after with the same keys."""
        return {"before": dict(self._before), "after": dict(self._after)}
