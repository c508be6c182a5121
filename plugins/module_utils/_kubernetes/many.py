# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many requests at once, over a bounded number of threads, with results as they come. Private to the collection."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Callable, Iterable, Iterator, Optional, TypeVar

from ansible_collections.gpulab.fleet.plugins.module_utils._common.concurrency import Outcome
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired, FleetError

T = TypeVar("T")
R = TypeVar("R")


def run_many(
    work: Callable[[T], R],
    items: Iterable[T],
    concurrency: int,
    deadline: Deadline | None = None,
    stop_on_error: bool = False,
    on_done: Callable[[Outcome[T, R]], None] | None = None,
) -> Iterator[Outcome[T, R]]:
    """Run `work` over the items and yield each outcome as it is complete; `items` may be lazy, and few are held at a time.

    A FleetError belongs to its item and stops no other, unless it is fatal (`error.fatal`), the deadline has passed, or
    `stop_on_error` says so: then what is under way ends, and the rest comes back with an error that tells why it was not tried.
    """
    if concurrency < 1:
        raise FleetError(f"concurrency is {concurrency}; it must be at least 1")

    def one(item: T) -> Outcome[T, R]:
        try:
            return Outcome(item, result=work(item))
        except FleetError as error:
            return Outcome(item, error=error)

    def told(outcome: Outcome[T, R]) -> Outcome[T, R]:
        if on_done is not None:
            on_done(outcome)
        return outcome

    source = iter(items)
    stopped: Optional[FleetError] = None
    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        under_way: set[Future[Outcome[T, R]]] = set()
        exhausted = False
        while not exhausted or under_way:
            # Twice as many as threads, so that none of them waits for this one.
            while not exhausted and stopped is None and len(under_way) < 2 * concurrency:
                try:
                    item = next(source)
                except StopIteration:
                    exhausted = True
                    break
                under_way.add(pool.submit(one, item))
            if not under_way:
                break
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                outcome = future.result()
                if stopped is None:
                    stopped = _why_stop(outcome.error, stop_on_error, deadline)
                yield told(outcome)
        if stopped is not None:
            for item in source:
                yield told(Outcome(item, error=FleetError(f"not tried: {stopped.message}", **stopped.details)))


def _why_stop(error: FleetError | None, stop_on_error: bool, deadline: Deadline | None) -> Optional[FleetError]:
    if error is not None and (stop_on_error or getattr(error, "fatal", False)):
        return error
    if deadline is not None and deadline.expired():
        return DeadlineExpired(f"the time of {deadline.timeout_s:.0f} s (timeout_s) is up")
    return None
