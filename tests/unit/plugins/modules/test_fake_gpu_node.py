# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module fake_gpu_node as Ansible runs it, against an API server in memory."""

from __future__ import annotations

import json

import pytest
import yaml
from fake_kubernetes import Fault

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes import options
from ansible_collections.gpulab.fleet.plugins.modules import fake_gpu_node

SLICES = "resourceslices.resource.k8s.io"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def play_kwok(obj):
    if "providerID" in obj.get("spec", {}):
        obj["status"]["conditions"] = [READY]


@pytest.fixture
def server(api_server):
    api_server.on_create = play_kwok
    return api_server


@pytest.fixture
def call(server, run_module):
    """Run the module to its end; its result."""

    def run(check_mode=False, diff=False, fails=False, **params):
        arguments = {
            "host": server.url,
            "name": "n{n}",
            "machine": "aws-p5",
            "timeout_s": 20,
            "_ansible_check_mode": check_mode,
            "_ansible_diff": diff,
            **params,
        }
        arguments = {key: value for key, value in arguments.items() if value is not None}
        return run_module(fake_gpu_node, arguments, fails)

    return run


def counts(result, kind):
    return {word: number for word, number in result["summary"][kind].items() if number}


def names(server, resource):
    return [obj["metadata"]["name"] for obj in server.of(resource)]


def test_a_life_of_a_fleet(server, call):
    assert counts(call(check_mode=True, count=3), "nodes") == {"created": 3}
    assert server.objects == {}
    first = call(count=3)
    assert first["changed"] is True
    assert counts(first, "nodes") == {"created": 3}
    assert counts(first, "slices") == {"created": 9}
    assert first["kubernetes"] == {"version": "v1.37.2", "api_version": "v1"}
    node = server.of("nodes")[0]
    assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
    assert node["metadata"]["labels"]["gpulab.fleet/set"] == "n"
    assert node["status"]["capacity"]["cpu"] == "192"
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.37.2"
    for slice_ in server.of(SLICES):
        owner = slice_["metadata"]["ownerReferences"][0]
        assert owner["uid"] == server.objects[("nodes", "", owner["name"])]["metadata"]["uid"]

    again = call(count=3)
    assert again["changed"] is False
    assert (counts(again, "nodes"), counts(again, "slices")) == ({"unchanged": 3}, {"unchanged": 9})

    more = call(count=5)
    assert counts(more, "nodes") == {"created": 2, "unchanged": 3}
    fewer = call(count=2)
    assert counts(fewer, "nodes") == {"deleted": 3, "unchanged": 2}
    assert counts(fewer, "slices") == {"deleted": 9, "unchanged": 6}
    gone = call(state="absent", name=None, machine=None, set="n")
    assert counts(gone, "nodes") == {"deleted": 2}
    assert server.objects == {}
    assert call(state="absent", name=None, machine=None, set="n")["changed"] is False


def test_a_second_run_reads_two_lists_and_writes_nothing(server, call):
    call(count=30)
    server.requests.clear()
    assert call(count=30)["changed"] is False
    assert server.writes == 0
    lists = [line for line in server.requests if "?limit=" in line]
    assert len(lists) == 2 + 1  # nodes, slices, and nodes once more to see that they are ready
    assert not [
        line for line in server.requests if line.startswith("GET") and SLICES[:14] in line and "limit" not in line
    ]


def test_the_machine_of_nodes_can_change(server, call):
    call(count=3)
    assert counts(call(count=3, check_mode=True, machine="aws-g4dn"), "slices") != {"unchanged": 9}
    changed = call(count=3, machine="aws-g4dn")
    assert counts(changed, "nodes") == {"updated": 3}
    assert changed["summary"]["slices"]["failed"] == 0
    assert call(count=3, machine="aws-g4dn")["changed"] is False
    gpus = [slice_ for slice_ in server.of(SLICES) if slice_["spec"]["driver"] == "gpu.nvidia.com"]
    assert {
        device["attributes"]["productName"]["string"] for slice_ in gpus for device in slice_["spec"]["devices"]
    } == {"Tesla T4"}
    node = server.of("nodes")[0]
    assert node["metadata"]["labels"]["gpulab.fleet/machine"] == "aws-g4dn"
    assert server.incomplete == []


def test_a_driver_that_is_no_longer_wanted_loses_its_pools(server, call):
    call(count=2)
    result = call(count=2, drivers=[{"name": "gpu.nvidia.com"}])
    assert counts(result, "slices") == {"deleted": 4, "unchanged": 2}
    assert {slice_["spec"]["driver"] for slice_ in server.of(SLICES)} == {"gpu.nvidia.com"}


