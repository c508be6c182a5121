# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others have run into in public, about slices, pools, CEL, idempotency and scale: each report has a test here or elsewhere, or a
note that says why it has none.

The table is checked: a test that it names has to exist.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.device_cel import CelError, compile_selector
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import NODE

TESTS = Path(__file__).resolve().parents[4]
UNIT = "unit/plugins/module_utils/"
HERE = f"{UNIT}_kubernetes/test_public_reports.py"
MODULES = "unit/plugins/modules/"
FLEET = "integration/test_fleet_nodes.py"
POOLS = "integration/test_fleet_slices.py"

# Report -> the test that would fail if it happened here.
TESTED = {
    "run-ai/fake-gpu-operator#189: no such key: type": f"{HERE}::test_attributes_of_a_foreign_domain_are_not_found",
    "kubernetes#136709: unclear CEL errors": f"{HERE}::test_attributes_of_a_foreign_domain_are_not_found",
    "dra-driver-nvidia-gpu demo gpu-test6: attribute index": f"{UNIT}_kubernetes/test_device_cel.py::test_what_fails_for_a_device_says_why",
    "dra-driver-nvidia-gpu#766: wrong API version": f"{POOLS}::test_a_version_that_is_not_served",
    "kubernetes#130043: allocation from an incomplete pool": f"{POOLS}::test_what_a_scheduler_sees_while_a_pool_changes",
    "kubernetes#141117: slices of a pool that count differently": f"{UNIT}_kubernetes/test_pools.py::test_completeness",
    "kubernetes: a gate that is off drops fields": f"{POOLS}::test_a_field_whose_gate_is_off_is_noticed",
    "dra-driver-nvidia-gpu#330: slices are gone and nobody publishes them again": f"{FLEET}::test_what_others_change_is_repaired_and_nothing_else_is_touched",
    "dra-driver-cpu#5: more than 128 devices": f"{MODULES}test_resourceslice.py::test_bad_slices_are_one_message_and_nothing_is_written",
    "intel-resource-drivers#60: attribute in the driver's own domain": f"{HERE}::test_an_attribute_belongs_to_one_domain",
    "dra-driver-cpu#114: several roots as a list": f"{UNIT}_kubernetes/test_device_cel.py::test_expressions",
    "kubernetes-client/python#376, #577, #659: ValueError for empty fields": f"{HERE}::test_objects_are_plain",
    "kubernetes-client/python: unknown fields rejected": f"{HERE}::test_objects_are_plain",
    "kubernetes-client/python#1792, #2030: methods that a kind does not have": f"{UNIT}_kubernetes/test_client.py::test_kinds",
    "kubernetes.core#547, #548: check mode that applies": f"{FLEET}::test_a_fleet_from_nothing_to_nothing",
    "kubernetes.core#426: a diff that is wrong in check mode": f"{FLEET}::test_the_machine_changes",
    "community.kubernetes#71: changed is wrong for several objects": f"{MODULES}test_resourceslice.py::test_only_what_is_asked_for_goes",
    "ansible#42241: quantities in other words are always a change": f"{POOLS}::test_what_the_server_makes_of_our_slices_is_what_we_compare_with",
    "ansible#31650, community.kubernetes#270: seconds for each object": f"{FLEET}::test_a_fleet_from_nothing_to_nothing",
    "kubernetes#88816, #95460: writing the same again is a change": f"{MODULES}test_fake_gpu_node.py::test_a_second_run_reads_two_lists_and_writes_nothing",
    "NVSentinel#1705: controllers act on fake nodes by their providerID": f"{UNIT}_kubernetes/test_nodes.py::test_a_new_node_is_made_in_one_request",
    "PyYAML: addresses that are numbers": f"{MODULES}test_resourceslice.py::test_bad_slices_are_one_message_and_nothing_is_written",
}

# Report -> why nothing here could show it.
NOT_OURS = {
    "kubernetes#141912: the kubelet deletes slices of its node": "fake nodes have no kubelet; on nodes that have one, a driver has to publish",
    "kubernetes#134466: allocationMode All in pools of several nodes": "decided by the scheduler; we refuse pools of several nodes",
    "kubernetes#118209: pods with a node name run without an allocation": "KWOK does that; the checks of claims look at the allocation",
    "kubernetes#137903: limits are not documented": "nothing to run; the limits are tested where slices are checked",
    "kubernetes#141421: a regression of the allocator at 500 nodes": "speed of the scheduler; benchmarks/fleet.py measures ours",
    "kubernetes#140802, #139034: counters that are over-committed": "decided by the allocator; the checks of claims look for it",
    "KAI-Scheduler#2100: another scheduler's allocator": "we run the one of Kubernetes",
    "kwok#1464, #272, #1002: pods on KWOK": "stages of KWOK, which we use as they come",
    "kwok#1533: client QPS of KWOK": "a setting of the control plane, which its role makes",
    "kubernetes.core#1253, #1054: turbo mode": "a module of ours has no server process and no cache of discovery",
    "kubernetes.core#87, #421: server-side apply wanted": "slices are replaced as a whole, because a pool is right only as a whole",
    "kubernetes-client/python#2595: credentials of 36.0.0": "tested with the pinned release, by the tests of access",
}

GPU = {"attributes": {"gpu.example.com/type": {"string": "gpu"}}}


def test_attributes_of_a_foreign_domain_are_not_found():
    selector = compile_selector("device.attributes['gpu.nvidia.com'].type == 'gpu'")
    with pytest.raises(CelError, match="no such key: type"):
        selector.matches(GPU, "gpu.nvidia.com")
    guarded = compile_selector(
        "has(device.attributes['gpu.nvidia.com'].type) && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    )
    assert guarded.matches(GPU, "gpu.nvidia.com") is False


def test_an_attribute_belongs_to_one_domain():
    standard = compile_selector("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:40'")
    own = {"attributes": {"pcieRoot": {"string": "pci0000:40"}}}
    with pytest.raises(CelError, match="no such key: pcieRoot"):
        standard.matches(own, "gpu.example.com")
    assert standard.matches(
        {"attributes": {"resource.kubernetes.io/pcieRoot": {"string": "pci0000:40"}}}, "gpu.example.com"
    )


def test_objects_are_plain(cluster):
    """Nothing between JSON and us knows which fields a kind has, or which of them are required."""
    node = {
        "metadata": {"name": "n", "labels": None},
        "spec": {"fieldOfTomorrow": ["*"], "taints": None},
        "status": {"images": []},
    }
    kubernetes = cluster()
    kubernetes.create(NODE, node)
    found = next(kubernetes.list(NODE))
    assert (found["spec"], found["status"]) == (node["spec"], node["status"])


@pytest.mark.parametrize("report", sorted(TESTED))
def test_the_test_exists(report):
    path, name = TESTED[report].split("::")
    assert re.search(rf"^def {name}\(", (TESTS / path).read_text(encoding="utf-8"), re.M), TESTED[report]


def test_notes_say_something():
    assert all(len(note) > 20 for note in NOT_OURS.values())
    assert not set(TESTED) & set(NOT_OURS)
