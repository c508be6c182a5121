# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a slice is ours, and when what we noted on it is believed."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import (
    SET_LABEL,
    STATE_ANNOTATION,
    State,
    check_set,
    clean_metadata,
    digest,
    head_of,
)

STATE = State("d", "p", "s", "abc", 1, 4, "n")


def entry(manager, spec=True):
    return {"manager": manager, "fieldsV1": {"f:spec": {"f:devices": {}}} if spec else {"f:metadata": {}}}


def obj(generation=4, managers=("gpulab.fleet",), state=None, **metadata):
    return {
        "metadata": {
            "name": "s",
            "uid": "u",
            "resourceVersion": "7",
            "generation": generation,
            "labels": {SET_LABEL: "mine", "other": "x"},
            "annotations": {STATE_ANNOTATION: STATE.dump() if state is None else state},
            "managedFields": [entry(manager) for manager in managers],
            **metadata,
        }
    }


@pytest.mark.parametrize(
    ("slice_", "trusted"),
    [
        (obj(), True),
        (obj(generation=5), False),
        (obj(managers=("gpulab.fleet", "kubectl-edit")), False),
        (obj(managers=("kubectl-replace",)), False),
        (obj(managers=()), False),
        (obj(managedFields=[entry("gpulab.fleet"), entry("kube-controller-manager", spec=False)]), True),
        (obj(state="{"), False),
        (obj(state='{"driver": "d"}'), False),
        (obj(state="[]"), False),
        (obj(deletionTimestamp="2026-01-01T00:00:00Z"), False),
    ],
)
def test_trust(slice_, trusted):
    assert head_of(slice_).trusted("abc") is trusted
    assert head_of(slice_).trusted("other") is False


def test_a_head_tells_set_owner_and_labels():
    owner = {"kind": "Node", "name": "n1", "uid": "node-uid"}
    head = head_of(obj(ownerReferences=[{"kind": "ConfigMap", "name": "c", "uid": "c"}, owner]))
    assert (head.owned_by, head.node, head.node_uid, head.labels) == ("mine", "n1", "node-uid", {"other": "x"})
    assert head.state == STATE
    assert head_of({"metadata": {"name": "theirs"}}).owned_by is None


def test_what_is_given_to_another_cluster_has_nothing_of_this_one():
    clean = clean_metadata(obj(ownerReferences=[{}], creationTimestamp="x", generateName="s-")["metadata"])
    assert clean == {"name": "s", "generateName": "s-", "labels": {"other": "x"}}


@pytest.mark.parametrize("name", ["a", "A.b_c-d", "9" * 63])
def test_sets(name):
    assert check_set(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a/b", "9" * 64, "ä"])
def test_no_sets(name):
    with pytest.raises(FleetError, match="a set's name is the value of a label"):
        check_set(name)


def test_digests_know_order_in_lists_and_none_in_mappings():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest([1, 2]) != digest([2, 1])