def test_drift_is_repaired_and_only_that(server, call):
    call(count=3)
    victim = names(server, SLICES)[0]

    def spoil(obj):
        obj["spec"]["devices"][0]["attributes"]["type"] = {"string": "toaster"}

    server.change(SLICES, victim, spoil)
    result = call(count=3, diff=True)
    assert counts(result, "slices") == {"updated": 1, "unchanged": 8}
    assert "toaster" in json.dumps(result["diff"]["before"])
    assert "toaster" not in json.dumps(result["diff"]["after"])
    assert server.objects[(SLICES, "", victim)]["spec"]["pool"]["generation"] == 1
    # The server's records still name the other writer, so the slice is looked at each time, and found good.
    assert call(count=3)["changed"] is False

    del server.objects[(SLICES, "", victim)]
    assert counts(call(count=3), "slices") == {"created": 1, "unchanged": 8}


def test_a_slice_that_was_replaced_by_a_copy_is_noticed(server, call):
    call(count=1)
    key = next(key for key in server.objects if key[0] == SLICES and "gpu.nvidia.com" in key[2])
    copied = json.loads(json.dumps(server.objects.pop(key)))
    copied["spec"]["devices"].pop()
    server.add(SLICES, copied)
    assert counts(call(count=1), "slices") == {"updated": 1, "unchanged": 2}


def test_a_node_that_was_made_again_owns_its_slices(server, call):
    call(count=1)
    node = server.objects.pop(("nodes", "", "n0"))
    result = call(count=1)
    assert counts(result, "nodes") == {"created": 1}
    assert counts(result, "slices") == {"updated": 3}
    uid = server.objects[("nodes", "", "n0")]["metadata"]["uid"]
    assert uid != node["metadata"]["uid"]
    assert {slice_["metadata"]["ownerReferences"][0]["uid"] for slice_ in server.of(SLICES)} == {uid}


def test_labels_taints_and_capacity_follow(server, call):
    call(labels={"zone": "east", "rack": "r1"})
    node = server.objects[("nodes", "", "n0")]
    node["metadata"]["labels"]["theirs"] = "stays"
    node["spec"]["taints"].append({"key": "node.kubernetes.io/x", "effect": "NoExecute"})
    result = call(
        labels={"zone": "west"},
        taints=[{"key": "gpu", "value": "yes", "effect": "NoExecute"}],
        capacity={"cpu": "8", "example.com/foo": 3},
    )
    assert counts(result, "nodes") == {"updated": 1}
    node = server.objects[("nodes", "", "n0")]
    labels = node["metadata"]["labels"]
    assert (labels["zone"], labels["theirs"], "rack" in labels) == ("west", "stays", False)
    assert {taint["key"] for taint in node["spec"]["taints"]} == {"gpu", "node.kubernetes.io/x"}
    assert node["status"]["capacity"]["cpu"] == "8"
    assert node["status"]["allocatable"]["example.com/foo"] == "3"
    again = call(
        labels={"zone": "west"},
        taints=[{"key": "gpu", "value": "yes", "effect": "NoExecute"}],
        capacity={"cpu": 8, "example.com/foo": 3},
    )
    assert again["changed"] is False
    call(labels={"zone": "west"}, taints=[])
    node = server.objects[("nodes", "", "n0")]
    assert "example.com/foo" not in node["status"]["capacity"]
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["node.kubernetes.io/x"]


def test_nodes_and_pools_of_others_are_left_alone(server, call):
    theirs = server.add("nodes", {"metadata": {"name": "n1"}, "spec": {}})
    before = json.dumps(theirs)
    message = call(fails=True, count=3)["msg"]
    assert "nodes of these names that are not of the set 'n': n1" in message
    assert json.dumps(server.objects[("nodes", "", "n1")]) == before
    assert len(server.objects) == 1

    server.add(SLICES, {"metadata": {"name": "real"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "m0", "pool": {
        "name": "m0", "generation": 1, "resourceSliceCount": 1}, "devices": []}})  # fmt: skip
    message = call(fails=True, name="m{n}")["msg"]
    assert "the pool 'm0' of driver 'gpu.nvidia.com' has slices that this collection did not make (real)" in message
    assert len(server.objects) == 2


def test_two_sets_do_not_disturb_each_other(server, call):
    call(name="a{n}", count=2)
    other = {key: json.dumps(value) for key, value in server.objects.items()}
    call(name="b{n}", count=2, machine="aws-g4dn")
    call(name="b{n}", count=1, machine="aws-g4dn")
    call(name="b{n}", state="absent", machine=None)
    assert {key: json.dumps(value) for key, value in server.objects.items()} == other
    assert "(set a)" in call(fails=True, name=None, nodes=["a0"], set="b")["msg"]


