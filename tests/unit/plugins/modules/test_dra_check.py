# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module dra_check as Ansible runs it, against an API server in memory."""

from __future__ import annotations

import threading

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Subject
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes import options
from ansible_collections.gpulab.fleet.plugins.modules import dra_check

GROUP = "resource.k8s.io"
GPU = "gpu.nvidia.com"


class Cluster:
    """One node with two GPUs, and a pod that has the first of them by its claim."""

    def __init__(self, server):
        self.server = server
        self.claim, self.pod = allocated("c", "p"), running("p", "c")
        self.slice = gpus("n1", [0, 1])
        self.put(
            "deviceclasses." + GROUP,
            {"metadata": {"name": GPU}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{GPU}'"}}]}},
        )
        self.put("resourceslices." + GROUP, self.slice)
        self.put("resourceclaims." + GROUP, self.claim, "team")
        self.put("pods", self.pod, "team")

    def put(self, resource, obj, namespace=""):
        with self.server.lock:
            self.server.objects.pop((resource, namespace, obj["metadata"]["name"]), None)
            if namespace:
                obj["metadata"]["namespace"] = namespace
            stored = self.server._store(resource, obj, "test", False, namespace)
            obj["metadata"]["uid"] = stored["metadata"]["uid"]


def gpus(node, numbers):
    devices = [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}} for number in numbers]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-s"},
        "spec": {"driver": GPU, "nodeName": node, "pool": pool, "devices": devices},
    }


def allocated(name, *pods, device="gpu-0"):
    results = [{"request": "gpu", "driver": GPU, "pool": "n1", "device": device}]
    requests = [{"name": "gpu", "exactly": {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": 1}}]
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": requests}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod} for pod in pods],
        },
    }


def running(name, claim):
    return {
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"nodeName": "n1", "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def server(api_server, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE_S", 0.3)
    monkeypatch.setattr(dra_check, "INTERVAL_S", 0.05)
    return api_server


@pytest.fixture
def cluster(server):
    return Cluster(server)


@pytest.fixture
def call(server, run_module):
    def run(fails=False, **params):
        arguments = {"host": server.url, "namespace": "team", "timeout_s": 2, "hold_s": 0, **params}
        return run_module(dra_check, arguments, fails)

    return run


def failures(result):
    return {(check["claim"], check["name"]) for check in result["checks"] if check["status"] == "failed"}


def test_everything_is_as_it_should_be(cluster, call):
    result = call(cluster="lab", label="first")
    assert result["summary"]["failed"] == 0
    assert result["changed"] is False
    assert {(check["host"], check["test"]) for check in result["checks"]} == {("lab", "first")}
    assert {"claim.allocated", "claim.selectors", "pod.phase", "pod.claims"} <= {
        check["name"] for check in result["checks"]
    }
    assert cluster.server.writes == 0


def test_one_list_a_kind_for_any_number_of_claims(cluster, call):
    for number in range(30):
        name = f"more-{number}"
        cluster.put("resourceslices." + GROUP, gpus(f"m{number}", [0]))
        claim = allocated(name, f"more-{number}")
        claim["status"]["allocation"]["devices"]["results"][0]["pool"] = f"m{number}"
        cluster.put("resourceclaims." + GROUP, claim, "team")
        pod = running(name, name)
        pod["spec"]["nodeName"] = f"m{number}"
        cluster.put("pods", pod, "team")
    assert call()["summary"]["failed"] == 0
    for plural in ("pods", "resourceclaims", "deviceclasses", "resourceslices"):
        assert cluster.server.count(rf"^GET .*/{plural}\?") == 1, plural


def test_failed_checks_fail_the_task_unless_told_otherwise(cluster, call):
    cluster.put("resourceclaims." + GROUP, allocated("other", device="gpu-0"), "elsewhere")
    result = call(fails=True)
    assert failures(result) == {("c", "claim.exclusive")}
    assert "1 checks failed: c claim.exclusive: device gpu-0 of n1 is allocated 2 times" in result["msg"]
    assert call(fail_on="never")["summary"]["failed"] == 1


def test_it_waits_until_the_pod_runs(cluster, call):
    cluster.pod["status"]["phase"] = "Pending"
    cluster.put("pods", cluster.pod, "team")
    assert failures(call(fails=True, wait=False)) == {("pod/p", "pod.phase")}
    timer = threading.Timer(0.3, lambda: cluster.put("pods", {**cluster.pod, "status": {"phase": "Running"}}, "team"))
    timer.start()
    result = call(timeout_s=20)
    timer.join()
    assert result["summary"]["failed"] == 0


def test_when_the_time_is_up_the_last_look_is_told(cluster, call):
    cluster.pod["status"] = {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient cpu.",
            }
        ],
    }
    cluster.pod["spec"].pop("nodeName")
    cluster.put("pods", cluster.pod, "team")
    result = call(fails=True, timeout_s=1)
    assert "the scheduler says Unschedulable: 0/1 nodes are available: 1 Insufficient cpu." in result["msg"]


