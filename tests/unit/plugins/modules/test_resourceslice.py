# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules resourceslice and resourceslice_info as Ansible runs them, against an API server in memory."""

from __future__ import annotations

import copy
import json

import pytest
import yaml
from fake_kubernetes import Fault

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes import options
from ansible_collections.gpulab.fleet.plugins.modules import resourceslice, resourceslice_info

SLICES = "resourceslices.resource.k8s.io"


@pytest.fixture
def server(api_server):
    return api_server


@pytest.fixture
def call(server, run_module):
    """Run resourceslice to its end; its result."""

    def run(*slices, check_mode=False, diff=False, fails=False, **params):
        arguments = {"host": server.url, "_ansible_check_mode": check_mode, "_ansible_diff": diff, **params}
        if slices:
            arguments["slices"] = copy.deepcopy(list(slices))
        return run_module(resourceslice, arguments, fails)

    return run


@pytest.fixture
def info(server, run_module):
    """Run resourceslice_info to its end; its result."""

    def run(fails=False, **params):
        return run_module(resourceslice_info, {"host": server.url, **params}, fails)

    return run


def slice_of(pool="p", devices=("a",), number=None, node="n1", driver="fpga.example.com", **extra):
    name = f"{pool}-{driver}" + ("" if number is None else f"-{number}")
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool},
            "devices": [
                {"name": device, "attributes": {"type": {"string": "card"}, "index": {"int": place}}}
                for place, device in enumerate(devices)
            ],
            **extra,
        },
    }


def counts(result):
    return {word: number for word, number in result["summary"]["slices"].items() if number}


def there(server):
    return {obj["metadata"]["name"]: [device["name"] for device in obj["spec"]["devices"]] for obj in server.of(SLICES)}


def test_a_life_of_a_pool(server, call):
    one = slice_of(devices=["a", "b"])
    assert counts(call(one, check_mode=True)) == {"created": 1}
    assert server.objects == {}
    assert counts(call(one)) == {"created": 1}
    assert server.of(SLICES)[0]["spec"]["pool"] == {"name": "p", "generation": 1, "resourceSliceCount": 1}
    assert call(one)["changed"] is False
    result = call(slice_of(devices=["a", "c"]), diff=True)
    assert counts(result) == {"updated": 1}
    assert result["diff"]["before"] == {"ResourceSlice p-fpga.example.com": {"devices.b": {
        "name": "b", "attributes": {"type": {"string": "card"}, "index": {"int": 1}}}, "devices.c": None}}  # fmt: skip
    assert server.of(SLICES)[0]["spec"]["pool"]["generation"] == 1
    assert counts(call(one, state="absent")) == {"deleted": 1}
    assert call(one, state="absent")["changed"] is False


def test_several_slices_become_a_new_generation_and_one_does_not(server, call):
    pool = [slice_of(devices=[f"{number}a", f"{number}b"], number=number) for number in range(3)]
    assert counts(call(*pool)) == {"created": 3}
    pool[1]["spec"]["devices"].pop()
    assert counts(call(*pool)) == {"updated": 1, "unchanged": 2}
    assert {obj["spec"]["pool"]["generation"] for obj in server.of(SLICES)} == {1}
    assert call(*pool)["changed"] is False
    for slice_ in pool:
        slice_["spec"]["devices"].pop()
    assert counts(call(*pool)) == {"created": 3, "deleted": 3}
    assert {obj["spec"]["pool"]["generation"] for obj in server.of(SLICES)} == {2}
    assert server.incomplete == []
    assert call(*pool)["changed"] is False
    pool.pop()
    assert counts(call(*pool)) == {"created": 2, "deleted": 3}
    assert {obj["spec"]["pool"]["resourceSliceCount"] for obj in server.of(SLICES)} == {2}


def test_a_pool_can_move_to_another_node(server, call):
    call(slice_of(node="n1"))
    assert counts(call(slice_of(node="n2"))) == {"created": 1, "deleted": 1}
    assert [obj["spec"]["nodeName"] for obj in server.of(SLICES)] == ["n2"]
    assert call(slice_of(node="n2"))["changed"] is False


