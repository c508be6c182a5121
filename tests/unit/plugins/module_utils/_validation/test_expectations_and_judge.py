# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person can expect, and what becomes of it next to what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import Selectors
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import View
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.expectations import parse_expectations
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.judge import judge

CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpus"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example'"}}]},
}
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "n1-gpus"},
    "spec": {
        "driver": "gpu.example",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": "X1"}, "number": {"int": number}}}
            for number in range(2)
        ],
    },
}


def pod(name: str, phase: str = "Running", node: str = "n1", claim: str = "mine") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "here", "uid": f"uid-{name}"},
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main"}],
            **({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]} if claim else {}),
        },
        "status": {"phase": phase},
    }


def claim(name: str, *devices: str, users: tuple[str, ...] = (), count: int = 1) -> dict[str, Any]:
    results = [{"driver": "gpu.example", "pool": "n1", "device": device, "request": "gpu"} for device in devices]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpus", "count": count}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "here", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [request]}},
        "status": {
            **({"allocation": {"devices": {"results": results}}} if devices else {}),
            "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users],
        },
    }


def look(expect: dict[str, Any], pods: list[Any], claims: list[Any]) -> list[Check]:
    view = View([SLICE], claims, pods, [CLASS])

    def in_scope(obj: dict[str, Any]) -> bool:
        return bool(obj["metadata"]["namespace"] == "here")

    return judge(Subject("lab", "t", kind="claim"), view, parse_expectations(expect), in_scope, Selectors())


def bad(checks: list[Check]) -> list[tuple[str, str, str]]:
    return [(one.device, one.name, one.reason) for one in checks if one.status == "failed"]


GOOD = ([pod("a")], [claim("mine", "gpu-0", users=("a",))])


def test_without_a_word_everything_has_to_run_and_to_be_allocated():
    checks = look({}, *GOOD)
    assert not bad(checks) and {one.name for one in checks} >= {"pod.phase", "pod.claims", "claim.selectors"}
    waiting = look({}, [pod("a", "Pending", "")], [claim("mine")])
    assert {name for _device, name, _reason in bad(waiting)} == {"pod.phase", "pod.claims", "claim.allocated"}


@pytest.mark.parametrize(
    ("expect", "name", "words"),
    [
        ({"pods": [{"name": "a", "count": 2}]}, "pod.number", "there is 1 (a), expected are 2"),
        ({"pods": [{"name": "b*"}]}, "pod.number", "there is no such pod"),
        ({"pods": [{"name": "a", "node": "n2"}]}, "pod.node", "is on n1 and not on n2"),
        ({"pods": [{"name": "a", "phase": "Succeeded"}]}, "pod.phase", "is Running and not Succeeded"),
        ({"pods": [{"name": "a", "pending": "exhausted"}]}, "pod.pending", "should wait (exhausted), but is Running"),
        ({"pods": [{"name": "a", "claims": "unallocated"}]}, "pod.unallocated", "should be found without"),
        ({"claims": [{"name": "mine", "state": "unallocated"}]}, "claim.unallocated", "still has gpu.example/n1/gpu-0"),
        ({"claims": [{"name": "mine", "devices": 2}]}, "claim.expected_devices", "has 1 devices, expected are 2"),
        ({"claims": [{"name": "*", "count": 0}]}, "claim.number", "expected are 0"),
        ({"claims": [{"name": "mine", "reserved_for": ["b"]}]}, "claim.expected_pods", "['a'], expected is ['b']"),
        ({"claims": [{"name": "mine", "node": "n2"}]}, "claim.expected_node", "is on n1, expected is n2"),
        ({"claims": [{"name": "mine", "chosen": {"gpu": "best"}}]}, "claim.expected_choice", "nothing was chosen"),
        (
            {"claims": [{"name": "mine", "where": "device.attributes['gpu.example'].model == 'X2'"}]},
            "claim.expected_selector",
            "gpu-0 of n1 (gpu.example): does not satisfy",
        ),
        ({"claims": [{"name": "mine", "same": "gpu.example/uuid"}]}, "claim.expected_attribute", "gpu.example/uuid"),
        ({"free": ["n1"]}, "node.free", "devices are still allocated: gpu-0 by here/mine"),
    ],
)
def test_an_expectation_that_does_not_hold_fails_by_its_name(expect: dict[str, Any], name: str, words: str):
    found = bad(look(expect, *GOOD))
    assert any(check == name and words in reason for _device, check, reason in found), found


