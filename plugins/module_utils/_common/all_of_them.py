# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One action on everything that has a name here, and how what changed is shown. Private to the collection."""

from __future__ import annotations

from typing import Any, Callable, Iterable, TypeVar

from ansible_collections.gpulab.fleet.plugins.module_utils._common.differences import Differences
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

T = TypeVar("T")


def act_on_all(
    names: Iterable[str], act: Callable[[str], T], key: str, to_dict: Callable[[T], dict[str, Any]]
) -> list[T]:
    """What `act` gave for each name. One that fails does not save the others; the error has what was done, under `key`."""
    outcomes: list[T] = []
    errors: list[FleetError] = []
    for name in names:
        try:
            outcomes.append(act(name))
        except FleetError as error:
            errors.append(error)
    if errors:
        messages = [error.message for error in errors]
        raise FleetError("; ".join(messages), **{key: [to_dict(outcome) for outcome in outcomes], "errors": messages})
    return outcomes


def named_diff(header: str, differences: Differences) -> dict[str, Any]:
    """The differences as Ansible shows them, under a header."""
    return {"before_header": header, "after_header": header, **differences.diff()}
