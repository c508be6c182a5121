# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs many writes and puts what becomes of them into one report, with a line of progress now and then. Private to the collection."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Sequence, TypeVar

from ansible_collections.gpulab.fleet.plugins.module_utils._common.concurrency import Outcome
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.many import run_many
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.publish import GroupResult
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.report import Done, Report

T = TypeVar("T")

_SAY_EVERY_S = 2.0


class Runner:
    """Bounded concurrent writes of one run."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        report: Report,
        progress: Progress,
        deadline: Deadline,
        stop_on_error: bool = False,
    ) -> None:
        self.kubernetes = kubernetes
        self.report = report
        self.progress = progress
        self.deadline = deadline
        self.stop_on_error = stop_on_error
        self._said_s = 0.0

    def each(
        self,
        kind: str,
        what: str,
        items: Sequence[T],
        name_of: Callable[[T], str],
        work: Callable[[T], tuple[list[Done], str]],
    ) -> dict[str, str]:
        """One write for each item; its name and what `work` gave beside the entries for the report."""
        results: dict[str, str] = {}
        for number, outcome in enumerate(self._many(work, items), start=1):
            if outcome.result is not None:
                entries, value = outcome.result
                for entry in entries:
                    self.report.done(entry)
                results[name_of(outcome.item)] = value
            elif outcome.error is not None:
                self.report.failed(kind, name_of(outcome.item), outcome.error)
            self._say(what, number, len(items))
        return results

    def groups(self, what: str, items: Iterable[T], work: Callable[[T], GroupResult], total: int) -> list[T]:
        """Pools, of which each is several writes; the items that did not end well."""
        failed: list[T] = []
        for number, outcome in enumerate(self._many(work, items), start=1):
            result = outcome.result
            if outcome.error is not None:
                # What a pool had got to when a fatal error came is with the error.
                done = outcome.error.details.pop("done", None)
                result = done if isinstance(done, GroupResult) else None
                self.report.failed("ResourceSlice", _words(outcome.item), outcome.error)
            if result is not None:
                for entry in result.done:
                    self.report.done(entry)
                self.report.unchanged("ResourceSlice", result.unchanged)
                for kind, name, error in result.errors:
                    self.report.failed(kind, name, error)
            if outcome.error is not None or (result is not None and result.errors):
                failed.append(outcome.item)
            self._say(what, number, total)
        return failed

    def _many(self, work: Callable[[T], Any], items: Iterable[T]) -> Iterable[Outcome[T, Any]]:
        return run_many(work, items, self.kubernetes.concurrency, self.deadline, self.stop_on_error)

    def _say(self, what: str, number: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= _SAY_EVERY_S or number == total:
            self._said_s = now_s
            self.progress.say(f"{what}: {number} of {total}")


def _words(item: object) -> str:
    key = getattr(item, "key", item)
    return " ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)