def test_somebody_who_is_faster_is_noticed(server, call):
    """Between our look and our write, slices of a large pool appear, change and vanish."""
    pool = [slice_of(number=number, devices=[f"{number}a"]) for number in range(8)]
    call(*pool)
    wanted = [slice_of(number=number, devices=[f"{number}b"]) for number in range(8)]
    server.faults = [
        Fault("^POST .*resourceslices(?!.*dryRun)", status=409, reason="AlreadyExists", message="there", after=5),
        Fault("^POST .*resourceslices(?!.*dryRun)", status=409, reason="Conflict", message="quota", after=2),
    ]
    call(*wanted)
    assert sorted(device for devices in there(server).values() for device in devices) == [f"{n}b" for n in range(8)]
    assert server.incomplete == []
    assert call(*wanted)["changed"] is False
    server.faults = [Fault("^PATCH", status=409, reason="Conflict", message="modified", times=2)]
    wanted[3] = slice_of(number=3, devices=["3c"])
    assert counts(call(*wanted)) == {"updated": 1, "unchanged": 7}


@pytest.mark.parametrize("writes", range(7))
def test_a_run_cut_short_at_any_write_is_repaired(server, call, writes, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE_S", 0.5)
    call(*[slice_of(devices=[f"{number}a"], number=number) for number in range(3)])
    wanted = [slice_of(devices=[f"{number}b"], number=number) for number in range(3)]
    server.writes_left = writes
    result = call(*wanted, fails=writes < 6)
    assert ("does not answer" in result.get("msg", "")) is (writes < 6)
    server.writes_left = None
    # Once the new generation is whole, the pool is, whatever of the old one is left.
    assert bool(server.incomplete) is (0 < writes < 3)
    call(*wanted)
    assert sorted(device for devices in there(server).values() for device in devices) == ["0b", "1b", "2b"]
    assert server.incomplete == []
    assert call(*wanted)["changed"] is False


def test_order_and_canonical_forms_are_no_difference(server, call):
    one = slice_of(devices=["a", "b"])
    for device in one["spec"]["devices"]:
        device["capacity"] = {"memory": {"value": "40960Mi"}, "links": {"value": "1000m"}}
    call(one)
    assert server.of(SLICES)[0]["spec"]["devices"][0]["capacity"] == {
        "memory": {"value": "40Gi"},
        "links": {"value": "1"},
    }
    one["spec"]["devices"].reverse()
    one["spec"]["devices"][0]["capacity"]["memory"]["value"] = "40Gi"
    result = call(one)
    # What is written may be in another order; the slice is the same.
    assert result["summary"]["slices"]["created"] == 0
    assert call(one)["changed"] is False


def test_only_what_is_asked_for_goes(server, call):
    pools = [slice_of(pool=f"p{number}", node=f"n{number}") for number in range(4)]
    other = slice_of(pool="q", driver="other.example.com", node="m")
    call(*pools, other, labels={"rack": "r1"})
    assert call(pools[0], labels={"rack": "r1"})["changed"] is False
    assert counts(call(pools[0], prune=True, select={"node": "n1"}, labels={"rack": "r1"})) == {
        "deleted": 1,
        "unchanged": 1,
    }
    assert counts(call(pools[0], prune=True, select={"driver": "fpga.example.com"}, labels={"rack": "r1"})) == {
        "deleted": 2,
        "unchanged": 1,
    }
    assert counts(call(state="absent", select={"labels": {"rack": "r2"}})) == {}
    assert counts(call(state="absent", select={"pool": "q"})) == {"deleted": 1}
    assert counts(call(state="absent", select={"labels": {"rack": "r1"}})) == {"deleted": 1}
    assert "nothing says what should go" in call(state="absent", fails=True)["msg"]


def test_an_empty_list_with_prune_leaves_nothing(server, call):
    call(slice_of())
    assert counts(call(slices=[], prune=True)) == {"deleted": 1}


def test_sets_and_strangers_are_left_alone(server, call):
    stranger = slice_of(pool="theirs")
    stranger["spec"]["pool"].update(generation=1, resourceSliceCount=1)
    server.add(SLICES, stranger)
    call(slice_of(pool="one"), set="a")
    call(slice_of(pool="two"), set="b")
    assert counts(call(slice_of(pool="one"), set="a", prune=True)) == {"unchanged": 1}
    call(state="absent", set="a")
    assert sorted(there(server)) == ["theirs-fpga.example.com", "two-fpga.example.com"]
    assert "belongs to the set 'b' and not to 'a'" in call(slice_of(pool="two"), set="a", fails=True)["msg"]
    assert "slices that this collection did not make (theirs-" in call(slice_of(pool="theirs"), fails=True)["msg"]
    assert counts(call(slice_of(pool="theirs"), state="absent")) == {}


def test_owners_are_the_nodes_that_exist(server, call):
    call(slice_of())
    assert "ownerReferences" not in server.of(SLICES)[0]["metadata"]
    node = server.add("nodes", {"metadata": {"name": "n1"}, "spec": {}})
    foreign = slice_of()
    foreign["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "of-another-cluster"}
    ]
    assert counts(call(foreign)) == {"updated": 1}
    assert server.of(SLICES)[0]["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    assert call(foreign)["changed"] is False


def test_labels_that_are_taken_away_come_back(server, call):
    call(slice_of(), labels={"rack": "r1"})
    server.change(SLICES, "p-fpga.example.com", lambda obj: obj["metadata"]["labels"].pop("rack"))
    server.change(SLICES, "p-fpga.example.com", lambda obj: obj["metadata"]["labels"].update(theirs="x"))
    assert counts(call(slice_of(), labels={"rack": "r1"})) == {"updated": 1}
    labels = server.of(SLICES)[0]["metadata"]["labels"]
    assert (labels["rack"], labels["theirs"]) == ("r1", "x")


def test_a_damaged_annotation_is_repaired(server, call):
    call(slice_of())
    for value in ("{", "{}", '{"driver": 1}'):
        server.change(
            SLICES,
            "p-fpga.example.com",
            lambda obj, value=value: obj["metadata"]["annotations"].update({"gpulab.fleet/state": value}),
        )
        assert counts(call(slice_of())) == {"updated": 1}
        assert call(slice_of())["changed"] is False


def test_a_second_run_over_many_pools_is_two_requests_for_slices(server, call):
    pools = [slice_of(pool=f"p{number}", node=f"n{number}") for number in range(50)]
    call(*pools)
    server.requests.clear()
    assert call(*pools)["changed"] is False
    assert server.count("resourceslices") == 1
    assert server.writes == 0


def test_many_that_differ_are_read_with_one_list(server, call):
    pools = [slice_of(pool=f"p{number}", node=f"n{number}") for number in range(50)]
    call(*pools)
    for slice_ in pools:
        slice_["spec"]["devices"][0]["attributes"]["type"]["string"] = "other"
    server.requests.clear()
    assert counts(call(*pools)) == {"updated": 50}
    assert server.count("^GET .*resourceslices/") == 0


def test_versions_of_the_api(server, call):
    server.versions = ["v1beta1"]
    message = call(slice_of(), fails=True)["msg"]
    assert "the slices are of resource.k8s.io/v1, but" in message
    assert "serves v1beta1 only; give api_version: auto" in message
    assert server.objects == {}
    assert call(slice_of(), api_version="auto")["kubernetes"]["api_version"] == "v1beta1"
    assert set(server.of(SLICES)[0]["spec"]["devices"][0]) == {"name", "basic"}
    assert call(slice_of(), api_version="auto")["changed"] is False


def test_files(server, call, tmp_path):
    path = tmp_path / "slices.yml"
    pool = [slice_of(number=number, devices=[f"d{number}"]) for number in range(2)]
    for slice_ in pool:
        slice_["spec"]["pool"].update(generation=7, resourceSliceCount=2)
    path.write_text(yaml.safe_dump_all([*pool, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}]))
    assert counts(call(src=[str(path)])) == {"created": 2}
    assert {obj["spec"]["pool"]["generation"] for obj in server.of(SLICES)} == {7}
    assert "src names '/no/file', which cannot be read" in call(src=["/no/file"], fails=True)["msg"]


def test_a_machine_on_nodes(server, call):
    result = call(machine="aws-g4dn", nodes=["a", "b"])
    assert result["changed"] is True
    assert {obj["spec"]["nodeName"] for obj in server.of(SLICES)} == {"a", "b"}
    assert call(machine="aws-g4dn", nodes=["a", "b"])["changed"] is False


def test_rendered_needs_no_cluster(server, call, tmp_path):
    dest = tmp_path / "out" / "slices.yml"
    arguments = {"state": "rendered", "machine": "aws-p5", "nodes": ["a", "b"], "dest": str(dest)}
    assert call(check_mode=True, **arguments)["changed"] is True
    assert not dest.exists()
    first = call(**arguments)
    assert (first["changed"], first["dest"], len(first["slices"])) == (True, str(dest), 6)
    assert call(**arguments)["changed"] is False
    documents = list(yaml.safe_load_all(dest.read_text()))
    assert documents == first["slices"]
    old = call(state="rendered", machine="aws-p5", nodes=["a"], kubernetes_version="1.32")["slices"]
    assert {slice_["apiVersion"] for slice_ in old} == {"resource.k8s.io/v1beta1"}
    assert {slice_["apiVersion"] for slice_ in call(slice_of(), state="rendered", api_version="v1beta2")["slices"]} == {
        "resource.k8s.io/v1beta2"
    }
    assert server.requests == []
    assert counts(call(src=[str(dest)])) == {"created": 6}


def broken(change):
    slice_ = slice_of(devices=["a", "b"])
    change(slice_)
    return slice_


@pytest.mark.parametrize(
    ("slices", "words"),
    [
        ([broken(lambda s: s["spec"]["devices"].extend({"name": f"d{n}"} for n in range(200)))], ["at most 128"]),
        (
            [broken(lambda s: s["spec"]["devices"][0]["attributes"].update({"pcie-root": {"string": "x"}}))],
            ["pcie-root"],
        ),
        ([broken(lambda s: s["spec"]["devices"][0]["attributes"].update(address={"string": 600.0}))], ["600.0"]),
        ([broken(lambda s: s["spec"]["devices"][0]["attributes"].update(v={"version": "580.105.08"}))], ["580.105.08"]),
        ([broken(lambda s: s["spec"]["devices"][1].update(name="a"))], ["'a'"]),
        ([slice_of(pool="same", node="n1"), slice_of(pool="same", node="n2", number=1)], ["same", "n1, n2"]),
        ([broken(lambda s: s["spec"].pop("driver"))], ["driver is missing"]),
        ([broken(lambda s: s["spec"]["pool"].update(resourceSliceCount=2))], ["resourceSliceCount", "says 2"]),
        ([broken(lambda s: s.update(apiVersion="resource.k8s.io/v9"))], ["resource.k8s.io/v9"]),
        ([{"apiVersion": "v1", "kind": "Pod"}], ["no ResourceSlice", "only Pod"]),
        ([{"kind": 5}], ["kind is missing"]),
        ([slice_of(), slice_of()], ["two"]),
        ([], ["any of the following are missing: slices, src, machine"]),
    ],
)
def test_bad_slices_are_one_message_and_nothing_is_written(server, call, slices, words):
    result = call(*slices, fails=True)
    for word in words:
        assert word in result["msg"]
    assert server.writes == 0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"set": "-"}, "set is '-'; a set's name is the value of a label"),
        ({"dest": "/x"}, "dest goes with state 'rendered' only"),
        ({"results_limit": -1}, "results_limit is -1; give 0 or more"),
        ({"machine": "aws-p5"}, "missing parameter(s) required by 'machine': nodes"),
        ({"machine": "aws-p5", "nodes": ["Big"]}, "gives the node name 'Big'"),
        ({"kubernetes_version": "x"}, "is not a version of Kubernetes"),
    ],
)
def test_bad_options_are_one_message(server, call, params, message):
    assert message in call(slice_of(), fails=True, **params)["msg"]
    assert server.objects == {}


