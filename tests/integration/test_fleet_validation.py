# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios against a real scheduler: on a good fleet each passes for its reason, on a broken one the validation fails and names the fault."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from modcall import Modules
from planes import Plane, Planes

ROLE = "roles/dra_validation"
MIG = [{"name": "gpu.nvidia.com", "mode": "static-mig", "options": {"mig": {"*": ["1g.5gb", "2g.10gb", "3g.20gb"]}}}]
SETS: dict[str, dict[str, Any]] = {
    "val-p5": {"name": "val-p5-{n}", "count": 3, "machine": "aws-p5"},
    "val-p4d": {"name": "val-p4d-{n}", "count": 2, "machine": "aws-p4d"},
    "val-mig": {"name": "val-mig-{n}", "count": 1, "machine": "aws-p4d", "drivers": MIG},
    "val-t4": {"name": "val-t4-{n}", "count": 1, "machine": "aws-g4dn"},
    # Every GPU and every adapter of it has a PCIe root of its own.
    "val-gb200": {"name": "val-gb200-{n}", "count": 1, "machine": "oci-gb200"},
}
GPU, NIC = "gpu.nvidia.com", "dra.net"

# What a person would name as the reason why a scenario passed: a check, and words of its reason.
REASONS = {
    "all_gpus_of_a_node": ("claim.count", "all "),
    "cel_architecture": ("claim.selectors", "evaluated again"),
    "cel_error": ("pod.cause", "no such key: index"),
    "cel_memory": ("claim.expected_selector", "memory.isGreaterThan"),
    "cel_no_match": ("pod.cause", "no_match: "),
    "cel_product": ("claim.expected_selector", "productName =="),
    "claim_reused": ("claim.unallocated (released)", "is not allocated"),
    "deployment_distinct_gpus": ("claim.exclusive", "no other claim"),
    "extended_resource": ("claim.expected_devices", "has 2"),
    "first_available": ("claim.expected_choice", "gpu/good was chosen"),
    "gpu_exhausted": ("pod.cause (one too many)", "0 are free, and it wants 1"),
    "gpu_nic_no_common_root": ("pod.cause", "constraint: "),
    "gpu_nic_same_root": ("claim.expected_attribute", "resource.kubernetes.io/pcieRoot"),
    "mig_by_profile_same_parent": ("claim.expected_attribute", "parentUUID"),
    "node_name_forced": ("pod.unallocated", "past the scheduler"),
    "one_pod_one_gpu": ("claim.expected_devices", "has 1"),
    "rapid_create_delete": ("node.free", "devices is allocated"),
    "two_containers_one_claim": ("claim.expected_pods", "pod-1"),
    "two_pods_one_shared_claim": ("claim.expected_pods", "pod-1, pod-2"),
    "two_pods_two_gpus": ("claim.exclusive", "no other claim"),
    "whole_node": ("claim.expected_attribute", "uuid"),
}


class Fleet:
    """A few nodes of each machine, and the scenarios of the role against them."""

    def __init__(self, plane: Plane, modules: Modules, scenarios: Path) -> None:
        self.plane = plane
        self.modules = modules
        self.scenarios = scenarios
        self.touched: set[str] = set()

    def make(self, *names: str) -> None:
        for name in names:
            self.modules.nodes(**SETS[name])

    def remove(self) -> None:
        for name in SETS:
            self.modules.nodes(set=name, state="absent")
        self.modules.start("device_class", state="absent").result()

    def validate(self, *only: str, fails: bool = False, **params: Any) -> dict[str, Any]:
        """The module's result; failed checks fail a test only when it says so."""
        given: dict[str, Any] = {"paths": [str(self.scenarios)], "fail_on": "never", "only": list(only) or None}
        return self.modules.start("dra_scenario", **{**given, **params}).result(fails)

    def slices(self, driver: str, node: str) -> list[dict[str, Any]]:
        found = self.plane.get("resourceslices", f"--field-selector=spec.nodeName={node},spec.driver={driver}")
        return list(found["items"])

    def put(self, slice_: dict[str, Any], verb: str = "replace") -> None:
        self.touched.add(slice_["spec"]["nodeName"].rpartition("-")[0])
        self.plane.kubectl(verb, "-f", "-", stdin=json.dumps(slice_))


