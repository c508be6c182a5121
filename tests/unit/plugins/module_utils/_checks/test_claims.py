# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims that are right, and claims that are wrong in one way each: the check that fails is the one meant, for the reason meant."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.claims import check_claim
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import subject_of

NAMES = {
    "claim.allocated", "claim.devices", "claim.count", "claim.selectors", "claim.constraints", "claim.reserved", "claim.node",
    "claim.exclusive",
}  # fmt: skip
ALL = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}}
ROOT = "resource.kubernetes.io/pcieRoot"


def checks_of(world: Any, number: int = 0) -> list[Any]:
    view = world.view()
    return check_claim(world.subject, view, view.claims[number], world.selectors)


def failures(world: Any, number: int = 0) -> dict[str, str]:
    return {check.name: check.reason for check in checks_of(world, number) if check.status == "failed"}


def request(name: str = "gpu", expression: str = "", **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1, **more}
    if expression:
        body["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": body}


def test_a_claim_that_is_right(pair):
    checks = checks_of(pair)
    assert {check.name for check in checks} == NAMES
    assert {(check.status, check.kind, check.device) for check in checks} == {("passed", "claim", "c")}


def test_an_unallocated_claim_has_one_failure(pair):
    pair.claims[0]["status"] = {}
    pair.pods[0]["status"]["phase"], pair.pods[0]["spec"]["nodeName"] = "Pending", None
    assert failures(pair) == {"claim.allocated": "team/c is not allocated; pod p is Pending"}


def test_a_pod_that_runs_without_an_allocation_is_told(pair):
    """KWOK looks at spec.nodeName only: such a pod runs, and has no device."""
    pair.claims[0]["status"] = {}
    reason = failures(pair)["claim.allocated"]
    assert "pod p is Running on n1 nevertheless: it got its node by spec.nodeName, past the scheduler" in reason


def change_spec(key: str, value: Any) -> Any:
    return lambda world: world.slices[0]["spec"]["pool"].update({key: value})


def stale(world: Any) -> None:
    world.slice([world.gpu(1)], generation=2)


def duplicate(world: Any) -> None:
    world.slices[0]["spec"]["pool"]["resourceSliceCount"] = 2
    world.slice([world.gpu(0)], count=2)


def lose_attribute(world: Any) -> None:
    del world.slices[0]["spec"]["devices"][0]["attributes"]["type"]


def wrong_type(world: Any) -> None:
    world.slices[0]["spec"]["devices"][0]["attributes"]["type"] = {"string": "mig"}


def other_request(world: Any) -> None:
    world.claims[0]["status"]["allocation"]["devices"]["results"][0]["request"] = "nic"


def two_given(world: Any) -> None:
    world.claims[0]["status"]["allocation"]["devices"]["results"].append(world.result("gpu=gpu-1"))


def forget_reservation(world: Any) -> None:
    world.claims[0]["status"]["reservedFor"] = []


def other_reservation(world: Any) -> None:
    world.claims[0]["status"]["reservedFor"][0]["uid"] = "of-an-earlier-pod"


def ghost_reservation(world: Any) -> None:
    world.claims[0]["status"]["reservedFor"].append({"resource": "pods", "name": "ghost", "uid": "x"})


def elsewhere(world: Any) -> None:
    world.pods[0]["spec"]["nodeName"] = "n2"


def twice(world: Any) -> None:
    world.claim("other", given=["gpu=gpu-0"])


def no_class(world: Any) -> None:
    del world.classes[0]


@pytest.mark.parametrize(
    ("damage", "check", "words"),
    [
        (
            change_spec("resourceSliceCount", 2),
            "claim.devices",
            "generation 1 has 1 slice, but resourceSliceCount says 2",
        ),
        (stale, "claim.devices", "gpu-0 is only in generation 1 of pool n1, which is stale; the newest is 2"),
        (duplicate, "claim.devices", "device names are there twice, which makes the whole pool invalid: gpu-0"),
        (lambda world: world.slices.clear(), "claim.devices", "driver gpu.nvidia.com publishes no pool n1"),
        (lambda world: world.slices[0]["spec"]["devices"].pop(0), "claim.devices", "has no device gpu-0"),
        (lose_attribute, "claim.selectors", "no such key: type"),
        (wrong_type, "claim.selectors", "does not satisfy \"device.driver == 'gpu.nvidia.com'"),
        (no_class, "claim.selectors", "there is no DeviceClass 'gpu.nvidia.com'"),
        (other_request, "claim.count", "'nic', which the claim does not ask for; request gpu got nothing"),
        (two_given, "claim.count", "request gpu asks for 1 and got 2"),
        (forget_reservation, "claim.reserved", "reservedFor does not name pod p, which runs on n1"),
        (other_reservation, "claim.reserved", "reservedFor names an earlier pod p"),
        (ghost_reservation, "claim.reserved", "reservedFor names ghost, which do not use the claim"),
        (elsewhere, "claim.node", "pod p is on n2, the devices are on n1"),
        (twice, "claim.exclusive", "gpu-0 of n1 is allocated 2 times: team/c (request gpu), team/other (request gpu)"),
    ],
)
def test_each_fault_fails_one_check_for_its_reason(pair, damage, check, words):
    damage(pair)
    found = failures(pair)
    assert set(found) == {check}
    assert words in found[check]


