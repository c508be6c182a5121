# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One wait with one deadline for any number of objects. Private to the collection."""

from __future__ import annotations

import time
from typing import Any, Callable, Collection, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import Kind

# An object that is there, or None when it is not -> whether it is as it should be, and its state in words.
Judge = Callable[[Optional[Mapping[str, Any]]], tuple[bool, str]]

_NAMES_SHOWN = 5
_LONGEST_PAUSE_S = 10.0


def wait_for(
    kubernetes: Kubernetes,
    kind: Kind,
    names: Collection[str],
    judge: Judge,
    deadline: Deadline,
    what: str,
    namespace: str | None = None,
    labels: str = "",
    interval_s: float = 1.0,
    hint: str = "",
    on_progress: Callable[[int, int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Look at all of them with one list at a time, until `judge` is content with each or the deadline has passed.

    DeadlineExpired then tells how many are not as they should be, with the states of some (`details["waiting"]` has more).
    """
    wanted = set(names)
    pause_s = interval_s
    while True:
        started_s = deadline.elapsed_s()
        waiting: dict[str, str] = {}
        found: set[str] = set()
        for item in kubernetes.list(kind, namespace, labels=labels):
            name = str(item["metadata"]["name"])
            if name in wanted:
                found.add(name)
                good, state = judge(item)
                if not good:
                    waiting[name] = state
        for name in wanted - found:
            good, state = judge(None)
            if not good:
                waiting[name] = state
        if on_progress is not None:
            on_progress(len(wanted) - len(waiting), len(wanted))
        if not waiting:
            return
        if deadline.expired():
            shown = sorted(waiting.items())
            some = "; ".join(f"{name}: {state}" for name, state in shown[:_NAMES_SHOWN])
            more = f" and {len(shown) - _NAMES_SHOWN} more" if len(shown) > _NAMES_SHOWN else ""
            raise DeadlineExpired(
                f"gave up waiting for {what} after {deadline.elapsed_s():.0f} s (timeout_s is {deadline.timeout_s:.0f}):"
                f" {len(waiting)} of {len(wanted)} are not there yet ({some}{more}){f'; {hint}' if hint else ''}",
                waiting=dict(shown[:100]),
                waiting_count=len(waiting),
            )
        # A list that takes long is not asked for all the time.
        pause_s = min(_LONGEST_PAUSE_S, max(interval_s, 2 * (deadline.elapsed_s() - started_s)))
        sleep(min(pause_s, max(0.05, deadline.remaining_s())))