def test_a_name_that_a_stranger_has_is_avoided(server, call):
    call()
    name = next(name for name in names(server, SLICES) if "gpu.nvidia.com" in name)
    call(state="absent", machine=None)
    server.add(
        SLICES,
        {
            "metadata": {"name": name},
            "spec": {"driver": "x", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}},
        },
    )
    assert counts(call(), "slices") == {"created": 3}
    assert f"{name}-g1" in names(server, SLICES)
    assert call()["changed"] is False


def test_a_dead_server_ends_the_run_with_what_was_done_and_the_next_run_repairs(server, call, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE_S", 0.5)
    server.writes_left = 40
    result = call(fails=True, count=30)
    assert "does not answer" in result["msg"]
    assert result["changed"] is True
    done = result["summary"]["nodes"]["created"] + result["summary"]["slices"]["created"]
    assert done == 40 == len(server.objects)
    assert result["summary"]["nodes"]["failed"] + result["summary"]["slices"]["failed"] > 0
    server.writes_left = None
    repaired = call(count=30)
    assert counts(repaired, "slices")["created"] == 90 - result["summary"]["slices"]["created"]
    assert len(server.of("nodes")) == 30
    assert len(server.of(SLICES)) == 90
    assert server.incomplete == []
    assert call(count=30)["changed"] is False


@pytest.mark.parametrize("writes", [3, 11, 17, 23, 29])
def test_a_change_of_machine_that_was_cut_short_is_repaired(server, call, writes, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE_S", 0.5)
    call(count=8)
    server.writes_left = writes
    call(fails=True, count=8, machine="aws-p4d")
    server.writes_left = None
    assert server.incomplete == []
    call(count=8, machine="aws-p4d")
    assert call(count=8, machine="aws-p4d")["changed"] is False
    assert len(server.of(SLICES)) == 24


@pytest.mark.parametrize("carried_out", [False, True])
def test_cut_connections_and_busy_servers_are_no_failure(server, call, carried_out):
    server.faults = [
        Fault("^POST .*resourceslices", times=3, after=2, carried_out=carried_out),
        Fault("^POST .*nodes", status=429, times=4, headers={"Retry-After": "0"}),
        Fault("^POST .*resourceslices", status=500, times=2, after=6, carried_out=carried_out),
    ]
    result = call(count=6)
    assert counts(result, "slices") == {"created": 18}
    assert len(server.of(SLICES)) == 18
    assert call(count=6)["changed"] is False


def test_one_object_that_fails_does_not_keep_the_others(server, call):
    server.faults = [Fault("^POST /api/v1/nodes", status=422, reason="Invalid", message="no", times=1)]
    result = call(fails=True, count=4, concurrency=1)
    assert "1 objects failed" in result["msg"]
    assert "cannot create nodes n0: no" in result["msg"]
    assert counts(result, "nodes") == {"created": 3, "failed": 1}
    assert counts(result, "slices") == {"created": 9}
    assert result["results"][0]["failed"] is True


def test_stop_at_the_first_failure(server, call):
    server.faults = [Fault("^POST /api/v1/nodes", status=422, reason="Invalid", message="no", after=1)]
    result = call(fails=True, count=40, concurrency=1, continue_on_error=False)
    assert result["summary"]["nodes"]["created"] < 6
    assert result["summary"]["nodes"]["failed"] > 30


def test_missing_rights_are_told_before_anything_is_written(server, call):
    server.forbidden = {("create", SLICES), ("create", "nodes")}
    result = call(fails=True, count=2)
    assert "may not create nodes, create resourceslices.resource.k8s.io" in result["msg"]
    assert (result["verb"], result["resource"]) == ("create", "nodes")
    assert server.objects == {}
    server.forbidden = {("list", "nodes")}
    assert "user 'jane' may not list nodes" in call(fails=True)["msg"]


def test_a_field_that_the_server_drops_is_told_before_anything_is_written(server, call):
    server.drop = {"capacity"}
    message = call(fails=True, count=2)["msg"]
    assert "silently drops spec.devices[].capacity (in" in message
    assert "nothing was written" in message
    assert server.objects == {}
    result = call(count=2, dropped_fields="warn")
    assert "spec.devices[].capacity" in json.dumps(result["warnings"])
    again = call(count=2, dropped_fields="warn")
    assert again["changed"] is False
    assert "spec.devices[].capacity" in json.dumps(again["warnings"])
    server.drop = set()
    assert counts(call(count=2), "slices")["updated"] > 0
    assert call(count=2)["changed"] is False


def test_warnings_of_the_server_become_warnings(server, call):
    server.warn = ["resource.k8s.io is new"]
    assert "resource.k8s.io is new" in json.dumps(call()["warnings"])


def test_an_old_server_gets_what_it_understands(server, call):
    server.minor, server.versions = "32", ["v1beta1"]
    result = call()
    assert result["kubernetes"] == {"version": "v1.32.2", "api_version": "v1beta1"}
    device = server.of(SLICES)[0]["spec"]["devices"][0]
    assert set(device) == {"name", "basic"}
    assert call()["changed"] is False
    assert "v1beta1 only; give one of these" in call(fails=True, api_version="v1")["msg"]


def test_waiting_ends_with_a_reason(server, call):
    server.on_create = None
    result = call(fails=True, count=2, timeout_s=1)
    assert "gave up waiting for nodes to be ready after 1 s" in result["msg"]
    assert "2 of 2 are not there yet (n0: no condition Ready; n1: no condition Ready); does KWOK run" in result["msg"]
    assert counts(result, "slices") == {"created": 6}
    assert call(count=2, wait=False)["changed"] is False


def test_a_recording_becomes_many_nodes(server, call, tmp_path):
    call(name="source", count=1)
    recorded = [json.loads(json.dumps(obj)) for obj in server.of(SLICES)]
    for obj in recorded:
        obj.update(apiVersion="resource.k8s.io/v1", kind="ResourceSlice")
    path = tmp_path / "slices.yml"
    path.write_text(yaml.safe_dump_all(recorded))
    result = call(name="twin-{n:02}", count=4, machine=None, recording=str(path))
    assert counts(result, "slices") == {"created": 12}
    assert call(name="twin-{n:02}", count=4, machine=None, recording=recorded)["changed"] is False
    uuids = [
        device["attributes"]["uuid"]["string"]
        for slice_ in server.of(SLICES)
        if slice_["spec"]["driver"] == "gpu.nvidia.com"
        for device in slice_["spec"]["devices"]
    ]
    assert len(uuids) == len(set(uuids)) == 40


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"machine": "aws-p9"}, "aws-p9"),
        ({"machine": {"name": "m", "devices": {"gpu0": {"address": 600.0}}}}, "600.0"),
        ({"count": 3, "name": "same"}, "3 nodes would have one name; write {n}"),
        ({"name": "Big_{n}"}, "gives the node name 'Big_0'"),
        ({"name": "n{i}"}, "the only placeholders are {n}"),
        ({"count": -1}, "count is -1; give a number from 0"),
        ({"first": -1}, "first is -1; give 0 or more"),
        ({"name": None, "nodes": ["a"]}, "give the name of the set"),
        ({"name": None, "nodes": ["a", "a"], "set": "s"}, "gives the node name 'a' twice"),
        ({"set": "no good"}, "set is 'no good'; a set's name is the value of a label"),
        ({"drivers": [{"name": "gpu.example.com"}]}, "gpu.example.com"),
        ({"drivers": [{"name": "gpu.nvidia.com", "release": "9.9"}]}, "9.9"),
        ({"kubernetes_version": "nine"}, "is not a version of Kubernetes"),
        ({"concurrency": 0}, "concurrency is 0; give a number from 1 to 256"),
        ({"timeout_s": 0}, "timeout_s is 0; give 1 or more"),
        ({"machine": None, "recording": "/no/file"}, "recording is '/no/file' and cannot be read"),
        ({"machine": None, "recording": 5}, "recording"),
        ({"host": None, "kubeconfig": "/no/config"}, "kubeconfig is '/no/config', and there is no such file"),
        ({"api_version": "v9"}, "value of api_version must be one of"),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_asked(server, call, params, message):
    result = call(fails=True, **params)
    assert message in result["msg"]
    assert "\n" not in result["msg"]
    assert server.writes == 0


def test_what_is_returned_is_documented(server, call):
    result = call(diff=True)
    for key in set(result) - {"changed", "diff", "invocation", "warnings"}:
        assert f"\n{key}:\n" in fake_gpu_node.RETURN, f"{key} is not documented"


def test_results_stay_small(server, call):
    result = call(count=60, results_limit=10)
    assert len(result["results"]) == 10
    assert result["results_omitted"] == 240 - 10
    assert len(json.dumps(result)) < 8000
    shown = call(count=90, diff=True, results_limit=0)
    assert shown["results"] == []
    assert "…" in shown["diff"]["after"]