def test_what_cannot_be_evaluated_is_skipped_and_never_passed(pair):
    pair.claims[0]["spec"]["devices"]["requests"] = [request(expression="ip('10.0.0.1').family() == 4")]
    selectors = next(check for check in checks_of(pair) if check.name == "claim.selectors")
    assert selectors.status == "skipped"
    assert "this CEL library cannot evaluate what the API server accepted" in selectors.reason
    assert "ip" in selectors.reason


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('79Gi')) >= 0", True),
        ("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('80Gi'))", False),
        ("device.attributes['gpu.nvidia.com'].productName.startsWith('NVIDIA H100')", True),
        ("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:00'", True),
        ("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:10'", False),
    ],
)
def test_selectors_of_requests_are_evaluated_again(pair, expression, holds):
    pair.claims[0]["spec"]["devices"]["requests"] = [request(expression=expression)]
    assert ("claim.selectors" in failures(pair)) is not holds


def test_all_means_all_of_the_node(pair):
    pair.claims[0]["spec"]["devices"]["requests"] = [ALL]
    assert failures(pair) == {"claim.count": "request gpu asks for all and did not get gpu-1"}
    pair.claims[0]["status"]["allocation"]["devices"]["results"].append(pair.result("gpu=gpu-1"))
    assert failures(pair) == {}


def test_all_leaves_out_what_a_taint_keeps_away(pair):
    pair.claims[0]["spec"]["devices"]["requests"] = [ALL]
    pair.slices[0]["spec"]["devices"][1]["taints"] = [
        {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
    ]
    assert failures(pair) == {}
    pair.slices[0]["spec"]["devices"][1]["taints"][0]["effect"] = "None"
    assert "did not get gpu-1" in failures(pair)["claim.count"]


FIRST = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "two", "deviceClassName": "gpu.nvidia.com", "count": 2},
        {"name": "one", "deviceClassName": "gpu.nvidia.com"},
    ],
}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["gpu/one=gpu-0"], ""),
        (["gpu/two=gpu-0", "gpu/two=gpu-1"], ""),
        (["gpu/two=gpu-0"], "request gpu/two asks for 2 and got 1"),
        (["gpu/one=gpu-0", "gpu/two=gpu-1"], "request gpu got several alternatives"),
        (["gpu=gpu-0"], "'gpu', which the claim does not ask for"),
    ],
)
def test_one_alternative_of_a_prioritized_list(world, given, words):
    world.slice([world.gpu(0), world.gpu(1)])
    world.claim("c", requests=[FIRST], given=given)
    found = failures(world)
    assert words in found["claim.count"] if words else not found


def test_a_request_of_v1beta1_has_its_fields_beside_its_name(pair):
    pair.claims[0]["spec"]["devices"]["requests"] = [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 2}]
    assert failures(pair) == {"claim.count": "request gpu asks for 2 and got 1"}


def both(
    world: Any, gpu_root: str | None, nic_root: str | None, kind: str = "matchAttribute", attribute: str = ROOT
) -> dict[str, str]:
    world.slice([world.gpu(0, **{ROOT: gpu_root})])
    world.slice([world.nic(0, nic_root)], driver="dra.net")
    world.claim(
        "c",
        requests=[request(), request("nic", deviceClassName="dra.net")],
        given=["gpu=gpu-0", "nic=nic-0@n1/dra.net"],
        constraints=[{"requests": ["gpu", "nic"], kind: attribute}],
    )
    return failures(world)