@pytest.mark.parametrize(
    ("selector", "lists"), [({"kubernetes.io/hostname": "n1"}, "fieldSelector=spec.nodeName%3Dn1"), ({}, "limit=200$")]
)
def test_why_a_claim_waits_is_looked_for_where_its_pod_may_go(cluster, call, selector, lists):
    cluster.put("resourceclaims." + GROUP, allocated("holder", device="gpu-1"), "elsewhere")
    cluster.put("resourceclaims." + GROUP, allocated("other"), "elsewhere")
    cluster.claim["status"] = {}
    cluster.put("resourceclaims." + GROUP, cluster.claim, "team")
    cluster.pod["spec"] = {"resourceClaims": cluster.pod["spec"]["resourceClaims"], "nodeSelector": selector}
    said = "0/1 nodes are available: 1 cannot allocate all claims."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    cluster.pod["status"] = {"phase": "Pending", "conditions": [condition]}
    cluster.put("pods", cluster.pod, "team")
    result = call(expect={"pods": [{"name": "p", "pending": "exhausted"}]}, wait=False)
    (cause,) = [check["reason"] for check in result["checks"] if check["name"] == "pod.cause"]
    assert cause.startswith("exhausted: request gpu: of 2 devices of n1")
    assert cluster.server.count(rf"^GET .*/resourceslices\?.*{lists}") == 1


def test_what_should_not_happen_is_waited_for(cluster, call):
    """A claim that is not allocated yet is no proof that it will not be."""
    cluster.claim["status"] = {}
    cluster.put("resourceclaims." + GROUP, cluster.claim, "team")
    expect = {"claims": [{"name": "c", "state": "unallocated"}], "pods": [{"name": "p", "claims": "any"}]}
    timer = threading.Timer(0.4, lambda: cluster.put("resourceclaims." + GROUP, allocated("c", "p"), "team"))
    timer.start()
    result = call(fails=True, expect=expect, timeout_s=3, hold_s=2)
    timer.join()
    assert failures(result) == {("c", "claim.unallocated")}


def test_a_pod_past_the_scheduler_fails_and_can_be_expected(cluster, call):
    cluster.claim["status"] = {}
    cluster.put("resourceclaims." + GROUP, cluster.claim, "team")
    result = call(fails=True, timeout_s=1)
    assert failures(result) == {("c", "claim.allocated"), ("pod/p", "pod.claims")}
    assert "it went past the scheduler by spec.nodeName" in result["msg"]
    expect = {"pods": [{"name": "p", "claims": "unallocated"}], "claims": [{"name": "c", "state": "unallocated"}]}
    assert call(expect=expect)["summary"]["failed"] == 0


