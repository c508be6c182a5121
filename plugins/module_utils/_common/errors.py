# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception family of the collection; modules turn it into fail_json at their top level. Private to the collection."""

from __future__ import annotations


class FleetError(Exception):
    """Something a person can act on: one clear message, and details that belong into a module's result."""

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, object] = dict(details)

    def __str__(self) -> str:
        return self.message


class DeadlineExpired(FleetError):
    """A wait ended without what it waited for; `details` carry the last state seen."""
