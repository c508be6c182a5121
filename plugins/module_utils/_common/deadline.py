# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounded waits: a deadline on a monotonic clock, and polling that ends with a reason. Private to the collection."""

from __future__ import annotations

import time
from typing import Callable, Optional, TypeVar

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired

T = TypeVar("T")


class Deadline:
    """A point in time, `timeout_s` after its making, that several steps can share."""

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout_s = float(timeout_s)
        self._clock = clock
        self._start = clock()

    def elapsed_s(self) -> float:
        return self._clock() - self._start

    def remaining_s(self) -> float:
        """Seconds left, never below zero, so that it can be handed to a socket or a process as it is."""
        return max(0.0, self.timeout_s - self.elapsed_s())

    def expired(self) -> bool:
        return self.elapsed_s() >= self.timeout_s


def poll(
    deadline: Deadline,
    probe: Callable[[], Optional[T]],
    interval_s: float,
    what: str = "the awaited state",
    last_state: Callable[[], object] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Ask `probe` until it answers something other than None, at least once.

    When the time is up DeadlineExpired is raised, which names `what` and carries what `last_state` says at that moment.
    """
    while True:
        answer = probe()
        if answer is not None:
            return answer
        if deadline.expired():
            details = {} if last_state is None else {"last_state": last_state()}
            message = f"gave up on {what} after {deadline.elapsed_s():.0f} s (limit {deadline.timeout_s:.0f} s)"
            if details:
                message += f"; last state: {details['last_state']}"
            raise DeadlineExpired(message, **details)
        sleep(min(interval_s, deadline.remaining_s()))
