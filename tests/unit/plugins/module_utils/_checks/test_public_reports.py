# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others have run into in public, about claims, MIG, alignment and nodes without a kubelet: each report has a test here or elsewhere,
or a note that says why it has none. Those about slices, clients and many objects are in the file of the same name in _kubernetes.

Both tables are checked: a test that they name has to exist, and no report is in both.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.claims import check_claim
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pods import pending_cause
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import SliceError, check_slices
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.expectations import parse_expectations
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.judge import judge

TESTS = Path(__file__).resolve().parents[4]
CHECKS = "unit/plugins/module_utils/_checks/"
SLICES = "unit/plugins/module_utils/_slices/"
HERE = f"{CHECKS}test_public_reports.py"
LIVE = "integration/test_fleet_validation.py"

# Report -> the test that would fail if it happened here.
TESTED = {
    "run-ai/fake-gpu-operator#189: no such key: type": f"{CHECKS}test_pods.py::test_the_cause_is_found_without_the_scheduler",
    "run-ai/fake-gpu-operator#177: MIG that cannot be allocated": f"{LIVE}::test_every_scenario_passes_for_its_reason_and_leaves_nothing",
    "dra-driver-nvidia-gpu#719: whole GPUs beside their MIG devices": f"{CHECKS}test_claim_sharing.py::test_a_gpu_and_a_part_of_it_are_the_same_hardware",
    "dra-driver-nvidia-gpu#859: counters and devices in one slice": f"{SLICES}test_limits.py::test_counters_and_devices_in_one_slice",
    "dra-driver-nvidia-gpu#1092: an empty counter set": f"{SLICES}test_limits.py::test_counters_since_1_35",
    "dra-driver-nvidia-gpu PR#1018: a counter set that nobody defines": f"{CHECKS}test_pools.py::test_each_fault_of_a_pool_is_told",
    "dra-driver-nvidia-gpu#897: three parts of three GPUs": f"{HERE}::test_parts_of_different_gpus_are_told_when_they_should_be_of_one",
    "dra-driver-nvidia-gpu#1008: a slice without devices": f"{CHECKS}test_pools.py::test_a_slice_without_devices_is_a_slice",
    "dra-driver-nvidia-gpu#438: no slices of GPUs at all": f"{LIVE}::test_when_nothing_can_be_shown_nothing_was_validated",
    "dra-driver-nvidia-gpu#473: a part of a GPU that is in use": f"{CHECKS}test_claim_sharing.py::test_a_gpu_and_a_part_of_it_are_the_same_hardware",
    "dra-driver-nvidia-gpu#213, #400: how to align GPU and adapter": f"{LIVE}::test_gpu_and_adapter_share_a_root_on_machines_of_aws",
    "dra-driver-nvidia-gpu demo gpu-test6: attribute index": f"{CHECKS}test_pods.py::test_the_cause_is_found_without_the_scheduler",
    "intel-resource-drivers#60: pciRoot in the driver's own domain": f"{CHECKS}test_claims.py::test_an_attribute_of_the_drivers_own_domain_is_no_standard_one",
    "ROCm/k8s-gpu-dra-driver PR#18, #92: numaNode of one vendor only": f"{HERE}::test_a_numa_node_in_two_domains_never_matches",
    "dra-driver-cpu#114: several roots as a list": f"{CHECKS}test_claims.py::test_lists_match_when_they_have_something_in_common",
    "dra-driver-cpu PR#156: 128 devices with lists": f"{SLICES}test_limits.py::test_devices_of_a_slice",
    "dra-driver-cpu#5: more than 128 devices": f"{SLICES}test_limits.py::test_devices_of_a_slice",
    "kubernetes#130043: allocation from an incomplete pool": f"{CHECKS}test_claims.py::test_each_fault_fails_one_check_for_its_reason",
    "kubernetes#141117: slices of a pool that count differently": f"{CHECKS}test_pools.py::test_each_fault_of_a_pool_is_told",
    "kubernetes#134466: allocationMode All gets the devices of other nodes, or too few": f"{CHECKS}test_claims.py::test_all_means_all_of_the_node",
    "kubernetes#136709: unclear CEL errors": f"{CHECKS}test_claims.py::test_each_fault_fails_one_check_for_its_reason",
    "kubernetes#140802: counters after a change": f"{CHECKS}test_claim_sharing.py::test_counters_that_a_republished_pool_no_longer_has_room_for",
    "kubernetes#139034: counters of shared devices": f"{CHECKS}test_claim_sharing.py::test_a_shared_device_counts_once",
    "kubernetes#118209: a pod with a node name and no allocation": f"{CHECKS}test_pods.py::test_a_phase_is_not_enough",
    "KAI-Scheduler#2100, PR#2102: claims on slices with counters": f"{HERE}::test_devices_with_counters_that_are_free_can_be_had",
    "llm-d PR#2068: an adapter without pcieRoot": f"{CHECKS}test_pods.py::test_a_device_without_the_attribute_is_named",
    "ai-dynamo/dynamo PR#13596: a pair without a constraint": f"{HERE}::test_a_pair_without_a_constraint_is_no_pair",
    "dranet#92: adapter and CPU by list or NUMA node": f"{CHECKS}test_claims.py::test_lists_match_when_they_have_something_in_common",
    "kwok#272, #1464: a pod that is bound and does not get ready": f"{CHECKS}test_pods.py::test_why_a_pod_does_not_run",
}

