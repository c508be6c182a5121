# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many requests at once, over a bounded number of threads, with results as they come. Private to the collection."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Callable, Iterable, Iterator, Optional, TypeVar, Union

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
    Anything else that is raised is a fault of ours: it ends the run.
    """
    if concurrency < 1:
        raise FleetError(f"concurrency is {concurrency}; it must be at least 1")
    source = iter(items)
    lock = threading.Lock()
    stop = threading.Event()
    reasons: list[FleetError] = []
    # An outcome, what a thread died of, or None when a thread has nothing more to do.
    finished: SimpleQueue[Union[Outcome[T, R], BaseException, None]] = SimpleQueue()

    def one(item: T) -> Outcome[T, R]:
        try:
            return Outcome(item, result=work(item))
        except FleetError as error:
            return Outcome(item, error=error)

    def serve() -> None:
        try:
            while not stop.is_set():
                with lock:
                    try:
                        item = next(source)
                    except StopIteration:
                        break
                outcome = one(item)
                reason = _why_stop(outcome.error, stop_on_error, deadline)
                if reason is not None:
                    reasons.append(reason)
                    stop.set()
                finished.put(outcome)
        except BaseException as error:
            finished.put(error)
        finished.put(None)

    threads = [threading.Thread(target=serve, name=f"gpulab-{number}", daemon=True) for number in range(concurrency)]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            outcome = finished.get()
            if outcome is None:
                running -= 1
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            if on_done is not None:
                on_done(outcome)
            yield outcome
    finally:
        # The threads end with what they are at, also when nobody wants the outcomes any more.
        stop.set()
        for thread in threads:
            thread.join()
    if reasons:
        why = reasons[0]
        for item in source:
            rest: Outcome[T, R] = Outcome(item, error=FleetError(f"not tried: {why.message}", **_plain(why.details)))
            if on_done is not None:
                on_done(rest)
            yield rest


def _plain(details: dict[str, object]) -> dict[str, object]:
    """Without what belongs to the item that failed."""
    return {key: value for key, value in details.items() if key != "done"}


def _why_stop(error: FleetError | None, stop_on_error: bool, deadline: Deadline | None) -> Optional[FleetError]:
    if error is not None and (stop_on_error or getattr(error, "fatal", False)):
        return error
    if deadline is not None and deadline.expired():
        return DeadlineExpired(f"the time of {deadline.timeout_s:.0f} s (timeout_s) is up")
    return None