def test_pools_that_are_broken_on_purpose_can_be_published(server, call):
    wrong = broken(lambda s: s["spec"]["pool"].update(resourceSliceCount=2))
    call(wrong, checks="api")
    assert server.of(SLICES)[0]["spec"]["pool"]["resourceSliceCount"] == 2
    assert call(wrong, checks="api")["changed"] is False


def test_what_is_returned_is_documented(server, call, info):
    for key in set(call(slice_of())) - {"changed", "diff", "invocation", "warnings"}:
        assert f"\n{key}:\n" in resourceslice.RETURN
    for key in set(info(gather=["summary", "pools", "devices", "slices"])) - {"changed", "invocation", "warnings"}:
        assert f"\n{key}:\n" in resourceslice_info.RETURN


def claim(name, *results, pods=()):
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "status": {
            "allocation": {"devices": {"results": [
                {"driver": driver, "pool": pool, "device": device, "request": "r", **extra} for driver, pool, device, extra in results
            ]}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": pod} for pod in pods],
        },
    }  # fmt: skip


FPGA = "fpga.example.com"


def test_who_has_which_device(server, call, info):
    call(slice_of(devices=["a", "b", "c"]), slice_of(pool="q", node="n2", devices=["a"]))
    server.objects[("resourceclaims.resource.k8s.io", "ns", "one")] = claim("one", (FPGA, "p", "a", {}), pods=["pod-1"])
    server.objects[("resourceclaims.resource.k8s.io", "ns", "spy")] = claim(
        "spy", (FPGA, "q", "a", {"adminAccess": True})
    )
    server.objects[("resourceclaims.resource.k8s.io", "ns", "lost")] = claim("lost", (FPGA, "p", "gone", {}))
    result = info(gather=["summary", "pools", "devices"])
    assert {key: result["summary"][key] for key in ("devices", "allocated", "free", "pools", "nodes", "lost_devices")} == {
        "devices": 4, "allocated": 1, "free": 3, "pools": 2, "nodes": 2, "lost_devices": [f"{FPGA} p gone"]}  # fmt: skip
    assert result["summary"]["drivers"] == {FPGA: {"pools": 2, "devices": 4, "allocated": 1, "free": 3}}
    device = result["devices"][0]
    assert (device["name"], device["free"], device["attributes"]) == ("a", False, {"type": "card", "index": 0})
    assert device["allocated_to"] == [
        {"namespace": "ns", "claim": "one", "request": "r", "admin_access": False, "reserved_for": ["pod-1"]}
    ]
    assert result["devices"][3]["free"] is True
    assert [pool["complete"] for pool in result["pools"]] == [True, True]


