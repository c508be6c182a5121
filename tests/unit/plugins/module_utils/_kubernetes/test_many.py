# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many at once: bounded, lazy, to the end of the set, and an end for what is fatal."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import Unreachable
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.many import run_many


def test_all_items_have_an_outcome_and_no_more_run_than_allowed():
    running, most = [], []
    lock = threading.Lock()

    def work(item):
        with lock:
            running.append(item)
            most.append(len(running))
        time.sleep(0.002)
        with lock:
            running.remove(item)
        if item % 7 == 0:
            raise FleetError(f"no {item}")
        return 2 * item

    seen = []
    outcomes = list(run_many(work, range(100), 5, on_done=seen.append))
    assert sorted(outcome.item for outcome in outcomes) == list(range(100))
    assert seen == outcomes
    assert max(most) == 5
    assert {outcome.item for outcome in outcomes if not outcome.ok} == set(range(0, 100, 7))
    assert all(outcome.result == 2 * outcome.item for outcome in outcomes if outcome.ok)


def test_items_are_taken_as_they_are_needed():
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    outcomes = run_many(lambda item: time.sleep(0.001), items(), 3)
    for _number in range(10):
        next(outcomes)
    outcomes.close()
    assert len(taken) < 100
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gpulab-")]


def test_a_fatal_error_ends_the_run_and_the_rest_says_why():
    def work(item):
        if item == 3:
            raise Unreachable("the server is gone", done="of item 3")
        time.sleep(0.01)
        return item

    outcomes = list(run_many(work, range(50), 2))
    assert len(outcomes) == 50
    assert sum(outcome.ok for outcome in outcomes) < 8
    rest = [outcome.error for outcome in outcomes if not outcome.ok and outcome.item != 3]
    assert {error.message for error in rest} == {"not tried: the server is gone"}
    assert all("done" not in error.details for error in rest)


def test_an_error_ends_the_run_only_if_asked_for():
    def work(item):
        raise FleetError(f"no {item}")

    assert [outcome.error.message for outcome in run_many(work, range(3), 1)] == ["no 0", "no 1", "no 2"]
    stopped = [outcome.error.message for outcome in run_many(work, range(30), 1, stop_on_error=True)]
    assert stopped[0] == "no 0"
    assert stopped[-1] == "not tried: no 0"


def test_the_deadline_ends_the_run():
    now = [0.0]

    def work(item):
        now[0] += 1
        return item

    outcomes = list(run_many(work, range(20), 1, deadline=Deadline(5, clock=lambda: now[0])))
    assert 4 <= sum(outcome.ok for outcome in outcomes) < 20
    assert "not tried: the time of 5 s (timeout_s) is up" in outcomes[-1].error.message


def test_a_fault_of_ours_is_raised():
    def work(item):
        raise ZeroDivisionError("a fault")

    with pytest.raises(ZeroDivisionError):
        list(run_many(work, range(5), 2))

    def items():
        yield 1
        raise ZeroDivisionError("a fault")

    with pytest.raises(ZeroDivisionError):
        list(run_many(lambda item: item, items(), 2))


def test_no_items_and_no_threads():
    assert list(run_many(lambda item: item, [], 4)) == []
    with pytest.raises(FleetError, match="concurrency is 0"):
        list(run_many(lambda item: item, [1], 0))
