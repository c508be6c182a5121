# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One wait for many objects, and reports that stay small."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired, FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import NODE
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.outcome import failure_of, result_of
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.report import Done, Report, describe_change
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.wait import wait_for


def judge(node):
    if node is None:
        return False, "gone"
    state = node["metadata"]["labels"]["state"]
    return state == "good", state


def test_a_wait_ends_when_all_are_good(server, cluster):
    for number in range(4):
        server.add("nodes", {"metadata": {"name": f"n{number}", "labels": {"state": "bad"}}})
    looks = []

    def improve(_seconds):
        looks.append(1)
        server.objects[("nodes", "", f"n{len(looks) - 1}")]["metadata"]["labels"]["state"] = "good"

    told = []
    names = [f"n{number}" for number in range(4)]
    wait_for(
        cluster(),
        NODE,
        names,
        judge,
        Deadline(60),
        "good nodes",
        on_progress=lambda *now: told.append(now),
        sleep=improve,
    )
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_wait_that_fails_says_how_many_and_why(server, cluster):
    server.add("nodes", {"metadata": {"name": "n1", "labels": {"state": "lazy"}}})
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    with pytest.raises(DeadlineExpired) as caught:
        wait_for(
            cluster(),
            NODE,
            ["n0", "n1"],
            judge,
            Deadline(5, clock=lambda: now[0]),
            "good nodes",
            hint="feed them",
            sleep=sleep,
        )
    assert (
        "gave up waiting for good nodes after 5 s (timeout_s is 5): 2 of 2 are not there yet (n0: gone; n1: lazy); feed them"
        in str(caught.value)
    )
    assert caught.value.details["waiting"] == {"n0": "gone", "n1": "lazy"}


def test_a_report_counts_all_and_shows_some():
    report = Report(("Node", "ResourceSlice"), limit=3)
    for number in range(5):
        report.done(Done("create", "Node", f"n{number}"))
    report.done(Done("touch", "ResourceSlice", "s", "labels differ"))
    report.unchanged("ResourceSlice", 7)
    report.failed("Node", "bad", FleetError("no way", verb="create", resource="nodes"))
    result = result_of(report, None, 1.23456, True)
    assert result["summary"]["nodes"] == {"created": 5, "updated": 0, "deleted": 0, "unchanged": 0, "failed": 1}
    assert result["summary"]["slices"]["updated"] == 1
    assert result["results"][0] == {
        "kind": "Node", "name": "bad", "action": "failed", "changed": False, "failed": True, "msg": "no way",
        "verb": "create", "resource": "nodes",
    }  # fmt: skip
    assert (len(result["results"]), result["results_omitted"], result["changed"]) == (3, 4, True)
    assert result["diff"]["before"]["Node n0"] == "absent"
    assert (
        failure_of(report)
        == "1 objects failed (nodes: 5 created, 1 failed; slices: 1 updated, 7 unchanged). Node bad: no way"
    )


def test_no_failure():
    report = Report(("ResourceSlice",), limit=3)
    assert failure_of(report) is None
    assert failure_of(report, FleetError("refused")) == "refused"
    assert report.diff() == {"before": {}, "after": {}}


def test_a_difference_names_devices():
    before = {"driver": "d", "pool": {"name": "p", "generation": 1}, "devices": [{"name": "a", "x": 1}, {"name": "b"}]}
    after = {"driver": "d", "pool": {"name": "p", "generation": 2}, "devices": [{"name": "a", "x": 2}, {"name": "b"}]}
    assert describe_change(before, after) == (
        {"devices.a": {"name": "a", "x": 1}},
        {"devices.a": {"name": "a", "x": 2}},
    )
    assert describe_change(None, after)[1]["devices"] == ["a", "b"]
