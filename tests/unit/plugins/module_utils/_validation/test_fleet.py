# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a scenario gets: those that suit, free ones, each once; a broken one only when there is no other, and then it says what is wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import Selectors
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import View
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import NODE
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.fleet import (
    Fleet,
    Leases,
    Skip,
    described,
    fit_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.observe import Observer
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.scenario import Alignment, DeviceNeed, Needs

ROOT = "resource.kubernetes.io/pcieRoot"
CLASSES = [
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]},
    }
    for name, driver in (("gpus", "gpu.example"), ("nics", "nic.example"))
]
GPU = DeviceNeed("gpu", "gpus", "", 1)
NIC = DeviceNeed("nic", "nics", "", 1)


def slice_of(
    node: str, driver: str = "gpu.example", roots: tuple[str, ...] = ("a", "b"), **pool: int
) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1, **pool},
            "devices": [
                {
                    "name": f"dev-{number}",
                    "attributes": {"model": {"string": "X1"}, **({ROOT: {"string": root}} if root else {})},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for number, root in enumerate(roots)
            ],
        },
    }


def node(name: str, ready: str = "True", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def fit(needs: Needs, *slices: dict[str, Any]) -> Any:
    return fit_of(View(list(slices), [], [], CLASSES), "n1", needs, Selectors())


def test_nodes_that_look_the_same_are_one_group():
    slices = [slice_of("n1"), slice_of("n2", roots=("c", "d")), slice_of("n3", roots=("a",)), slice_of("n4")]
    fleet = Fleet(slices, [node("n1"), node("n2"), node("n3"), node("n4")])
    assert sorted(fleet.groups.values()) == [["n1", "n2", "n4"], ["n3"]] and fleet.nodes == 4


def test_only_ready_nodes_with_slices_are_used():
    slices = [slice_of(name) for name in ("n1", "n2", "n3", "gone")]
    nodes = [node("n1"), node("n2", ready="Unknown"), node("n3", unschedulable=True), node("bare")]
    assert list(Fleet(slices, nodes).groups.values()) == [["n1"]]
    assert not Fleet(slices, nodes, only=["n2"]).groups


def test_the_pools_of_all_nodes_are_judged():
    fleet = Fleet([slice_of("n1"), slice_of("n2", resourceSliceCount=2)], [])
    assert [key for key, _problems in fleet.problems().items()] == [("gpu.example", "n2")]


@pytest.mark.parametrize(
    ("needs", "suits", "reason"),
    [
        (Needs(devices=(GPU,)), True, ""),
        (Needs(devices=(DeviceNeed("gpu", "gpus", "", 3),)), False, "n1 has 2 of 3 devices of class gpus"),
        (
            Needs(devices=(DeviceNeed("gpu", "gpus", "device.attributes['gpu.example'].model == 'X2'", 1),)),
            False,
            "n1 has 0 of 1 devices of class gpus with device.attributes",
        ),
        (Needs(devices=(GPU, NIC), aligned=Alignment(ROOT, ("gpu", "nic"))), True, ""),
        (Needs(devices=(GPU, NIC), unaligned=Alignment(ROOT, ("gpu", "nic"))), False, "gpu and nic of n1 share"),
    ],
)
def test_what_suits(needs: Needs, suits: bool, reason: str):
    found = fit(needs, slice_of("n1"), slice_of("n1", "nic.example", ("b", "c")))
    assert (found.suits, found.doubtful) == (suits, False) and found.reason.startswith(reason)


def test_devices_that_share_a_value_come_first():
    needs = Needs(devices=(GPU, NIC), aligned=Alignment(ROOT, ("gpu", "nic")))
    found = fit(needs, slice_of("n1"), slice_of("n1", "nic.example", ("c", "b")))
    assert [device.key[2] for device in found.devices["gpu"]] == ["dev-1", "dev-0"]
    assert found.devices["nic"][0].key[2] == "dev-1"


def test_without_a_common_root_the_opposite_suits():
    devices = (slice_of("n1"), slice_of("n1", "nic.example", ("c", "d")))
    both = Alignment(ROOT, ("gpu", "nic"))
    assert not fit(Needs(devices=(GPU, NIC), aligned=both), *devices).suits
    assert fit(Needs(devices=(GPU, NIC), unaligned=both), *devices).suits


def test_a_fault_makes_doubtful_and_not_unsuitable():
    """Otherwise a scenario would be skipped on the very fleet that it should fail on."""
    missing = fit(
        Needs(devices=(DeviceNeed("gpu", "gpus", "device.attributes['gpu.example'].uuid != ''", 1),)), slice_of("n1")
    )
    assert missing.suits and missing.doubtful and "no such key: uuid" in missing.reason
    no_root = Needs(devices=(GPU, NIC), aligned=Alignment(ROOT, ("gpu", "nic")))
    rootless = fit(no_root, slice_of("n1"), slice_of("n1", "nic.example", ("",)))
    assert rootless.suits and rootless.doubtful and f"no device for nic on n1 has {ROOT}" in rootless.reason
    incomplete = fit(Needs(devices=(DeviceNeed("gpu", "gpus", "", 9),)), slice_of("n1", resourceSliceCount=2))
    assert incomplete.suits and incomplete.doubtful


def claim(node_name: str, device: str) -> dict[str, Any]:
    result = {"driver": "gpu.example", "pool": node_name, "device": device, "request": "gpu"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{node_name}-{device}", "namespace": "others"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def leases(server: Any, kubernetes: Any, *slices: dict[str, Any]) -> Leases:
    for one in CLASSES:
        server.add("deviceclasses.resource.k8s.io", copy.deepcopy(one))
    for one in slices:
        server.add("resourceslices.resource.k8s.io", one)
        name = one["spec"]["nodeName"]
        if not any(there["metadata"]["name"] == name for there in server.of("nodes")):
            server.add("nodes", node(name))
    observer = Observer(kubernetes, "v1")
    return Leases(Fleet(observer.all_slices(), kubernetes.list(NODE)), observer)


NOW = Needs(devices=(GPU,))


def test_each_node_is_given_once_until_it_comes_back(server: Any, kubernetes: Any):
    given = leases(server, kubernetes, slice_of("n1"), slice_of("n2"))
    first = given.acquire(NOW, Deadline(5), Selectors())
    second = given.acquire(NOW, Deadline(5), Selectors())
    assert {*first.nodes, *second.nodes} == {"n1", "n2"} and len(first.devices["gpu"]) == 2
    with pytest.raises(Skip, match="no node became free within"):
        given.acquire(NOW, Deadline(0.1), Selectors())
    given.release(first)
    assert given.acquire(NOW, Deadline(5), Selectors()).nodes == first.nodes


def test_a_node_with_a_device_that_others_have_is_left_alone(server: Any, kubernetes: Any):
    given = leases(server, kubernetes, slice_of("n1"), slice_of("n2"))
    server.add("resourceclaims.resource.k8s.io", claim("n1", "dev-1"))
    assert given.acquire(NOW, Deadline(5), Selectors()).nodes == ("n2",)
    server.add("resourceclaims.resource.k8s.io", claim("n2", "dev-0"))
    fresh = Leases(given.fleet, given.observer)
    with pytest.raises(Skip, match="in use by others: dev-0 by"):
        fresh.acquire(NOW, Deadline(5), Selectors())


def test_more_nodes_than_there_are(server: Any, kubernetes: Any):
    given = leases(server, kubernetes, slice_of("n1"), slice_of("n2"))
    assert given.acquire(Needs(nodes=2, devices=(GPU,)), Deadline(5), Selectors()).nodes == ("n1", "n2")
    fresh = Leases(given.fleet, given.observer)
    with pytest.raises(Skip, match="needs 3 such nodes at once"):
        fresh.acquire(Needs(nodes=3, devices=(GPU,)), Deadline(5), Selectors())
    # What was taken on the way has been given back.
    assert fresh.acquire(Needs(nodes=2, devices=(GPU,)), Deadline(5), Selectors()).nodes == ("n1", "n2")


def test_a_broken_node_is_taken_only_when_there_is_no_other(server: Any, kubernetes: Any):
    select = "device.attributes['gpu.example'].model == 'X1'"
    needs = Needs(devices=(DeviceNeed("gpu", "gpus", select, 1),))
    broken = slice_of("n1")
    for device in broken["spec"]["devices"]:
        del device["attributes"]["model"]
    given = leases(server, kubernetes, broken, slice_of("n2"))
    good = given.acquire(needs, Deadline(5), Selectors())
    assert good.nodes == ("n2",) and not good.doubts
    alone = Leases(Fleet([broken], [node("n1")]), given.observer)
    lease = alone.acquire(needs, Deadline(5), Selectors())
    assert lease.nodes == ("n1",) and "dev-0 of n1" in lease.doubts[0] and "no such key: model" in lease.doubts[0]


def test_what_no_node_has_is_a_skip_with_the_reasons(server: Any, kubernetes: Any):
    given = leases(server, kubernetes, slice_of("n1"))
    with pytest.raises(Skip, match="n1 has 0 of 1 devices of class nics"):
        given.acquire(Needs(devices=(NIC,)), Deadline(5), Selectors())
    with pytest.raises(Skip, match="no node that is ready has ResourceSlices"):
        Leases(Fleet([], []), given.observer).acquire(NOW, Deadline(5), Selectors())


def test_templates_see_plain_values():
    device = fit(NOW, slice_of("n1")).devices["gpu"][0]
    assert described(device) == {
        "name": "dev-0",
        "driver": "gpu.example",
        "pool": "n1",
        "attributes": {"model": "X1", ROOT: "a"},
        "capacity": {"memory": "80Gi"},
    }
