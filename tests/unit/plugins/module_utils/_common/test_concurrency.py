# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounded concurrency: order, limits, an error per item."""

from __future__ import annotations

import threading

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.concurrency import map_bounded
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError


def test_results_keep_the_order_of_items():
    # The first item can only end once the last one ran: order cannot come from the order of ending.
    last_ran = threading.Event()

    def work(number):
        if number == 0:
            assert last_ran.wait(10)
        if number == 3:
            last_ran.set()
        return number * 10

    outcomes = map_bounded(work, range(4), limit=4)
    assert [(one.item, one.result, one.ok) for one in outcomes] == [(n, n * 10, True) for n in range(4)]


@pytest.mark.parametrize("limit", [1, 3])
def test_never_more_than_the_limit(limit):
    lock = threading.Lock()
    seen = {"now": 0, "most": 0}
    full = threading.Barrier(limit)

    def work(_number):
        with lock:
            seen["now"] += 1
            seen["most"] = max(seen["most"], seen["now"])
        full.wait(10)
        with lock:
            seen["now"] -= 1

    assert all(one.ok for one in map_bounded(work, range(limit * 3), limit))
    assert seen["most"] == limit


def test_an_error_belongs_to_its_item():
    def work(name):
        if name == "b":
            raise FleetError("b is missing", name=name)
        return name.upper()

    outcomes = map_bounded(work, ["a", "b", "c"], limit=2)
    assert [one.result for one in outcomes] == ["A", None, "C"]
    assert [one.ok for one in outcomes] == [True, False, True]
    assert outcomes[1].error.details == {"name": "b"}


def test_a_fault_of_ours_is_raised():
    with pytest.raises(ZeroDivisionError):
        map_bounded(lambda number: 1 / number, [1, 0], limit=2)


def test_no_items_and_a_limit_that_makes_no_sense():
    assert map_bounded(str, [], limit=4) == []
    with pytest.raises(FleetError, match="at least 1"):
        map_bounded(str, [1], limit=0)