# Report -> why nothing here could show it.
NOT_OURS = {
    "dra-driver-nvidia-gpu#330: slices are gone after a restart of the kubelet": "fake nodes have no kubelet; what is lost is published again by the next run",
    "dra-driver-nvidia-gpu#766: a claim that the driver cannot read": "the driver on the node; which version we speak is tested in _kubernetes",
    "kubernetes#131513: claims of pods deleted at once": "a fault of the kubelet, and there is none; rapid_create_delete looks for what is left",
    "k8s-test-infra#264, #265, #326, #497: gaps of a mock of NVML": "no driver runs here, so none has to be fooled",
    "karpenter-provider-aws#9519: nodes for claims": "nobody provisions nodes here",
    "dranet#30, #141: roles of a driver": "no driver runs here; our own rights are tested with the modules",
    "dra-driver-cpu PR#65: own names in the reserved domain": "we publish standard attributes in it and nothing else, as the golden slices show",
    "NVIDIA/k8s-dra-driver-gpu: demo specs for MPS, time slicing and IMEX": "what they configure is on the node, and fake nodes have none of it",
}


def failures(world: Any, number: int = 0) -> dict[str, str]:
    view = world.view()
    checks = check_claim(world.subject, view, view.claims[number], world.selectors)
    return {check.name: check.reason for check in checks if check.status == "failed"}


def parts(world: Any, constraints: list[dict[str, Any]]) -> None:
    world.slice([world.mig(f"m{number}", f"GPU-{number}", [0]) for number in range(3)])
    body = {"deviceClassName": "mig.nvidia.com"}
    requests = [{"name": f"r{number}", "exactly": body} for number in range(3)]
    world.claim("c", requests=requests, given=[f"r{number}=m{number}" for number in range(3)], constraints=constraints)


def test_parts_of_different_gpus_are_told_when_they_should_be_of_one(world):
    """Without a constraint that is a right allocation, and only an expectation can say otherwise."""
    parts(world, [])
    assert failures(world) == {}
    expected = parse_expectations({"claims": [{"name": "c", "same": ["gpu.nvidia.com/parentUUID"]}]})
    checks = judge(world.subject, world.view(), expected, lambda _obj: True, world.selectors)
    (wrong,) = [check for check in checks if check.status == "failed"]
    assert (wrong.name, "parentUUID differs: m0 has GPU-0" in wrong.reason) == ("claim.expected_attribute", True)
    world.claims[0]["spec"]["devices"]["constraints"] = [{"matchAttribute": "gpu.nvidia.com/parentUUID"}]
    assert set(failures(world)) == {"claim.constraints"}