@pytest.fixture(scope="module")
def fleet(control_plane: Plane, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    modules = Modules(control_plane.kubeconfig, tmp_path_factory.mktemp("home"))
    made = Fleet(control_plane, modules, checkout / ROLE / "scenarios")
    try:
        modules.start("device_class").result()
        made.make(*SETS)
        yield made
    finally:
        made.remove()


@pytest.fixture
def broken(fleet: Fleet) -> Iterator[Fleet]:
    """A fleet whose slices a test may break; what it has added or changed is repaired by the module that made them."""
    yield fleet
    fleet.plane.kubectl("delete", "resourceslices", "-l", "broken=yes")
    fleet.make(*sorted(fleet.touched))
    fleet.touched.clear()


def statuses(result: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["status"] for one in result["scenarios"]}


def failures(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["test"], one["name"], one["reason"]) for one in result["checks"] if one["status"] == "failed"]


def told(result: dict[str, Any], test: str, name: str) -> str:
    """The reasons of one kind of check that failed in a test."""
    return "; ".join(reason for of, check, reason in failures(result) if (of, check) == (test, name))


def ours(plane: Plane) -> list[str]:
    items = plane.get("namespaces", "-l", "gpulab.fleet/validation")["items"]
    return [item["metadata"]["name"] for item in items if not item["metadata"].get("deletionTimestamp")]


def test_every_scenario_passes_for_its_reason_and_leaves_nothing(fleet: Fleet):
    result = fleet.validate(fail_on="failed")
    assert statuses(result) == dict.fromkeys(REASONS, "passed")
    for name, (check, words) in REASONS.items():
        reasons = [one["reason"] for one in result["checks"] if (one["test"], one["name"]) == (name, check)]
        assert any(words in reason for reason in reasons), f"{name}: no {check} with {words!r} in {reasons}"
    assert result["changed"] is False and not result["kept"] and not ours(fleet.plane)
    assert not fleet.plane.get("resourceclaims", "-A")["items"] and not fleet.plane.get("pods", "-A")["items"]


@pytest.mark.parametrize("node", ["val-p5-0", "val-p4d-0"])
def test_gpu_and_adapter_share_a_root_on_machines_of_aws(fleet: Fleet, node: str):
    result = fleet.validate("gpu_nic_same_root", "gpu_nic_no_common_root", nodes=[node])
    assert statuses(result) == {"gpu_nic_same_root": "passed", "gpu_nic_no_common_root": "skipped"}
    assert node in str(result["scenarios"])


def test_gpu_and_adapter_share_no_root_where_each_has_its_own(fleet: Fleet):
    result = fleet.validate("gpu_nic_same_root", "gpu_nic_no_common_root", nodes=["val-gb200-0"])
    assert statuses(result) == {"gpu_nic_same_root": "skipped", "gpu_nic_no_common_root": "passed"}
    (pending,) = [one for one in result["checks"] if one["name"] == "pod.pending"]
    assert "cannot allocate all claims" in pending["reason"]


def test_what_a_node_cannot_show_is_skipped_with_the_reason(fleet: Fleet):
    result = fleet.validate(nodes=["val-t4-0"], skip=["rapid_create_delete"])
    skipped = {one["name"]: one["reason"] for one in result["scenarios"] if one["status"] == "skipped"}
    assert "has 1 of 2 devices of class gpu.nvidia.com" in skipped["two_pods_two_gpus"]
    assert "has 0 of 2 devices of class mig.nvidia.com" in skipped["mig_by_profile_same_parent"]
    assert statuses(result)["gpu_exhausted"] == "passed", "one GPU is enough to run out of GPUs"
    gate = {"DRAPrioritizedList": False}
    refused = fleet.validate("first_available", "one_pod_one_gpu", features=gate)
    assert "feature gate DRAPrioritizedList, which is off" in str(refused["scenarios"])


def test_when_nothing_can_be_shown_nothing_was_validated(fleet: Fleet):
    result = fleet.validate("two_pods_two_gpus", nodes=["val-t4-0"], fails=True)
    assert "nothing was validated" in result["msg"]


def test_check_mode_says_where_each_would_run_and_makes_nothing(fleet: Fleet):
    before = fleet.plane.get("namespaces")["metadata"]
    call = fleet.modules.start("dra_scenario", check_mode=True, paths=[str(fleet.scenarios)])
    result = call.result()
    assert set(statuses(result).values()) == {"would run"} and all(one["nodes"] for one in result["scenarios"])
    assert before and not ours(fleet.plane)