def test_filters(server, call, info):
    call(
        *[slice_of(pool=f"p{n}", node=f"n{n}", devices=["a", "b"]) for n in range(3)], slice_of(driver="x.example.com")
    )
    assert info(driver="x.example.com")["summary"]["devices"] == 1
    assert info(node="n2")["summary"]["devices"] == 2
    assert info(pool="p1")["summary"]["pools"] == 1
    assert info(name="p1-fpga.example.com")["summary"]["pools"] == 1
    assert info(label_selector="gpulab.fleet/set=other")["summary"]["pools"] == 0
    result = info(cel=f"device.attributes['{FPGA}'].index == 1", gather=["summary", "devices", "slices"])
    assert result["summary"]["devices"] == 3
    assert {device["name"] for device in result["devices"]} == {"b"}
    assert len(result["slices"]) == 3
    assert "cel could not be evaluated for 1 devices" in json.dumps(result["warnings"])
    assert "no such key: index" in json.dumps(result["warnings"])
    assert "cannot compile the CEL expression" in info(cel="device.", fails=True)["msg"]


def test_pools_that_the_scheduler_would_not_use_are_told(server, info):
    for number, (generation, count, devices) in enumerate([(1, 2, ["a"]), (2, 2, ["a"])]):
        slice_ = slice_of(number=number, devices=devices)
        slice_["spec"]["pool"].update(generation=generation, resourceSliceCount=count)
        server.add(SLICES, slice_)
    result = info()
    pool = result["pools"][0]
    assert (pool["complete"], pool["generation"], pool["stale_slices"]) == (False, 2, ["p-fpga.example.com-0"])
    assert "generation 2 has 1 slices, but they say there should be 2" in pool["problems"][0]
    assert result["summary"]["incomplete_pools"] == [f"{FPGA} p"]
    twin = slice_of(number=2, devices=["a"])
    twin["spec"]["pool"].update(generation=2, resourceSliceCount=2)
    server.add(SLICES, twin)
    assert info()["pools"][0]["problems"] == ["devices are there twice: a"]


def test_capture_and_publish_again(server, call, info, tmp_path):
    call(machine="aws-p4d", nodes=["a"])
    dest = tmp_path / "captured.yml"
    result = info(dest=str(dest), gather=["slices"], normalise=True)
    assert result["changed"] is True
    assert info(dest=str(dest), gather=[])["changed"] is False
    for slice_ in result["slices"]:
        assert set(slice_["metadata"]) <= {"name", "generateName"}
    call(machine="aws-p4d", nodes=["a"], state="absent")
    assert server.of(SLICES) == []
    call(src=[str(dest)])
    again = info(gather=["slices"], normalise=True)["slices"]
    assert again == result["slices"]


def test_a_second_run_changes_nothing_although_the_server_drops_a_field(server, call):
    server.drop = {"allowMultipleAllocations"}
    one = slice_of()
    one["spec"]["devices"][0]["allowMultipleAllocations"] = True
    assert counts(call(one, dropped_fields="warn")) == {"created": 1}
    writes = server.writes
    assert call(one, dropped_fields="warn")["changed"] is False
    assert server.writes == writes + 1  # the dry run that asks whether the field is still dropped
