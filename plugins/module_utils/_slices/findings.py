# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the rules write down what they find; private to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import unquoted_address
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import show
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import fields
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import Violation

Problem = Callable[[str], Optional[str]]


class Findings:
    """What is wrong with one object, under the rules of one release of Kubernetes."""

    def __init__(self, name: str, release: fields.Release) -> None:
        self.name = name
        self.release = release
        self.limits = fields.limits_of(release)
        self.violations: list[Violation] = []

    def add(self, field: str, problem: str) -> None:
        """Write a violation down."""
        self.violations.append(Violation(self.name, field, problem))

    def mapping(
        self, field: str, value: object, known: Optional[Mapping[str, fields.Release]] = None
    ) -> dict[str, Any]:
        """The value as a mapping; an empty one, and a violation, when it is none or has fields that the release has not."""
        if not isinstance(value, Mapping):
            self.add(field, "is missing" if value is None else f"{show(value)} is not a mapping")
            return {}
        for key in value if known is not None else ():
            since = known.get(key) if known is not None and isinstance(key, str) else None
            if since is None:
                self.add(
                    f"{field}.{key}" if field else str(key),
                    "is no field of ResourceSlices; the API server would drop it",
                )
            elif since > self.release and value[key] is not None:
                have, need = (".".join(map(str, version)) for version in (self.release, since))
                self.add(f"{field}.{key}", f"is a field since Kubernetes {need}; {have} would drop it")
        return dict(value)

    def items(self, field: str, value: object, limit: Optional[int], what: str) -> list[Any]:
        """The value as a list that is not too long; nothing is one as well."""
        if value is None:
            return []
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Sequence):
            self.add(field, f"{show(value)} is not a list")
            return []
        if limit is not None and len(value) > limit:
            self.add(field, f"has {len(value)} {what}; at most {limit} are allowed")
            return []
        return list(value)

    def text(self, field: str, value: object, problem: Problem) -> str:
        """The value as text that a rule allows; empty, and a violation, when it is none."""
        if value is None or value == "":
            self.add(field, "is missing")
            return ""
        if not isinstance(value, str):
            self.add(field, not_text(value))
            return ""
        wrong = problem(value)
        if wrong is not None:
            self.add(field, f"{show(value)} {wrong}")
        return value

    def whole(self, field: str, value: object, minimum: int) -> None:
        """The value is a whole number."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.add(field, "is missing" if value is None else f"{show(value)} is not a whole number")
        elif not minimum <= value < 1 << 63:
            self.add(field, f"{value} is out of range; allowed: {minimum} and more")


def not_text(value: object) -> str:
    """What is wrong with a value that should be text; numbers may be addresses that lost their quotes."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        address = unquoted_address(value)
        hint = (
            f"; if that is the address {address}, which YAML 1.1 reads in base 60, write it in quotes"
            if address
            else ""
        )
        return f"{value!r} is a number, not text{hint or '; write it in quotes'}"
    return f"{show(value)} is not text"