def test_a_numa_node_in_two_domains_never_matches(world):
    world.slice([{**world.gpu(0), "attributes": {"type": {"string": "gpu"}, "numaNode": {"int": 0}}}])
    world.slice([{"name": "nic-0", "attributes": {"resource.kubernetes.io/numaNode": {"int": 0}}}], driver="dra.net")
    requests = [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
        {"name": "nic", "exactly": {"deviceClassName": "dra.net"}},
    ]
    world.claim("late", requests=requests, constraints=[{"matchAttribute": "resource.kubernetes.io/numaNode"}])
    pod = world.pod(
        "late", claims={"a": "late"}, node=None, phase="Pending", nodeSelector={"kubernetes.io/hostname": "n1"}
    )
    cause = pending_cause(world.view(), pod, world.selectors)
    assert cause.kind == "constraint"
    assert "1 of 1 devices for gpu lack the attribute resource.kubernetes.io/numaNode (gpu-0)" in cause.words
    world.slices[0]["spec"]["devices"][0]["attributes"]["resource.kubernetes.io/numaNode"] = {"int": 0}
    assert pending_cause(world.view(), pod, world.selectors).kind == "available"


def test_devices_with_counters_that_are_free_can_be_had(world):
    """A scheduler that leaves such a claim waiting is wrong, and the cause says so."""
    used = [{"counterSet": "s", "counters": {"memory": {"value": "20Gi"}}}]
    world.slice([], count=2, sharedCounters=[{"name": "s", "counters": {"memory": {"value": "40Gi"}}}])
    world.slice([{**world.mig(f"m{number}", "", []), "consumesCounters": used} for number in range(3)], count=2)
    requests = [{"name": "mig", "exactly": {"deviceClassName": "mig.nvidia.com", "count": 2}}]
    world.claim("late", requests=requests)
    pod = world.pod(
        "late", claims={"a": "late"}, node=None, phase="Pending", nodeSelector={"kubernetes.io/hostname": "n1"}
    )
    assert pending_cause(world.view(), pod, world.selectors).kind == "available"
    requests[0]["exactly"]["count"] = 3
    assert pending_cause(world.view(), pod, world.selectors).kind == "too_few"


def test_a_pair_without_a_constraint_is_no_pair(world):
    world.slice([world.gpu(0)])
    world.slice([world.nic(0, "pci0000:90")], driver="dra.net")
    requests = [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
        {"name": "nic", "exactly": {"deviceClassName": "dra.net"}},
    ]
    world.claim("c", requests=requests, given=["gpu=gpu-0", "nic=nic-0@n1/dra.net"])
    assert failures(world) == {}
    expected = parse_expectations({"claims": [{"name": "c", "same": ["resource.kubernetes.io/pcieRoot"]}]})
    checks = judge(world.subject, world.view(), expected, lambda _obj: True, world.selectors)
    assert [check.name for check in checks if check.status == "failed"] == ["claim.expected_attribute"]


def test_what_is_told_of_pools_is_what_is_refused_before_publishing(world):
    """A pool that the checks find broken, fleets that we publish never have."""
    world.slice([world.gpu(0)], count=2)
    with pytest.raises(SliceError, match="resourceSliceCount"):
        check_slices(world.slices)


@pytest.mark.parametrize("report", sorted(TESTED))
def test_the_test_exists(report):
    path, name = TESTED[report].split("::")
    assert re.search(rf"^def {name}\(", (TESTS / path).read_text(encoding="utf-8"), re.M), TESTED[report]


def numbers(texts: Any) -> set[str]:
    """Repository and number of each report: `kubernetes#130043`."""
    found = set()
    for text in texts:
        head = text.partition(":")[0]
        repository = re.split(r"[ #,]", head)[0].rpartition("/")[2]
        found |= {f"{repository}#{number}" for number in re.findall(r"#(\d+)", head)}
    return found


def test_no_report_is_forgotten_between_the_tables():
    """What the other table leaves to the checks of claims is tested here."""
    spec = importlib.util.spec_from_file_location(
        "gpulab_reports_of_slices", TESTS / "unit/plugins/module_utils/_kubernetes/test_public_reports.py"
    )
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    left = {report for report, note in other.NOT_OURS.items() if "checks of claims" in note}
    assert numbers(left) and numbers(left) <= numbers(TESTED)
    assert not numbers(TESTED) & numbers(NOT_OURS)
    assert all(len(note) > 20 for note in NOT_OURS.values())
