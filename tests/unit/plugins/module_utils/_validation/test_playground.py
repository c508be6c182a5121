# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scenario makes is removed, also that of a run which was killed, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.dress import RUN_LABEL
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.playground import (
    UNTIL_ANNOTATION,
    Playground,
    sweep,
    wait_gone,
)

CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "mine"}, "spec": {}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}


def names(server: Any, resource: str) -> list[str]:
    return [obj["metadata"]["name"] for obj in server.of(resource)]


def test_a_namespace_says_whose_it_is_and_until_when(server: Any, kubernetes: Any):
    Playground(kubernetes, "v1", "space", "run1").open(1234.9)
    (namespace,) = server.of("namespaces")
    assert namespace["metadata"]["labels"] == {RUN_LABEL: "run1"}
    assert namespace["metadata"]["annotations"] == {UNTIL_ANNOTATION: "1234"}


def test_clearing_takes_what_was_made_outside_of_the_namespace_as_well(server: Any, kubernetes: Any):
    server.add("deviceclasses.resource.k8s.io", {**CLASS, "metadata": {"name": "theirs"}})
    playground = Playground(kubernetes, "v1", "space", "run1")
    playground.open(0)
    playground.create(CLASS)
    playground.create(POD)
    assert names(server, "deviceclasses.resource.k8s.io") == ["mine", "theirs"] and names(server, "pods") == ["a"]
    assert playground.clear() == []
    assert names(server, "deviceclasses.resource.k8s.io") == ["theirs"] and not names(server, "namespaces")
    assert server.count("^DELETE /api/v1/namespaces/space/pods") == 1


def test_a_class_that_was_replaced_by_somebody_meanwhile_is_left(server: Any, kubernetes: Any):
    playground = Playground(kubernetes, "v1", "space", "run1")
    playground.create(CLASS)
    kubernetes.delete(playground._made[0][0], "mine")
    server.add("deviceclasses.resource.k8s.io", CLASS)
    assert playground.clear() == []
    assert names(server, "deviceclasses.resource.k8s.io") == ["mine"]


def test_what_cannot_be_deleted_is_told_and_the_rest_is_still_deleted(server: Any, kubernetes: Any):
    server.forbidden.add(("delete", "deviceclasses.resource.k8s.io"))
    playground = Playground(kubernetes, "v1", "space", "run1")
    playground.open(0)
    playground.create(CLASS)
    (problem,) = playground.clear()
    assert "deviceclasses" in problem and not names(server, "namespaces")


def test_a_deleted_object_is_gone_or_was_never_there(server: Any, kubernetes: Any):
    playground = Playground(kubernetes, "v1", "space", "run1")
    playground.create(POD)
    playground.delete("Pod", "a", Deadline(5))
    assert not names(server, "pods")
    with pytest.raises(FleetError, match="cannot delete Pod a: there is none"):
        playground.delete("Pod", "a", Deadline(5))


def namespace(server: Any, name: str, until: str, run: str = "old") -> None:
    metadata: dict[str, Any] = {"name": name, "annotations": {UNTIL_ANNOTATION: until}}
    if run:
        metadata["labels"] = {RUN_LABEL: run}
    server.add("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def test_only_namespaces_of_runs_whose_time_is_over_are_swept(server: Any, kubernetes: Any):
    namespace(server, "killed", "100")
    namespace(server, "running", "300")
    namespace(server, "strange", "soon")
    namespace(server, "foreign", "100", run="")
    assert sweep(kubernetes, now=lambda: 200.0) == ["killed"]
    assert names(server, "namespaces") == ["foreign", "running", "strange"]


def test_who_may_not_list_namespaces_sweeps_nothing(server: Any, kubernetes: Any):
    namespace(server, "killed", "100")
    server.forbidden.add(("list", "namespaces"))
    assert sweep(kubernetes, now=lambda: 200.0) == [] and names(server, "namespaces") == ["killed"]


def test_namespaces_that_do_not_go_are_named(server: Any, kubernetes: Any):
    namespace(server, "slow", "100", run="run1")
    namespace(server, "other", "100", run="run2")
    assert wait_gone(kubernetes, "run1", Deadline(0.1)) == ["slow"]
    assert wait_gone(kubernetes, "run3", Deadline(5)) == []
