# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenario files: what is read, and that everything that is wrong with one is told by its place before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.scenario import (
    Alignment,
    DeviceNeed,
    find_scenarios,
    load_documents,
    load_scenario,
    parse_needs,
    parse_scenario,
)

GOOD = """
description: It works.
needs: {devices: [{name: gpu, class: c}]}
manifests: {all: 'kind: Pod'}
steps:
  - apply: all
  - repeat: 3
    steps:
      - delete: [{kind: Pod, name: a}]
        within_s: 5
  - expect: {}
    label: end
"""


def test_a_scenario_is_read():
    found = parse_scenario("it_works", GOOD, "it_works.yml")
    assert (found.name, found.description) == ("it_works", "It works.")
    apply, repeat, expect = found.steps
    assert apply.argument == ["all"] and repeat.argument == 3 and expect.label == "end"
    assert repeat.steps[0].action == "delete" and repeat.steps[0].within_s == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1", "is no YAML"),
        ("", "give a dictionary with description"),
        ("steps: [{expect: {}}]", "has no description"),
        ("description: x", "has to be a list of steps"),
        ("description: x\nsteps: []", "has to be a list of steps"),
        ("description: x\nstep: []", "'step'; known are description"),
        ("description: x\nneeds: {gpus: 1}\nsteps: [{expect: {}}]", "needs has 'gpus'; known are kubernetes"),
        ("description: x\nmanifests: {a: {kind: Pod}}\nsteps: [{expect: {}}]", "dictionary of texts"),
        ("description: x\nsteps: [{apply: [a]}]", "steps[0]: has no manifest 'a'"),
        ("description: x\nsteps: [{apply: [], expect: {}}]", "exactly one of apply, delete, expect, repeat"),
        ("description: x\nsteps: [{wait: 5}]", "exactly one of"),
        ("description: x\nsteps: [{expect: {}, timeout: 5}]", "'timeout'; known are expect, within_s, label"),
        ("description: x\nsteps: [{delete: [{kind: Pod}]}]", "dictionaries with kind and name"),
        ("description: x\nsteps: [{repeat: true, steps: [{expect: {}}]}]", "repeat takes a number"),
        ("description: x\nsteps: [{repeat: 2}]", "steps[0].steps has to be a list"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(text: str, told: str):
    with pytest.raises(FleetError) as error:
        parse_scenario("bad", text, "bad.yml")
    assert error.value.message.startswith("bad.yml") and told in error.value.message


@pytest.mark.parametrize("name", ["Upper", "with-dash", "a" * 41, "_a", "a_", "ä"])
def test_a_name_has_to_fit_into_that_of_a_namespace(name: str):
    with pytest.raises(FleetError, match="small letters, digits and underscores"):
        parse_scenario(name, GOOD, "x.yml")


def test_needs():
    needs = parse_needs(
        {
            "kubernetes": 1.34,
            "nodes": 2,
            "devices": [{"name": "gpu", "class": "c", "select": "true", "count": "3"}, {"name": "nic", "class": "d"}],
            "aligned": {"attribute": "a/b", "devices": ["gpu", "nic"]},
        },
        "needs",
    )
    assert needs.kubernetes == "1.34" and needs.nodes == 2
    assert needs.devices == (DeviceNeed("gpu", "c", "true", 3), DeviceNeed("nic", "d", "", 1))
    assert needs.aligned == Alignment("a/b", ("gpu", "nic")) and needs.unaligned is None


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"nodes": -1}, "needs.nodes is -1"),
        ({"nodes": True}, "needs.nodes is True"),
        ({"devices": [{"name": "gpu"}]}, "devices[0] needs a name and a class"),
        ({"devices": [{"name": "gpu", "class": "c", "number": 2}]}, "'number'; known are name, class, select, count"),
        ({"devices": [{"name": "gpu", "class": "c", "count": "many"}]}, "count is 'many'"),
        ({"aligned": {"attribute": "a", "devices": ["nic"]}}, "needs.aligned needs an attribute"),
    ],
)
def test_wrong_needs(raw: dict[str, object], told: str):
    with pytest.raises(FleetError) as error:
        parse_needs(raw, "needs")
    assert told in error.value.message


def test_a_later_folder_replaces_a_scenario_of_the_same_name(tmp_path: Path):
    for folder, names in (("ours", ("a", "b")), ("mine", ("b", "c"))):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"{name}.yml").write_text(GOOD)
    (tmp_path / "mine" / "README.md").write_text("no scenario")
    found = find_scenarios([str(tmp_path / "ours"), str(tmp_path / "mine")])
    assert found == {
        "a": str(tmp_path / "ours" / "a.yml"),
        "b": str(tmp_path / "mine" / "b.yml"),
        "c": str(tmp_path / "mine" / "c.yml"),
    }
    assert set(find_scenarios([str(tmp_path / "mine" / "c.yml")])) == {"c"}


def test_places_without_scenarios_are_errors(tmp_path: Path):
    with pytest.raises(FleetError, match="has no scenario"):
        find_scenarios([str(tmp_path)])
    with pytest.raises(FleetError, match="there is no scenario at"):
        find_scenarios([str(tmp_path / "missing")])
    (tmp_path / "latin.yml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(FleetError, match="cannot be read"):
        load_scenario("latin", str(tmp_path / "latin.yml"))


def test_documents_have_to_be_objects():
    text = "---\nkind: Pod\nmetadata: {name: a}\n---\n---\nkind: Pod\nmetadata: {name: b}\n"
    assert [one["metadata"]["name"] for one in load_documents(text, "m")] == ["a", "b"]
    with pytest.raises(FleetError, match="m has a document that is no Kubernetes object: just a text"):
        load_documents("just a text", "m")
