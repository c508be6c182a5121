# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that run, and pods that wait: for the cause meant, as the scheduler says and as is found out here, and for no other."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pods import (
    blocked,
    check_pending,
    check_pod_claims,
    check_running,
    pending_cause,
)

# As kube-scheduler 1.37.2 says it.
MESSAGE = (
    "Unschedulable: 0/6 nodes are available: 1 cannot allocate all claims, 5 node(s) didn't match Pod's node affinity/selector."
    " preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling."
)
CEL = (
    'SchedulerError: running "DynamicResources" filter plugin: claim t1/err: selector #0 on device gpu.nvidia.com/n1/gpu-0:'
    " CEL runtime error: no such key: index. consider using CEL optional chaining"
)
HERE = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}


def waiting(world: Any, message: str = MESSAGE, **spec: Any) -> dict[str, Any]:
    pod: dict[str, Any] = world.pod(
        "late", claims={"gpu": "late"}, node=None, phase="Pending", blocked=message, **HERE, **spec
    )
    return pod


def pending(world: Any, pod: dict[str, Any], because: str, message: str = "") -> dict[str, tuple[str, str]]:
    checks = check_pending(world.subject, world.view(), pod, because, world.selectors, message)
    return {check.name: (check.status, check.reason) for check in checks}


def ask(expression: str = "", **more: Any) -> list[dict[str, Any]]:
    body: dict[str, Any] = {"deviceClassName": "gpu.nvidia.com", **more}
    if expression:
        body["selectors"] = [{"cel": {"expression": expression}}]
    return [{"name": "gpu", "exactly": body}]


def take_both(world: Any) -> None:
    world.claim("holder", given=["gpu=gpu-0", "gpu=gpu-1"])
    world.claim("late")


def no_match(world: Any) -> None:
    world.claim("late", requests=ask("device.attributes['gpu.nvidia.com'].productName == 'x'"))


def too_many(world: Any) -> None:
    world.claim("late", requests=ask(count=3))


def all_with_one_taken(world: Any) -> None:
    world.claim("holder", given=["gpu=gpu-0"])
    world.claim("late", requests=ask(allocationMode="All"))


def cel_error(world: Any) -> None:
    world.claim("late", requests=ask("device.attributes['gpu.nvidia.com'].index == 0"))


def missing_attribute(world: Any) -> None:
    del world.slices[0]["spec"]["devices"][0]["attributes"]["type"]
    world.claim("late")


def no_common_root(world: Any) -> None:
    world.slice([world.nic(0, "pci0000:90")], driver="dra.net")
    requests = [*ask(), {"name": "nic", "exactly": {"deviceClassName": "dra.net"}}]
    world.claim("late", requests=requests, constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}])


def incomplete(world: Any) -> None:
    world.slices[0]["spec"]["pool"]["resourceSliceCount"] = 2
    world.claim("late")


