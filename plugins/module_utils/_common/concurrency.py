# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bounded pool of threads over many items: results in order, an error per item. Private to the collection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable, Generic, Iterable, Optional, TypeVar

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Outcome(Generic[T, R]):
    """What became of one item: a result, or the error that a person can act on."""

    item: T
    result: Optional[R] = None
    error: Optional[FleetError] = None

    @property
    def ok(self) -> bool:
        return self.error is None


def map_bounded(work: Callable[[T], R], items: Iterable[T], limit: int) -> list[Outcome[T, R]]:
    """Run `work` over all items, at most `limit` at once, to the end of the set.

    A FleetError belongs to its item and stops no other; anything else is a fault of ours and is raised.
    """
    if limit < 1:
        raise FleetError(f"concurrency is {limit}; it must be at least 1")

    def one(item: T) -> Outcome[T, R]:
        try:
            return Outcome(item, result=work(item))
        except FleetError as error:
            return Outcome(item, error=error)

    todo = list(items)
    if not todo:
        return []
    with ThreadPoolExecutor(max_workers=min(limit, len(todo))) as pool:
        return list(pool.map(one, todo))
