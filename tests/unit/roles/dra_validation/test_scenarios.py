# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenarios that ship with the role: each can be read, says what it expects, and its templates give objects that are bound to its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import FEATURES
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import kind_of
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.dress import RUN_LABEL, dress
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.expectations import (
    Expectations,
    parse_expectations,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.render import Renderer
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.scenario import (
    Scenario,
    Step,
    load_documents,
    load_scenario,
    parse_needs,
)
from ansible_collections.gpulab.fleet.plugins.modules.dra_scenario import CLASSES

ROLE = Path(__file__).resolve().parents[4] / "roles" / "dra_validation"
FILES = sorted((ROLE / "scenarios").iterdir())
# What the first release promises; a scenario that gets lost is noticed here.
PROMISED = {
    "all_gpus_of_a_node",
    "cel_architecture",
    "cel_error",
    "cel_memory",
    "cel_no_match",
    "cel_product",
    "claim_reused",
    "deployment_distinct_gpus",
    "extended_resource",
    "first_available",
    "gpu_exhausted",
    "gpu_nic_no_common_root",
    "gpu_nic_same_root",
    "mig_by_profile_same_parent",
    "node_name_forced",
    "one_pod_one_gpu",
    "rapid_create_delete",
    "two_containers_one_claim",
    "two_pods_one_shared_claim",
    "two_pods_two_gpus",
    "whole_node",
}
DEVICE = {
    "name": "gpu-0",
    "driver": "gpu.nvidia.com",
    "pool": "node-1",
    "attributes": {"productName": "NVIDIA H100", "architecture": "Hopper", "profile": "1g.10gb"},
    "capacity": {"memory": "80Gi"},
}


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return load_scenario(request.param.stem, str(request.param))


def variables(scenario: Scenario) -> dict[str, Any]:
    """What templates see once the scenario has its nodes; as many devices as it needs."""
    needs = parse_needs(Renderer().data(scenario.needs, {"classes": CLASSES}, "needs"), "needs")
    nodes = [f"node-{number}" for number in range(1, needs.nodes + 1)]
    return {
        "classes": CLASSES,
        "node": nodes[0],
        "nodes": nodes,
        "namespace": "space",
        "round": 0,
        "devices": {need.name: [DEVICE] * max(need.number, 2) for need in needs.devices},
    }


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        yield from flat(step.steps)


def expectations(scenario: Scenario) -> list[Expectations]:
    known = variables(scenario)
    return [
        parse_expectations(Renderer().data(step.argument, known, "expect"))
        for step in flat(scenario.steps)
        if step.action == "expect"
    ]


def objects(scenario: Scenario, version: str = "v1") -> list[dict[str, Any]]:
    known = variables(scenario)
    return [
        dress(obj, "run1", version, known["nodes"], [{"operator": "Exists"}], "pause", {})
        for name, text in scenario.manifests.items()
        for obj in load_documents(Renderer().text(text, known, name), name)
    ]


def test_all_that_are_promised_are_there():
    assert {path.stem for path in FILES} == PROMISED


def test_it_expects_something_of_claims_or_pods_with_their_number(scenario: Scenario):
    """Without a number, an expectation of a pattern holds before anything is made."""
    found = expectations(scenario)
    assert found
    for one in found:
        assert one.pods or one.claims
        assert all(entry.number is not None for entry in (*one.pods, *one.claims))


def test_the_last_step_looks(scenario: Scenario):
    assert scenario.steps[-1].action == "expect"


def test_it_needs_what_it_uses(scenario: Scenario):
    known = variables(scenario)
    needs = parse_needs(Renderer().data(scenario.needs, known, "needs"), "needs")
    assert needs.devices, "without a device there is nothing to allocate"
    assert set(needs.features) <= set(FEATURES)
    text = "\n".join(scenario.manifests.values())
    used = {word for word, name in CLASSES.items() if f"classes.{word} " in text}
    assert {CLASSES[word] for word in used} <= {need.device_class for need in needs.devices}


def test_its_manifests_are_all_used(scenario: Scenario):
    applied = {name for step in flat(scenario.steps) if step.action == "apply" for name in step.argument}
    assert applied == set(scenario.manifests)


def test_its_objects_are_known_labelled_and_bound_to_the_node(scenario: Scenario):
    for obj in objects(scenario):
        assert kind_of(obj) and obj["metadata"]["labels"][RUN_LABEL] == "run1"
        assert "namespace" not in obj["metadata"], "the namespace is the engine's"
        spec = obj["spec"] if obj["kind"] == "Pod" else obj["spec"].get("template", {}).get("spec")
        if spec is not None and "containers" in spec:
            bound = spec.get("nodeName") or spec["nodeSelector"]["kubernetes.io/hostname"]
            assert bound == "node-1" and spec["tolerations"] and spec["containers"][0]["image"] == "pause"


def test_its_claims_can_be_said_in_the_oldest_version(scenario: Scenario):
    for obj in objects(scenario, "v1beta1"):
        if obj["kind"] == "ResourceClaim":
            requests = obj["spec"]["devices"]["requests"]
        elif obj["kind"] == "ResourceClaimTemplate":
            requests = obj["spec"]["spec"]["devices"]["requests"]
        else:
            continue
        assert obj["apiVersion"] == "resource.k8s.io/v1beta1"
        assert all("exactly" not in request for request in requests)
        assert all("deviceClassName" in request or "firstAvailable" in request for request in requests)


def test_defaults_and_documentation_of_the_role_agree():
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    options = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    documented = {name: option["default"] for name, option in options.items() if "default" in option}
    assert documented == defaults
    tasks = (ROLE / "tasks" / "main.yml").read_text()
    assert [name for name in options if name not in tasks] == []