def tainted(world: Any) -> None:
    for device in world.slices[0]["spec"]["devices"]:
        device["taints"] = [{"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}]
    world.claim("late")


def no_room(world: Any) -> None:
    world.slices[0]["spec"]["sharedCounters"] = [{"name": "s", "counters": {"memory": {"value": "30Gi"}}}]
    for device in world.slices[0]["spec"]["devices"]:
        device["consumesCounters"] = [{"counterSet": "s", "counters": {"memory": {"value": "20Gi"}}}]
    world.claim("holder", given=["gpu=gpu-0"])
    world.claim("late")


CASES = {
    "exhausted": [take_both, all_with_one_taken, no_room],
    "no_match": [no_match],
    "too_few": [too_many],
    "cel_error": [cel_error, missing_attribute],
    "constraint": [no_common_root],
    "broken_pool": [incomplete],
    "tainted": [tainted],
}
WORDS = {
    take_both: "of 2 devices of n1 that are what it asks for, 0 are free, and it wants 1",
    all_with_one_taken: "of 2 devices of n1 that are what it asks for, 1 are free, and it wants all",
    no_room: "of 2 devices of n1 that are what it asks for, 0 are free, and it wants 1",
    no_match: "no device of n1 is what it asks for",
    too_many: "2 devices of n1 are what it asks for, and it wants 3",
    cel_error: "no such key: index",
    missing_attribute: "no such key: type",
    no_common_root: "no devices of n1 satisfy the constraint matchAttribute resource.kubernetes.io/pcieRoot of all requests",
    incomplete: "generation 1 has 1 slice, but resourceSliceCount says 2",
    tainted: "taints keep it from gpu-0 (gpu.nvidia.com/gpu-lost=:NoSchedule)",
}
EVERY = [(cause, make) for cause, makes in CASES.items() for make in makes]


@pytest.fixture
def node(world):
    world.slice([world.gpu(0), world.gpu(1)])
    return world


@pytest.mark.parametrize(("cause", "make"), EVERY)
def test_the_cause_is_found_without_the_scheduler(node, cause, make):
    make(node)
    found = pending_cause(node.view(), waiting(node), node.selectors)
    assert found.kind == cause
    assert WORDS[make] in found.words


@pytest.mark.parametrize(("cause", "make"), EVERY)
def test_a_pod_that_waits_as_meant_passes_and_for_any_other_cause_fails(node, cause, make):
    make(node)
    pod = waiting(node, CEL if cause == "cel_error" else MESSAGE)
    assert [status for status, _reason in pending(node, pod, cause).values()] == ["passed", "passed"]
    for other in set(CASES) - {cause}:
        found = pending(node, pod, other)
        assert "failed" in {status for status, _reason in found.values()}, other
        if "pod.cause" in found:
            assert f"the cause should be {other}, but is {cause}" in found["pod.cause"][1]


def test_a_claim_that_could_be_allocated_is_no_cause(node):
    node.claim("late")
    found = pending(node, waiting(node), "exhausted")
    assert found["pod.cause"] == (
        "failed",
        "the cause should be exhausted, but is available: node n1 has devices for it that are free",
    )


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "Unschedulable: 0/6 nodes are available: 1 Insufficient cpu, 5 node(s) didn't match Pod's node affinity/selector.",
            "Insufficient cpu",
        ),
        (
            "Unschedulable: 0/2 nodes are available: 1 Insufficient memory, 1 cannot allocate all claims.",
            "Insufficient memory",
        ),
        (
            "Unschedulable: 0/6 nodes are available: 1 node(s) had untolerated taint(s), 5 node(s) didn't match Pod's node affinity/selector.",
            "untolerated taint",
        ),
        (
            "Unschedulable: 0/3 nodes are available: 1 cannot allocate all claims, 2 node(s) didn't satisfy plugin(s) [VolumeBinding].",
            "[VolumeBinding]",
        ),
        (
            "Unschedulable: 0/3 nodes are available: 1 cannot allocate all claims, 2 node(s) didn't satisfy plugin(s) [NodeAffinity VolumeBinding].",
            "[NodeAffinity VolumeBinding]",
        ),
        (CEL, "no such key"),
        ("", "has not said why"),
    ],
)
def test_another_reason_of_the_scheduler_fails(node, message, words):
    take_both(node)
    pod = waiting(node, message)
    status, reason = pending(node, pod, "exhausted")["pod.pending"]
    assert status == "failed"
    assert words in reason


def test_a_pod_that_runs_does_not_wait(node):
    take_both(node)
    pod = node.pod("late", claims={"gpu": "late"})
    assert pending(node, pod, "exhausted") == {
        "pod.pending": ("failed", "should wait (exhausted), but is Running on n1")
    }


def test_a_message_of_its_own_is_looked_for(node):
    cel_error(node)
    pod = waiting(node, CEL)
    assert pending(node, pod, "cel_error", "no such key: index")["pod.pending"][0] == "passed"
    assert pending(node, pod, "cel_error", "no such key: minor")["pod.pending"][0] == "failed"


