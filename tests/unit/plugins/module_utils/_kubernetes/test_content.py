# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What two slices are compared by, what a server left out, and which fields a slice uses."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.content import (
    by_pool,
    content_digest,
    dropped_message,
    missing_fields,
    shape,
    without,
)

SLICE = {
    "spec": {
        "driver": "d.example.com",
        "pool": {"name": "p", "generation": 3, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [
            {"name": "b", "attributes": {"x": {"int": 1}}, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            {"name": "a", "capacity": {"memory": {"value": "1Gi"}}},
        ],
        "sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}],
    }
}


def changed(change):
    slice_ = copy.deepcopy(SLICE)
    change(slice_["spec"])
    return slice_


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda spec: spec["pool"].update(generation=9), True),
        (lambda spec: spec["devices"].reverse(), True),
        (lambda spec: spec["devices"][0]["taints"][0].update(timeAdded="2026-01-01T00:00:00Z"), True),
        (lambda spec: spec["pool"].update(resourceSliceCount=2), False),
        (lambda spec: spec["devices"][0]["attributes"]["x"].update(int=2), False),
        (lambda spec: spec["devices"][0]["taints"][0].update(value="v"), False),
        (lambda spec: spec["sharedCounters"][0]["counters"]["c"].update(value="2"), False),
        (lambda spec: spec.pop("nodeName"), False),
        (lambda spec: spec["devices"].pop(), False),
    ],
)
def test_what_makes_a_difference(change, same):
    assert (content_digest(changed(change)) == content_digest(SLICE)) is same


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (lambda spec: None, []),
        (lambda spec: spec["devices"].reverse(), []),
        (lambda spec: spec["devices"][0].pop("taints"), ["devices[].taints"]),
        (lambda spec: spec["devices"][0]["attributes"]["x"].pop("int"), ["devices[].attributes.x.int"]),
        (lambda spec: spec.pop("sharedCounters"), ["sharedCounters"]),
        (lambda spec: spec.update(more=1), []),
    ],
)
def test_what_a_server_left_out(change, missing):
    assert sorted(set(missing_fields(SLICE["spec"], changed(change)["spec"]))) == missing


def test_nothing_is_lost_with_what_is_empty():
    assert list(missing_fields({"a": "", "b": [], "c": None, "d": False, "e": 0}, {})) == ["e"]


def test_a_dropped_field_is_told_with_its_gate():
    message = dropped_message({"devices[].consumesCounters": "s1", "devices[].new": "s2"})
    assert "spec.devices[].consumesCounters (in s1; feature gate DRAPartitionableDevices)" in message
    assert "spec.devices[].new (in s2)" in message


def test_shapes_are_of_fields_and_not_of_names():
    other = changed(lambda spec: spec["devices"][0].update(name="z", attributes={"other": {"int": 7}}))
    assert shape(other["spec"]) == shape(SLICE["spec"])
    more = changed(lambda spec: spec["devices"][0]["attributes"].update(y={"ints": [1]}))
    assert shape(more["spec"]) > shape(SLICE["spec"])


def test_fields_are_taken_out():
    given = copy.deepcopy(SLICE)
    slice_ = without(given, {"devices[].taints": "", "sharedCounters": "", "devices[].nothing.here": ""})
    assert "taints" not in slice_["spec"]["devices"][0]
    assert "sharedCounters" not in slice_["spec"]
    assert slice_["spec"]["devices"][1] == SLICE["spec"]["devices"][1]
    # Digests are made of what was given, before or after.
    assert given == SLICE
    assert without(given, {}) is given


def test_slices_by_pool():
    assert list(by_pool([SLICE, SLICE])) == [("d.example.com", "p")]