@pytest.mark.parametrize(
    ("gpu_root", "nic_root", "words"),
    [
        ("pci0000:40", "pci0000:40", ""),
        ("pci0000:40", "pci0000:50", f"{ROOT} differs: gpu-0 has pci0000:40, nic-0 has pci0000:50"),
        ("pci0000:40", None, f"nic-0 of n1 (dra.net) lacks the attribute {ROOT}"),
        (None, "pci0000:40", f"gpu-0 of n1 (gpu.nvidia.com) lacks the attribute {ROOT}"),
    ],
)
def test_match_attribute_holds_or_is_told(world, gpu_root, nic_root, words):
    found = both(world, gpu_root, nic_root)
    assert words in found["claim.constraints"] if words else not found


def test_distinct_attribute_holds_or_is_told(world):
    assert both(world, "pci0000:40", "pci0000:50", "distinctAttribute") == {}
    world.slices.clear()
    world.claims.clear()
    assert "is not distinct" in both(world, "pci0000:40", "pci0000:40", "distinctAttribute")["claim.constraints"]


def test_an_attribute_of_the_drivers_own_domain_is_no_standard_one(world):
    """`pcieRoot` without a domain is dra.net/pcieRoot there, and never matches."""
    world.slice([world.gpu(0)])
    world.slice([{"name": "nic-0", "attributes": {"pcieRoot": {"string": "pci0000:00"}}}], driver="dra.net")
    world.claim(
        "c",
        requests=[request(), request("nic", deviceClassName="dra.net")],
        given=["gpu=gpu-0", "nic=nic-0@n1/dra.net"],
        constraints=[{"matchAttribute": ROOT}],
    )
    assert "nic-0 of n1 (dra.net) lacks" in failures(world)["claim.constraints"]
    world.claims[0]["spec"]["devices"]["constraints"] = [{"requests": ["nic"], "matchAttribute": "dra.net/pcieRoot"}]
    assert failures(world) == {}


@pytest.mark.parametrize(("roots", "holds"), [(["pci0000:00", "pci0000:80"], True), (["pci0000:80"], False)])
def test_lists_match_when_they_have_something_in_common(world, roots, holds):
    world.slice([world.gpu(0)])
    world.slice([{"name": "cpu-0", "attributes": {ROOT: {"strings": roots}}}], driver="dra.net")
    world.claim(
        "c",
        requests=[request(), request("nic", deviceClassName="dra.net")],
        given=["gpu=gpu-0", "nic=cpu-0@n1/dra.net"],
        constraints=[{"matchAttribute": ROOT}],
    )
    assert (failures(world) == {}) is holds


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [(["0", "1"], ["2"], True), (["0", "1"], ["1", "2"], False), (["0", "1"], ["1"], False)],
)
def test_lists_are_distinct_when_they_have_nothing_in_common(world, first, second, holds):
    devices = [world.gpu(0), world.gpu(1)]
    for device, values in zip(devices, (first, second)):
        device["attributes"]["numa"] = {"strings": values}
    world.slice(devices)
    world.claim(
        "c",
        requests=[request(count=2)],
        given=["gpu=gpu-0", "gpu=gpu-1"],
        constraints=[{"distinctAttribute": "gpu.nvidia.com/numa"}],
    )
    assert ("claim.constraints" in failures(world)) is not holds


def test_a_version_and_a_text_of_the_same_letters_differ(world):
    world.slice([world.gpu(0), world.gpu(1)])
    world.slices[0]["spec"]["devices"][0]["attributes"]["v"] = {"string": "1.2.3"}
    world.slices[0]["spec"]["devices"][1]["attributes"]["v"] = {"version": "1.2.3"}
    world.claim(
        "c",
        requests=[request(count=2)],
        given=["gpu=gpu-0", "gpu=gpu-1"],
        constraints=[{"matchAttribute": "gpu.nvidia.com/v"}],
    )
    assert "differs" in failures(world)["claim.constraints"]


def test_claims_of_templates_go_by_their_pod(pair):
    claim = pair.claims[0]
    claim["metadata"].update(
        name="p-gpu-x7k2p",
        annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
        ownerReferences=[{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
    )
    pair.pods[0]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    assert subject_of(claim) == "p:gpu"
    assert {(check.device, check.status) for check in checks_of(pair)} == {("p:gpu", "passed")}
    claim["status"]["reservedFor"] = []
    assert set(failures(pair)) == {"claim.reserved"}


def test_claims_of_extended_resources_belong_to_their_pod(pair):
    claim = pair.claims[0]
    claim["metadata"].update(
        annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
        ownerReferences=[{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
    )
    pair.pods[0]["spec"]["resourceClaims"] = []
    assert subject_of(claim) == "p:extended-resources"
    assert pair.view().claims_of(pair.pods[0]) == {"extended resources": claim}
    claim["status"]["reservedFor"] = []
    assert set(failures(pair)) == {"claim.reserved"}