def test_a_pod_that_may_go_anywhere_waits_for_the_node_that_comes_closest(node):
    node.slice([node.gpu(0, productName="other")], node="n2")
    node.claim("holder", given=["gpu=gpu-0", "gpu=gpu-1"])
    node.claim("late", requests=ask("device.attributes['gpu.nvidia.com'].productName.contains('H100')"))
    pod = node.pod("late", claims={"gpu": "late"}, node=None, phase="Pending", blocked=MESSAGE)
    assert pending_cause(node.view(), pod, node.selectors).kind == "exhausted"


def test_what_this_library_cannot_evaluate_leaves_the_cause_open(node):
    node.claim("late", requests=ask("ip('10.0.0.1').family() == 4"))
    assert pending(node, waiting(node), "no_match")["pod.cause"][0] == "skipped"


def test_two_claims_of_one_pod_are_looked_at_together(node):
    """Each alone could be had."""
    node.claim("late", requests=ask(count=2))
    node.claim("more")
    pod = node.pod("late", claims={"a": "late", "b": "more"}, node=None, phase="Pending", blocked=MESSAGE, **HERE)
    assert pending_cause(node.view(), pod, node.selectors).kind == "too_few"


def test_a_constraint_that_only_taken_devices_satisfy_is_exhaustion(node):
    node.slice([node.nic(0, "pci0000:00")], driver="dra.net")
    node.claim("holder", given=["gpu=gpu-0"])
    requests = [*ask(), {"name": "nic", "exactly": {"deviceClassName": "dra.net"}}]
    node.claim("late", requests=requests, constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}])
    assert pending_cause(node.view(), waiting(node), node.selectors).kind == "exhausted"
    node.claims[0]["status"] = {}
    assert pending_cause(node.view(), waiting(node), node.selectors).kind == "available"


def test_a_device_without_the_attribute_is_named(node):
    node.slice([node.nic(0, None)], driver="dra.net")
    requests = [*ask(), {"name": "nic", "exactly": {"deviceClassName": "dra.net"}}]
    node.claim("late", requests=requests, constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}])
    found = pending_cause(node.view(), waiting(node), node.selectors)
    assert found.kind == "constraint"
    assert "1 of 1 devices for nic lack the attribute resource.kubernetes.io/pcieRoot (nic-0)" in found.words


@pytest.mark.parametrize(
    ("phase", "where", "message", "words"),
    [
        ("Pending", None, MESSAGE, "the scheduler says Unschedulable: 0/6 nodes"),
        ("Pending", "n1", "", "bound to n1, where nobody starts it"),
        ("Pending", None, "", "the scheduler has said nothing"),
        ("Failed", "n1", "", "is Failed and not Running"),
    ],
)
def test_why_a_pod_does_not_run(world, phase, where, message, words):
    check = check_running(world.subject, world.pod("p", node=where, phase=phase, blocked=message))
    assert (check.status, check.device) == ("failed", "pod/p")
    assert words in check.reason


def test_a_phase_is_not_enough(pair):
    """A pod with spec.nodeName runs on a fake node without any device."""
    assert check_running(pair.subject, pair.pods[0]).status == "passed"
    assert check_pod_claims(pair.subject, pair.view(), pair.pods[0]).status == "passed"
    pair.claims[0]["status"] = {}
    assert check_running(pair.subject, pair.pods[0]).status == "passed"
    check = check_pod_claims(pair.subject, pair.view(), pair.pods[0])
    assert check.status == "failed"
    assert check.reason == (
        "claim gpu is not allocated, although the pod is Running on n1: it went past the scheduler by spec.nodeName"
    )
    pair.claims.clear()
    assert "claim gpu does not exist" in check_pod_claims(pair.subject, pair.view(), pair.pods[0]).reason


def test_the_parts_of_the_schedulers_message(world):
    early = "0/3 nodes are available: 1 cannot allocate all claims, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    pod = world.pod("r", node=None, phase="Pending", blocked=f"Unschedulable: {early}")
    assert blocked(pod).parts == ("cannot allocate all claims",)
    pod = world.pod("p", node=None, phase="Pending", blocked=MESSAGE)
    assert blocked(pod).parts == ("cannot allocate all claims",)
    assert blocked(world.pod("q")) is None
