# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deadlines and polling, on a clock of the test's own."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline, poll
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired


class Clock:
    def __init__(self):
        self.now = 100.0
        self.naps = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    ("passed", "remaining", "expired"), [(0, 10, False), (9.5, 0.5, False), (10, 0, True), (11, 0, True)]
)
def test_deadline(passed, remaining, expired):
    clock = Clock()
    deadline = Deadline(10, clock)
    clock.now += passed
    assert deadline.elapsed_s() == passed
    assert deadline.remaining_s() == remaining
    assert deadline.expired() is expired


def test_poll_returns_the_first_answer_even_a_false_one():
    clock = Clock()
    answers = iter([None, None, 0])
    assert poll(Deadline(10, clock), lambda: next(answers), 1, sleep=clock.sleep) == 0
    assert clock.naps == [1, 1]


def test_poll_asks_once_more_at_the_very_end_and_says_what_it_saw():
    clock = Clock()
    asked = []
    with pytest.raises(DeadlineExpired) as caught:
        poll(
            Deadline(5, clock), lambda: asked.append(clock.now), 2, "the agent of vm1", lambda: "Starting", clock.sleep
        )
    assert asked == [100, 102, 104, 105]
    assert str(caught.value) == "gave up on the agent of vm1 after 5 s (limit 5 s); last state: Starting"
    assert caught.value.details == {"last_state": "Starting"}


def test_poll_with_no_time_left_asks_once():
    clock = Clock()
    assert poll(Deadline(0, clock), lambda: "there", 1, sleep=clock.sleep) == "there"
    with pytest.raises(DeadlineExpired):
        poll(Deadline(0, clock), lambda: None, 1, sleep=clock.sleep)
    assert clock.naps == []
