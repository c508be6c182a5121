# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake nodes, and the smallest patch that brings one to its template."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.names import base_of, check_names, expand
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.nodes import (
    NodeTemplate,
    is_ready,
    new_node,
    see_node,
)

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
TEMPLATE = NodeTemplate(
    set_name="s",
    labels={"a": "1", "b": "2"},
    annotations={"x": "y"},
    taints=(TAINT,),
    capacity={"cpu": "8", "memory": "1024Mi"},
    node_info={"kubeletVersion": "v1.37.2"},
)


def stored(template=TEMPLATE, change=lambda node: None):
    node = copy.deepcopy(new_node(template, "n1"))
    node["metadata"].update(uid="u", resourceVersion="5")
    change(node)
    return node


def test_a_new_node_is_made_in_one_request():
    node = new_node(TEMPLATE, "n1")
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "n1", "a": "1", "b": "2", "gpulab.fleet/set": "s"}
    assert node["spec"] == {"providerID": "kwok://n1", "taints": [TAINT]}
    assert node["status"]["allocatable"] == node["status"]["capacity"] == TEMPLATE.capacity
    assert "kubernetes.io/hostname" not in new_node(TEMPLATE, "n" * 64)["metadata"]["labels"]


@pytest.mark.parametrize(
    "change",
    [
        lambda node: None,
        lambda node: node["status"]["capacity"].update(memory="1Gi", pods="110"),
        lambda node: node["metadata"]["labels"].update(theirs="x"),
        lambda node: node["spec"]["taints"].append({"key": "theirs", "effect": "NoExecute"}),
        lambda node: node["status"]["nodeInfo"].update(osImage="KWOK"),
    ],
)
def test_what_others_add_is_no_difference(change):
    seen = see_node(TEMPLATE, stored(change=change))
    assert (seen.patch, seen.status_patch, seen.differences) == (None, None, ())


def test_a_patch_holds_what_differs_and_takes_away_what_was_ours():
    former = NodeTemplate(
        "s",
        labels={"a": "1", "old": "1"},
        annotations={"gone": "1"},
        taints=(TAINT, {"key": "was", "effect": "NoExecute"}),
        capacity={"cpu": "4", "foo": "1"},
        node_info={"kubeletVersion": "v1.36.0"},
    )
    node = stored(former, lambda node: node["spec"]["taints"].append({"key": "theirs", "effect": "NoExecute"}))
    node["metadata"]["labels"]["theirs"] = "x"
    seen = see_node(TEMPLATE, node)
    assert seen.patch["metadata"]["labels"] == {"b": "2", "old": None}
    assert seen.patch["metadata"]["resourceVersion"] == "5"
    assert {name for name, value in seen.patch["metadata"]["annotations"].items() if value is None} == {"gone"}
    assert seen.patch["spec"]["taints"] == [{"key": "theirs", "effect": "NoExecute"}, TAINT]
    assert seen.status_patch["status"]["capacity"] == {"cpu": "8", "memory": "1024Mi", "foo": None}
    assert seen.status_patch["status"]["nodeInfo"]["kubeletVersion"] == "v1.37.2"
    assert "taints" in seen.differences


@pytest.mark.parametrize("text", ["{", "[]", '{"labels": 5}', '{"taints": [1]}'])
def test_a_damaged_memory_is_made_again(text):
    seen = see_node(
        TEMPLATE, stored(change=lambda node: node["metadata"]["annotations"].update({"gpulab.fleet/node": text}))
    )
    assert list(seen.patch["metadata"]["annotations"]) == ["gpulab.fleet/node"]


def test_nodes_of_others_are_not_compared():
    seen = see_node(TEMPLATE, {"metadata": {"name": "theirs", "labels": {"gpulab.fleet/set": "other"}}})
    assert (seen.set_name, seen.patch, seen.status_patch) == ("other", None, None)


def test_ready():
    assert is_ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert not is_ready({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
    assert not is_ready({})


@pytest.mark.parametrize(
    ("pattern", "count", "first", "names"),
    [
        ("n{n}", 3, 0, ("n0", "n1", "n2")),
        ("n{n:03}-x", 2, 99, ("n099-x", "n100-x")),
        ("n{n:3}", 1, 7, ("n007",)),
        ("one", 1, 0, ("one",)),
        ("one", 0, 0, ()),
        ("n{n}.example.com", 1, 0, ("n0.example.com",)),
    ],
)
def test_names(pattern, count, first, names):
    assert expand(pattern, count, first) == names


@pytest.mark.parametrize(
    ("pattern", "count", "words"),
    [
        ("one", 2, "would have one name"),
        ("n{i}", 1, "only placeholders"),
        ("n{n", 1, "only placeholders"),
        ("N{n}", 1, "lower-case"),
        ("-{n}", 1, "begins and ends"),
        ("", 1, "gives the node name ''"),
        ("a" * 250 + "{n:09}", 1, "at most 253"),
        ("n{n}", 100001, "from 0 to 100000"),
    ],
)
def test_bad_names(pattern, count, words):
    with pytest.raises(FleetError, match=words):
        expand(pattern, count, 0)


def test_a_name_twice_and_the_name_of_a_set():
    with pytest.raises(FleetError, match="'a' twice"):
        check_names(["a", "b", "a"], "nodes")
    assert [base_of(pattern) for pattern in ("p5-{n:03}", "{n}-gpu", "x{n}y", "{n}")] == ["p5", "gpu", "xy", ""]