@pytest.mark.parametrize(
    "expect",
    [
        {"pods": [{"name": "a", "count": 1, "node": "n1"}]},
        {"claims": [{"name": "mine", "devices": 1, "reserved_for": ["a"], "node": "n1"}]},
        {"claims": [{"name": "m*", "count": 1, "where": ["device.attributes['gpu.example'].model == 'X1'"]}]},
        {"claims": [{"name": "mine", "same": ["gpu.example/model"], "distinct": ["gpu.example/number"]}]},
    ],
)
def test_an_expectation_that_holds_passes(expect: dict[str, Any]):
    assert not bad(look(expect, *GOOD))


def test_an_expression_that_cannot_be_evaluated_here_is_skipped_and_never_passed():
    for where, pods_and_claims, words in (
        ("ip('10.0.0.1').family() == 4", GOOD, "this CEL library cannot evaluate"),
        ("true", ([pod("a")], [claim("mine", "gpu-9", users=("a",))]), "gpu-9 of n1 cannot be looked at"),
    ):
        checks = look({"claims": [{"name": "mine", "where": where}]}, *pods_and_claims)
        (found,) = [one for one in checks if one.name == "claim.expected_selector"]
        assert found.status == "skipped" and words in found.reason


def test_same_and_distinct_tell_devices_apart():
    two = ([pod("a")], [claim("mine", "gpu-0", "gpu-1", users=("a",), count=2)])
    assert not bad(look({"claims": [{"name": "mine", "same": "gpu.example/model"}]}, *two))
    (found,) = bad(look({"claims": [{"name": "mine", "same": "gpu.example/number"}]}, *two))
    assert found[1] == "claim.expected_attribute"
    (found,) = bad(look({"claims": [{"name": "mine", "distinct": "gpu.example/model"}]}, *two))
    assert found[1] == "claim.expected_attribute"


def test_a_pod_that_went_past_the_scheduler_is_told_from_one_that_has_its_device():
    forced = ([pod("a")], [claim("mine")])
    usual = bad(look({}, *forced))
    assert ("pod/a", "pod.claims") in {(device, name) for device, name, _reason in usual}
    assert "past the scheduler" in str(usual)
    expected = {"pods": [{"name": "a", "claims": "unallocated"}], "claims": [{"name": "mine", "state": "unallocated"}]}
    assert not bad(look(expected, *forced))


def test_objects_of_others_are_not_judged_but_hold_devices():
    other = claim("theirs", "gpu-0", users=("x",))
    other["metadata"]["namespace"] = "elsewhere"
    found = bad(look({}, GOOD[0], [*GOOD[1], other]))
    assert [(device, name) for device, name, _reason in found] == [("mine", "claim.exclusive")]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ([], "expect is []; give a dictionary with pods, claims, free"),
        ({"pod": []}, "expect has 'pod'; known are pods, claims, free"),
        ({"pods": {"name": "a"}}, "expect.pods is"),
        ({"pods": [{}]}, "expect.pods[0].name is None"),
        ({"pods": [{"name": "a", "count": -1}]}, "expect.pods[0].count is -1"),
        ({"pods": [{"name": "a", "count": True}]}, "expect.pods[0].count is True"),
        ({"pods": [{"name": "a", "phase": "running"}]}, "give one of Pending, Running"),
        (
            {"pods": [{"name": "a", "pending": "because"}]},
            "expect.pods[0].pending is 'because'; give one of broken_pool",
        ),
        ({"claims": [{"name": "a", "state": "free"}]}, "give one of allocated, unallocated, any"),
        ({"claims": [{"name": "a", "chosen": ["x"]}]}, "expect.claims[0].chosen is"),
        ({"claims": [{"name": "a", "where": [1]}]}, "expect.claims[0].where[0] is 1"),
    ],
)
def test_what_is_wrong_with_an_expectation_is_told_by_its_place(raw: Any, told: str):
    with pytest.raises(FleetError) as error:
        parse_expectations(raw)
    assert told in error.value.message


@pytest.mark.parametrize(
    ("raw", "absence"),
    [
        ({}, False),
        ({"pods": [{"name": "a", "count": 1}], "claims": [{"name": "a"}]}, False),
        ({"pods": [{"name": "a", "pending": "exhausted"}]}, True),
        ({"pods": [{"name": "a", "count": 0}]}, True),
        ({"claims": [{"name": "a", "state": "unallocated"}]}, True),
        ({"free": "n1"}, True),
    ],
)
def test_what_is_true_at_first_in_any_case_has_to_stay_so(raw: Any, absence: bool):
    assert parse_expectations(raw).of_absence is absence