@pytest.mark.parametrize(
    ("expect", "failed"),
    [
        ({"claims": [{"name": "c", "devices": 1, "reserved_for": ["p"], "node": "n1"}]}, set()),
        ({"claims": [{"name": "c", "devices": 2}]}, {("c", "claim.expected_devices")}),
        ({"claims": [{"name": "c", "reserved_for": ["p", "q"]}]}, {("c", "claim.expected_pods")}),
        ({"claims": [{"name": "c", "node": "n2"}]}, {("c", "claim.expected_node")}),
        ({"claims": [{"name": "c", "where": ["device.driver == 'x'"]}]}, {("c", "claim.expected_selector")}),
        ({"claims": [{"name": "c", "same": ["gpu.nvidia.com/uuid"]}]}, {("c", "claim.expected_attribute")}),
        ({"claims": [{"name": "c", "count": 2}]}, {("c", "claim.number")}),
        ({"claims": [{"name": "nobody"}]}, {("nobody", "claim.number")}),
        ({"pods": [{"name": "p", "node": "n2"}]}, {("pod/p", "pod.node")}),
        ({"pods": [{"name": "p*", "count": 2}]}, {("pod/p*", "pod.number")}),
        ({"pods": [{"name": "p", "phase": "Succeeded"}]}, {("pod/p", "pod.phase")}),
        ({"pods": [{"name": "p", "pending": "exhausted"}]}, {("pod/p", "pod.pending")}),
        ({"free": ["n1"]}, {("node/n1", "node.free")}),
    ],
)
def test_expectations(cluster, call, expect, failed):
    result = call(fails=bool(failed), expect=expect, wait=False)
    assert failures(result) == failed


def test_only_what_was_named_is_checked(cluster, call):
    cluster.put("pods", {**running("bad", "none"), "status": {"phase": "Failed"}}, "team")
    assert failures(call(fails=True, wait=False)) == {("pod/bad", "pod.phase"), ("pod/bad", "pod.claims")}
    assert call(pods=["p"])["summary"]["failed"] == 0
    assert call(claims=["c"], pods=[])["summary"]["failed"] == 0
    result = call(fails=True, claims=["c", "missing"], pods=["p", "gone"], wait=False)
    assert failures(result) == {("missing", "claim.exists"), ("pod/gone", "pod.exists")}


def add_neighbour(cluster, **labels):
    """Another pod of the namespace, which waits, and one that runs with the other GPU; neither is anybody's business here."""
    waiting = running("waits", "late")
    waiting["metadata"]["labels"] = labels
    waiting["spec"].pop("nodeName")
    waiting["status"] = {"phase": "Pending"}
    late = allocated("late")
    late["status"] = {}
    cluster.put("resourceclaims." + GROUP, late, "team")
    cluster.put("pods", waiting, "team")
    cluster.put("resourceclaims." + GROUP, allocated("second", "q", device="gpu-1"), "team")
    second = running("q", "second")
    second["metadata"]["labels"] = labels
    cluster.put("pods", second, "team")


@pytest.mark.parametrize("only", [{"pods": ["p"]}, {"label_selector": "app=x"}])
def test_claims_of_other_pods_are_left_alone(cluster, call, only):
    add_neighbour(cluster, app="y")
    result = call(**only)
    assert {check["claim"] for check in result["checks"]} == {"pod/p", "c"}


def test_a_claim_that_is_shared_with_a_pod_of_other_labels(cluster, call):
    """The other pod is not checked, and reservedFor rightly names it."""
    cluster.put("resourceclaims." + GROUP, allocated("c", "p", "friend"), "team")
    friend = running("friend", "c")
    friend["metadata"]["labels"] = {"app": "y"}
    cluster.put("pods", friend, "team")
    result = call(label_selector="app=x")
    assert "pod/friend" not in {check["claim"] for check in result["checks"]}
    assert "reservedFor names p, friend" in {check["reason"] for check in result["checks"]}


def test_a_claim_that_is_expected_is_checked_whoever_uses_it(cluster, call):
    add_neighbour(cluster, app="y")
    expect = {"claims": [{"name": "late", "state": "unallocated"}, {"name": "second", "devices": 2}]}
    assert failures(call(fails=True, pods=["p"], expect=expect, wait=False)) == {("second", "claim.expected_devices")}


def test_labels_that_nobody_has_are_nothing_to_check(cluster, call):
    assert "nothing to check" in call(fails=True, label_selector="app=z", wait=False)["msg"]