def without(name: str) -> Callable[[list[dict[str, Any]]], None]:
    def change(slices: list[dict[str, Any]]) -> None:
        for slice_ in slices:
            for device in slice_["spec"]["devices"]:
                del device["attributes"][name]

    return change


def miscount(slices: list[dict[str, Any]]) -> None:
    for slice_ in slices:
        slice_["spec"]["pool"]["resourceSliceCount"] += 1


def overlap(slices: list[dict[str, Any]]) -> None:
    """The second MIG device of a GPU takes a memory slice that the first has."""
    devices = slices[0]["spec"]["devices"]
    first = devices[0]
    parent = first["attributes"]["parentUUID"]
    second = next(one for one in devices[1:] if one["attributes"]["parentUUID"] == parent)
    number = next(name for name in first["capacity"] if name.startswith("memorySlice"))
    second["capacity"][number] = {"value": "1"}


@pytest.mark.parametrize(
    ("driver", "node", "change", "scenario", "check", "words"),
    [
        (GPU, "val-p5-0", without("productName"), "cel_product", "scenario.devices", "no such key: productName"),
        (GPU, "val-p5-0", without("type"), "one_pod_one_gpu", "scenario.devices", "no such key: type"),
        (
            NIC,
            "val-p5-0",
            without("resource.kubernetes.io/pcieRoot"),
            "gpu_nic_same_root",
            "scenario.devices",
            "has resource.kubernetes.io/pcieRoot",
        ),
        (GPU, "val-p5-0", miscount, "one_pod_one_gpu", "pool.incomplete", "resourceSliceCount says 2"),
        (GPU, "val-mig-0", overlap, "mig_by_profile_same_parent", "pool.overlap", "both have memory slice"),
    ],
)
def test_a_fault_in_slices_fails_the_validation_and_is_named(
    broken: Fleet,
    driver: str,
    node: str,
    change: Callable[[list[dict[str, Any]]], None],
    scenario: str,
    check: str,
    words: str,
):
    slices = broken.slices(driver, node)
    change(slices)
    for slice_ in slices:
        broken.put(slice_)
    result = broken.validate(scenario, nodes=[node], within_s=8)
    assert statuses(result) == {scenario: "failed"}
    assert words in told(result, scenario, check), failures(result)


@pytest.mark.parametrize(
    ("change", "check", "words"),
    [
        (miscount, "pool.incomplete", "resourceSliceCount says"),
        (without("type"), "scenario.devices", "no such key: type"),
    ],
)
def test_no_scenario_passes_on_a_fleet_that_is_broken_as_a_whole(
    broken: Fleet, change: Callable[[list[dict[str, Any]]], None], check: str, words: str
):
    """None is skipped either: what is broken must not look like what is not there."""
    for slice_ in broken.plane.get("resourceslices", f"--field-selector=spec.driver={GPU}")["items"]:
        change([slice_])
        broken.put(slice_)
    result = broken.validate(within_s=8)
    assert statuses(result) == dict.fromkeys(REASONS, "failed")
    assert [name for name in REASONS if words not in told(result, name, check)] == []


def another(broken: Fleet, node: str, **pool: int) -> None:
    """A second slice in the pool of a node's GPUs, with the same devices."""
    (slice_,) = broken.slices(GPU, node)
    second = copy.deepcopy(slice_)
    second["metadata"] = {"name": f"{node}-again", "labels": {"broken": "yes"}}
    second["spec"]["pool"].update(pool)
    broken.put(second, "create")


def test_a_device_that_is_there_twice_fails_the_validation(broken: Fleet):
    another(broken, "val-p5-0", resourceSliceCount=2)
    (first,) = [one for one in broken.slices(GPU, "val-p5-0") if "again" not in one["metadata"]["name"]]
    first["spec"]["pool"]["resourceSliceCount"] = 2
    broken.put(first)
    result = broken.validate("one_pod_one_gpu", nodes=["val-p5-0"], within_s=8)
    assert "device names are there twice" in told(result, "one_pod_one_gpu", "pool.duplicate"), failures(result)
    assert "device names are there twice" in told(result, "fleet", "pool.duplicate")


