# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of nodes from a pattern and a count. Private to the collection."""

from __future__ import annotations

import re
from typing import Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

_NUMBER = re.compile(r"\{n(?::0?([1-9][0-9]?))?\}")
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME_LIMIT = 253
MAX_COUNT = 100000


def expand(pattern: str, count: int, first: int) -> tuple[str, ...]:
    """The names that a pattern means: `{n}` is the number, `{n:04}` the number with zeros; without either, a count of 1 needs none."""
    if not 0 <= count <= MAX_COUNT:
        raise FleetError(f"count is {count}; give a number from 0 to {MAX_COUNT}", option="count", value=count)
    if first < 0:
        raise FleetError(f"first is {first}; give 0 or more", option="first", value=first)
    stray = _NUMBER.sub("", pattern)
    if "{" in stray or "}" in stray:
        raise FleetError(
            f"name is {pattern!r}; the only placeholders are {{n}} for the node's number and {{n:04}} for the number with zeros",
            option="name",
            value=pattern,
        )
    if not _NUMBER.search(pattern):
        if count > 1:
            raise FleetError(
                f"name is {pattern!r} and count is {count}, so {count} nodes would have one name; write {{n}} where the number"
                f" should be, as in {pattern + '-{n}'!r}",
                option="name",
                value=pattern,
            )
        return check_names([pattern] * count, "name")
    return check_names([_numbered(pattern, number) for number in range(first, first + count)], "name")


def _numbered(pattern: str, number: int) -> str:
    return _NUMBER.sub(lambda match: _digits(number, match.group(1)), pattern)


def _digits(number: int, width: str | None) -> str:
    return str(number).zfill(int(width)) if width else str(number)


def base_of(pattern: str) -> str:
    """What is left of a pattern without its number, as the name of a set."""
    return _NUMBER.sub("", pattern).strip("-._")


def check_names(names: Sequence[str], option: str) -> tuple[str, ...]:
    """The names, each once and each one that a node may have."""
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or len(name) > _NAME_LIMIT or not _SUBDOMAIN.fullmatch(name):
            raise FleetError(
                f"{option} gives the node name {name!r}; a name has at most 253 lower-case letters, digits, '-' and '.', and each of"
                " its parts begins and ends with a letter or digit",
                option=option,
                value=name,
            )
        if name in seen:
            raise FleetError(f"{option} gives the node name {name!r} twice", option=option, value=name)
        seen.add(name)
    return tuple(names)