def test_it_waits_until_there_is_something_to_check(cluster, call):
    later = running("later", "second")
    later["metadata"]["labels"] = {"app": "z"}
    cluster.put("resourceclaims." + GROUP, allocated("second", "later", device="gpu-1"), "team")
    timer = threading.Timer(0.3, lambda: cluster.put("pods", later, "team"))
    timer.start()
    result = call(label_selector="app=z", timeout_s=20)
    timer.join()
    assert {check["claim"] for check in result["checks"]} == {"pod/later", "second"}


def test_what_does_not_hold_long_enough_is_not_confirmed(cluster, call):
    """Good at the end of the time, and not yet for hold_s: nobody knows whether it stays so."""
    expect = {"claims": [{"name": "gone", "count": 0}]}
    assert call(expect=expect, timeout_s=1, hold_s=0)["summary"]["failed"] == 0
    result = call(fails=True, expect=expect, timeout_s=1, hold_s=30)
    assert "has to hold for hold_s, 30 s" in result["msg"]
    assert "timeout_s, 1 s" in result["msg"]


@pytest.mark.parametrize(
    ("good_at_s", "ends_at_s", "failed"),
    [(0, 2, []), (8, 10, []), (8.5, 10, ["expect.held"]), (99, 9.5, ["claim.unallocated"])],
)
def test_the_wait_ends_with_its_time(monkeypatch, good_at_s, ends_at_s, failed):
    now_s = 0.0

    def sleep(seconds):
        nonlocal now_s
        now_s += seconds

    def look(*_arguments):
        make = subject.passed if now_s >= good_at_s else subject.failed
        return [make("c", "claim.unallocated", "as it is")]

    subject = Subject("lab", "test", kind="claim")
    monkeypatch.setattr(dra_check, "INTERVAL_S", 0.5)
    monkeypatch.setattr(dra_check.time, "sleep", sleep)
    monkeypatch.setattr(dra_check, "look", look)
    params = {
        "namespace": "team", "claims": None, "pods": None, "label_selector": None, "wait": True, "hold_s": 2, "timeout_s": 10,
        "expect": {"claims": [{"name": "c", "state": "unallocated"}]},
    }  # fmt: skip
    checks = dra_check.run(params, None, subject, Deadline(10, clock=lambda: now_s))
    assert [check.name for check in checks if check.status == "failed"] == failed
    assert now_s == pytest.approx(ends_at_s)


def test_nothing_to_check_is_no_success(cluster, call):
    assert "namespace empty has nothing to check" in call(fails=True, namespace="empty")["msg"]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"hold_s": -1}, "hold_s is -1"),
        ({"expect": {"pods": [{"name": ""}]}}, "expect.pods[0].name"),
        ({"expect": {"claims": [{"name": "c", "devices": -1}]}}, "expect.claims[0].devices is -1"),
        (
            {"expect": {"claims": [{"name": "c", "state": "maybe"}]}},
            "state must be one of: allocated, unallocated, any, got: maybe",
        ),
        ({"expect": {"pods": [{"name": "p", "pending": "bored"}]}}, "got: bored"),
        ({"expect": {"podz": []}}, "podz"),
        ({"host": "http://127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_bad_input_is_one_message(cluster, call, params, words):
    assert words in call(fails=True, **params)["msg"]


def test_who_may_not_list_claims_is_told(cluster, call):
    cluster.server.forbidden.add(("list", f"resourceclaims.{GROUP}"))
    message = call(fails=True)["msg"]
    assert "user 'jane' may not list resourceclaims.resource.k8s.io" in message


def test_options_are_documented_as_they_are():
    documented = yaml.safe_load(dra_check.DOCUMENTATION)["options"]

    def compare(options_, spec):
        assert set(options_) == set(spec)
        for name, option in options_.items():
            own = dict(spec[name])
            inner = own.pop("options", None)
            told = {key: value for key, value in option.items() if key not in ("description", "suboptions")}
            assert told == own, name
            if inner is not None:
                compare(option["suboptions"], inner)

    shared = set(options.cluster_arguments())
    compare(documented, {name: option for name, option in dra_check.ARGUMENT_SPEC.items() if name not in shared})
