# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices from files, whole and damaged, and slices as YAML."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import (
    SliceError,
    check_slices,
    default_drivers,
    normalise,
    read_slices,
    render_node,
    to_yaml,
)

SLICES = render_node(
    load("aws-p4d"), node="node-1", node_uid="uid-1", drivers=default_drivers(load("aws-p4d")), kubernetes="1.34"
)
ONE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: one
  creationTimestamp: 2026-03-10T03:29:20Z
spec:
  driver: gpu.nvidia.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      resource.kubernetes.io/pciBusID: {string: 0000:10:00.0}
      numa: {int: 1}
      shared: {bool: true}
      on: {string: yes}
      release: {version: 1.2.3}
    capacity:
      memory: {value: 40Gi}
"""


def _list(kind: str, items: list[Any], version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"resourceVersion": ""}, "items": items}


@pytest.mark.parametrize(
    "text",
    [
        to_yaml(SLICES),
        yaml.safe_dump_all(SLICES),
        yaml.safe_dump(_list("List", SLICES)),
        yaml.safe_dump(_list("ResourceSliceList", SLICES, "resource.k8s.io/v1")),
        yaml.safe_dump(
            _list("ResourceSliceList", [{k: v for k, v in item.items() if k in ("metadata", "spec")} for item in SLICES], "resource.k8s.io/v1")
        ),
        json.dumps(_list("List", SLICES)),
        json.dumps(SLICES),
        "\n\n" + json.dumps(_list("List", [_list("List", SLICES)]), indent=1),
        "# a comment\n---\n---\n" + to_yaml(SLICES) + "---\n",
        yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}, *SLICES]),
    ],
    ids=["ours", "documents", "list", "typed", "typed-bare", "json", "json-array", "nested", "empty-documents", "other-kinds"],
)  # fmt: skip
def test_every_form_gives_the_slices(text: str) -> None:
    assert read_slices(text, "dump") == SLICES


def test_plain_words_of_yaml_mean_what_they_say() -> None:
    (item,) = read_slices(ONE, "one.yml")
    attributes = item["spec"]["devices"][0]["attributes"]
    assert attributes == {
        "resource.kubernetes.io/pciBusID": {"string": "0000:10:00.0"},
        "numa": {"int": 1},
        "shared": {"bool": True},
        "on": {"string": "yes"},
        "release": {"version": "1.2.3"},
    }
    assert item["metadata"]["creationTimestamp"] == "2026-03-10T03:29:20Z"
    check_slices([item])


def test_the_dumps_of_real_machines(real_data: Callable[..., Path]) -> None:
    for folder, names in (
        ("resourceslices", ["aicr-aws-p5-h100_resourceslices.yaml", "dranet-aws_eks_examples_gpu-efa_resourceslice-dranet.yaml"]),
        ("golden", ["v0.5.0-dev-h100-dynmig.yaml", "v0.5.0-dev-h100-full-k134-v1beta1.yaml", "v0.5.0-dev-h100-shares-4.yaml"]),
    ):  # fmt: skip
        for name in names:
            slices = read_slices(real_data(folder, name).read_text(encoding="utf-8"), name)
            check_slices(slices)
            assert normalise(slices)


def test_every_golden_slice_is_within_the_limits(real_data: Callable[..., Path]) -> None:
    """What a kube-apiserver has taken from a driver, our table of limits must not refuse."""
    paths = sorted(path for path in real_data("golden").glob("*.yaml") if not path.name.endswith(".input.yaml"))
    count = 0
    for path in paths:
        kubernetes = "1.34" if "-k134" in path.name else None
        text = path.read_text(encoding="utf-8")
        if "kind: ResourceSlice" not in text:
            continue
        # A driver that was refused half-way leaves a pool of which slices are missing.
        whole = "listattr" not in path.name or "gateon" in path.name
        check_slices(read_slices(text, path.name), kubernetes, pools=whole)
        count += 1
    assert count > 60


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["file.yml", "no ResourceSlice", "it holds no object"]),
        ("--- \n---\n", ["it holds no object"]),
        ("{}", ["document 1", "kind is missing"]),
        ("just text", ["document 1", "'just text' is no object"]),
        ("kind: Node\napiVersion: v1\n", ["there are only Node"]),
        (ONE.replace("v1\nkind", "v1alpha3\nkind"), ["document 1", "v1alpha3", "allowed: resource.k8s.io/v1beta1"]),
        (ONE.replace("resource.k8s.io/v1\n", "1\n"), ["apiVersion is missing"]),
        (ONE + "  driver: dra.net\n", ["line ", "'driver' appears twice"]),
        (ONE.replace("  driver: gpu.nvidia.com\n", ""), ["document 1.spec.driver is missing", "is the dump complete?"]),
        (ONE.replace("driver: gpu.nvidia.com", "driver: 5"), ["document 1.spec.driver: 5 is not text"]),
        (ONE[: ONE.index("spec:")], ["document 1.spec is missing"]),
        (ONE[: ONE.index("  pool")], ["document 1.spec.pool is missing"]),
        (ONE.replace("generation: 1", "generation: first"), ["spec.pool.generation: 'first' is not a whole number"]),
        (ONE.replace("name: gpu-0", "nam: gpu-0"), ["spec.devices[0].name is missing"]),
        (ONE.replace("{int: 1}", "1"), ["spec.devices[0].attributes[numa]: 1 is not a mapping"]),
        (ONE[: ONE.index(" {name: node-1") + 9], ["not YAML", "is it complete?"]),
        (ONE.replace("metadata:\n", "metadata:\n  ...\n"), ["not YAML"]),
        (ONE + "\x00", ["not YAML"]),
        ("a: &a [*a]\n", ["document 1"]),
        ("- " * 2000, ["file.yml"]),
        (json.dumps(SLICES)[:-5], ["not JSON", "is it complete?"]),
        ('{"kind": "List", "kind": "List"}', ["'kind' appears twice"]),
        ("[" * 100000, ["file.yml"]),
        (json.dumps(_list("List", [None])), ["items[0]: None is no object"]),
        ("a: !!python/object/apply:os.system [echo]\n", ["not YAML"]),
    ],
)  # fmt: skip
def test_damage_is_named(text: str, words: list[str]) -> None:
    with pytest.raises(SliceError) as caught:
        read_slices(text, "file.yml")
    assert [word for word in words if word not in caught.value.message] == [], caught.value.message


@pytest.mark.parametrize("seed", range(40))
def test_any_damage_ends_in_a_clear_error_or_in_slices(seed: int) -> None:
    """Cuts, swaps and foreign bytes at random: whatever comes out has been read, or refused in our words."""
    chance = random.Random(seed)
    for text in (ONE, json.dumps(SLICES[:2]), to_yaml(SLICES[1:2])):
        letters = list(text)
        for _time in range(chance.randint(1, 6)):
            place = chance.randrange(len(letters))
            if chance.random() < 0.4:
                del letters[place : place + chance.randint(1, 40)]
            else:
                letters[place : place + chance.randint(0, 3)] = chance.choice(
                    ["{", "}", ":", "\n", "- ", "é", "\t", "null", "[", '"', " 5", "&a", "*a"]
                )
        try:
            slices = read_slices("".join(letters), "damaged")
            normalise(slices)
            check_slices(slices)
        except FleetError as error:
            assert error.message


def test_yaml_that_is_written() -> None:
    text = to_yaml(SLICES)
    assert to_yaml(SLICES) == text
    assert "&" not in text
    assert "string: '0000:20:01.0'" in text
    assert list(yaml.safe_load_all(text)) == SLICES
    shared = {"name": "x"}
    assert to_yaml([{"a": shared, "b": shared}]) == "---\na:\n  name: x\nb:\n  name: x\n"
    assert to_yaml([]) == ""