def test_a_stale_generation_fails_the_validation(broken: Fleet):
    (slice_,) = broken.slices(GPU, "val-p5-0")
    another(broken, "val-p5-0", generation=slice_["spec"]["pool"]["generation"] + 1)
    result = broken.validate("one_pod_one_gpu", nodes=["val-p5-0"])
    assert "stale slice" in told(result, "one_pod_one_gpu", "pool.stale"), failures(result)


def test_a_broken_pool_elsewhere_is_reported_while_scenarios_pass_on_good_nodes(broken: Fleet):
    (slice_,) = broken.slices(GPU, "val-p5-1")
    miscount([slice_])
    broken.put(slice_)
    result = broken.validate("one_pod_one_gpu", fails=True, fail_on="failed")
    assert statuses(result) == {"one_pod_one_gpu": "passed"}
    assert "val-p5-1" in told(result, "fleet", "pool.incomplete") and "val-p5-1" in result["msg"]


OWN = """
description: A GPU that is promised to have a product's name which it has not.
needs:
  devices:
    - {name: gpu, class: "{{ classes.gpu }}"}
manifests:
  all: |
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: mine}
    spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: "{{ classes.gpu }}"}}]}}
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: mine}
    spec:
      resourceClaims: [{name: gpu, resourceClaimName: mine}]
      containers: [{name: main, resources: {claims: [{name: gpu}]}}]
steps:
  - apply: [all]
  - expect:
      claims:
        - name: mine
          where: ["device.attributes['gpu.nvidia.com'].productName == '{{ product }}'"]
"""


def test_a_scenario_of_the_users_own_fails_by_its_expectation_and_what_explains_it_is_kept(
    fleet: Fleet, tmp_path: Path
):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "my_gpu.yml").write_text(OWN)
    result = fleet.validate(
        "my_gpu",
        paths=[str(fleet.scenarios), str(tmp_path / "own")],
        variables={"product": "Riva TNT"},
        within_s=6,
        keep_dir=str(tmp_path / "kept"),
    )
    assert "Riva TNT" in told(result, "my_gpu", "claim.expected_selector")
    folder = tmp_path / "kept" / "my_gpu"
    assert result["kept"] == [str(folder)]
    assert {path.name for path in folder.iterdir()} >= {"claims.yml", "pods.yml", "slices.yml", "checks.yml"}
    (claim,) = yaml.safe_load_all((folder / "claims.yml").read_text())
    assert claim["status"]["allocation"], "the state of the failure, not that after the cleaning up"
    assert not ours(fleet.plane)


def test_the_playbook_validates_any_cluster_and_writes_the_report(fleet: Fleet, planes: Planes, tmp_path: Path):
    variables = {
        "dra_validation_kubeconfig": fleet.plane.kubeconfig,
        "dra_validation_context": fleet.plane.context,
        "dra_validation_only": ["one_pod_one_gpu", "cel_no_match"],
        "dra_validation_keep_dir": str(tmp_path / "kept"),
        "dra_validation_within_s": 8,
        "lab_report_dir": str(tmp_path / "reports"),
    }
    good = planes.play("playbooks/dra_validate.yml", variables)
    assert good.returncode == 0
    report = json.loads((tmp_path / "reports" / "latest" / "report.json").read_text())
    assert report["summary"]["failed"] == 0 and report["summary"]["passed"] > 20
    assert {one["test"] for one in report["checks"]} == {"fleet", "one_pod_one_gpu", "cel_no_match"}
    assert all(one["claim"] and one["reason"] for one in report["checks"])
    assert (tmp_path / "reports" / "latest" / "report.junit.xml").exists() and not (tmp_path / "kept").exists()


def test_the_playbook_fails_on_a_broken_fleet_and_names_the_fault(broken: Fleet, planes: Planes, tmp_path: Path):
    (slice_,) = broken.slices(GPU, "val-p5-2")
    miscount([slice_])
    broken.put(slice_)
    variables = {
        "dra_validation_kubeconfig": broken.plane.kubeconfig,
        "dra_validation_only": ["one_pod_one_gpu"],
        "dra_validation_nodes": ["val-p5-2"],
        "dra_validation_keep_dir": str(tmp_path / "kept"),
        "lab_report_dir": str(tmp_path / "reports"),
    }
    done = planes.play("playbooks/dra_validate.yml", variables)
    assert done.returncode != 0 and "resourceSliceCount says 2" in done.output
    assert list((tmp_path / "kept").glob("*/one_pod_one_gpu/slices.yml"))
