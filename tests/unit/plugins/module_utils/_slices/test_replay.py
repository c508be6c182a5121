# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captured slices on other nodes: names, UUIDs and addresses are theirs, all else is as it was captured."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import (
    KUBERNETES,
    DriverSettings,
    Recording,
    SliceError,
    check_slices,
    convert,
    default_drivers,
    normalise,
    read_slices,
    render_node,
    replay,
)

GPU = "gpu.nvidia.com"


def _captured(name: str = "aws-p4d", release: str | None = None) -> list[dict[str, Any]]:
    """Slices as a cluster returns them."""
    machine = load(name)
    drivers = [
        DriverSettings(settings.driver, release if settings.driver != "dra.net" else None, settings.mode)
        for settings in default_drivers(machine)
    ]
    slices = render_node(machine, node="ip-10-0-1-2.ec2.internal", node_uid="uid-1", drivers=drivers, generation=7)
    for number, item in enumerate(slices):
        item["metadata"].update(
            uid=f"uid-{number}",
            resourceVersion=str(number),
            creationTimestamp="2026-03-10T03:29:22Z",
            generation=2,
            managedFields=[{"manager": "gpu-kubelet-plugin"}],
            annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"},
        )
        item["spec"]["devices"][0]["taints"] = [
            {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule", "timeAdded": "2026-03-10T03:29:22Z"}
        ]
    return slices


def test_normalise_takes_out_what_the_cluster_gave() -> None:
    captured = _captured()
    before = copy.deepcopy(captured)
    clean = normalise(captured)
    assert captured == before
    for item in clean:
        assert set(item["metadata"]) == {"annotations", "generateName", "name"}
        assert item["metadata"]["annotations"] == {"team": "a"}
        assert item["spec"]["pool"]["generation"] == 1
        assert item["spec"]["devices"][0]["taints"] == [
            {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
        ]
    assert normalise(clean) == clean
    assert normalise(list(reversed(captured))) == clean


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_normalise_is_the_same_from_every_version(version: str) -> None:
    captured = [convert(item, f"resource.k8s.io/{version}") for item in _captured()]
    assert normalise(captured) == normalise(_captured())


def test_normalise_makes_quantities_canonical_and_drops_old_generations() -> None:
    captured = _captured("lab-h100")
    stale = copy.deepcopy(captured[0])
    stale["metadata"]["name"] = "stale"
    stale["spec"]["pool"]["generation"] = 6
    captured[0]["spec"]["devices"][0]["capacity"]["memory"]["value"] = "81920Mi"
    clean = normalise([stale, *captured])
    assert len(clean) == 2
    gpus = next(item for item in clean if item["spec"]["driver"] == GPU)
    assert gpus["spec"]["devices"][0]["capacity"]["memory"]["value"] == "80Gi"


@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_on_another_node(kubernetes: str) -> None:
    captured = _captured()
    for item in captured:
        del item["spec"]["devices"][0]["taints"]
    slices = replay(captured, node="fake-7", node_uid="uid-7", kubernetes=kubernetes)
    check_slices(slices, kubernetes)
    text = json.dumps(slices)
    assert "ip-10-0-1-2" not in text
    for item in slices:
        owner = {"apiVersion": "v1", "controller": True, "kind": "Node", "name": "fake-7", "uid": "uid-7"}
        assert item["metadata"]["ownerReferences"] == [owner]
        assert item["metadata"]["annotations"] == {"team": "a"}
        assert item["spec"]["nodeName"] == item["spec"]["pool"]["name"] == "fake-7"
        assert item["spec"]["pool"]["generation"] == 1
    assert json.dumps(replay(captured, node="fake-7", node_uid="uid-7", kubernetes=kubernetes)) == text


def test_only_identities_differ() -> None:
    captured = normalise(_captured())
    recording = Recording(captured)
    assert recording.node == "ip-10-0-1-2.ec2.internal"
    one, two = (recording.on(node, None) for node in ("fake-1", "fake-2"))
    identity = re.compile(
        r"GPU-[0-9a-f-]{36}|([0-9a-f]{2}:){5}[0-9a-f]{2}|198\.1[89]\.\d+\.\d+/15|(fake-\d|ip-10-0-1-2.ec2.internal)-?[a-z0-9]*"
    )
    masked = {identity.sub("x", json.dumps([item["spec"] for item in slices])) for slices in (captured, one, two)}
    assert len(masked) == 1
    for pattern, count in ((r"GPU-[0-9a-f-]{36}", 8), (r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", 3), (r"198\.[\d.]+/15", 3)):
        seen = [set(re.findall(pattern, json.dumps(slices))) for slices in (captured, one, two)]
        assert [len(values) for values in seen] == [count] * 3
        assert len(set.union(*seen)) == 3 * count


def test_what_named_its_parent_names_it_still() -> None:
    layout = {"mig": {"*": ["3g.40gb", "1g.10gb"]}}
    machine = load("lab-h100-pair")
    settings = [DriverSettings(GPU, "25.3", "static-mig", layout)]
    captured = render_node(machine, node="real", node_uid="u", drivers=settings)
    (item,) = replay(captured, node="fake", node_uid=None)
    devices = {device["name"]: device["attributes"] for device in item["spec"]["devices"]}
    assert devices["gpu-0-mig-9-0-4"]["parentUUID"] == devices["gpu-0"]["uuid"]
    assert devices["gpu-1-mig-9-0-4"]["parentUUID"] == devices["gpu-1"]["uuid"]
    assert devices["gpu-0-mig-9-0-4"]["uuid"]["string"].startswith("MIG-")
    assert len({attributes["uuid"]["string"] for attributes in devices.values()}) == 6


@pytest.mark.parametrize(
    ("release", "prefix"), [("25.12", "fake-gpu.nvidia.com-"), ("0.5", "00000-gpu.nvidia.com-fake-")]
)
def test_names_keep_the_form_of_their_helper(release: str, prefix: str) -> None:
    slices = replay(_captured("lab-h100", release), node="fake", node_uid=None)
    gpus = next(item for item in slices if item["spec"]["driver"] == GPU)
    assert gpus["metadata"]["generateName"] == prefix
    # A node whose own name looks like a place in a pool is none.
    captured = render_node(load("lab-h100"), node="00000-a", node_uid=None, drivers=[DriverSettings(GPU, "25.12")])
    assert replay(captured, node="fake", node_uid=None)[0]["metadata"]["generateName"] == "fake-gpu.nvidia.com-"


def test_devices_named_by_their_uuid_and_pools_of_other_names() -> None:
    uuid = "gpu-81d79b08-1111-2222-3333-0123456789ab"
    attributes = {"uuid": {"string": uuid.replace("gpu", "GPU")}, "mac": {"string": "0e:96:fe:e8:a3:f5"}}

    def item(pool: str) -> dict[str, Any]:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"kwok-{pool}"},
            "spec": {
                "driver": GPU,
                "nodeName": "real",
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": uuid, "attributes": attributes}],
            },
        }

    slices = replay([item("rack"), item("real-b"), item("real")], node="fake", node_uid=None)
    check_slices(slices)
    assert [made["spec"]["pool"]["name"] for made in slices] == ["fake/rack", "fake", "fake-b"]
    assert len({made["metadata"]["name"] for made in slices}) == 3
    device = slices[0]["spec"]["devices"][0]
    assert device["name"] == device["attributes"]["uuid"]["string"].lower() != uuid
    assert re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", device["attributes"]["mac"]["string"])


@pytest.mark.parametrize(
    ("address", "kept"),
    [("192.168.155.224/19", r"192\.168\.(1[2-5][0-9])\.\d+/19"), ("10.0.0.1/32", r"10\.0\.0\.1/32"), ("10.0.0.1/31", r"10\.0\.0\.1/31"),
     ("10.0.0.1/24,10.0.1.1/24", r"10\.0\.0\.\d+/24,10\.0\.1\.\d+/24"), ("999.0.0.1/24", r"999\.0\.0\.1/24"), ("", "")],
)  # fmt: skip
def test_addresses_stay_in_their_network(address: str, kept: str) -> None:
    captured = _captured("lab-h100")
    captured[0]["spec"]["devices"][0]["attributes"]["dra.net/ipv4"] = {"string": address}
    slices = replay(captured, node="fake", node_uid=None)
    gpus = next(item for item in slices if item["spec"]["driver"] == GPU)
    assert re.fullmatch(kept, gpus["spec"]["devices"][0]["attributes"]["dra.net/ipv4"]["string"])


def test_nothing_is_shared() -> None:
    recording = Recording(_captured())
    first = recording.on("fake", None)
    kept = copy.deepcopy(first)
    other = recording.on("fake", None)
    for item in other:
        item["metadata"]["annotations"].clear()
        for device in item["spec"]["devices"]:
            device["attributes"].clear()
    assert first == kept == recording.on("fake", None)


def test_many_slices_of_a_real_driver(real_data: Callable[..., Path]) -> None:
    name = "v0.5.0-dev-h100-dynmig.yaml"
    captured = read_slices(real_data("golden", name).read_text(encoding="utf-8"), name)
    slices = replay(captured, node="fake", node_uid="u")
    check_slices(slices)
    assert len(slices) == len(captured) == 9
    # The counters come first, and devices consume those of the set that belongs to them.
    assert slices[0]["spec"]["sharedCounters"]
    assert [item["metadata"]["name"][:5] for item in slices] == [f"{place:05x}" for place in range(9)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda slices: slices[1]["spec"].update(nodeName="other"), ["of 2 nodes", "ip-10-0-1-2.ec2.internal, other"]),
        (lambda slices: [item["spec"].pop("nodeName") for item in slices], ["belong to no node", "spec.nodeName"]),
        (lambda slices: slices[0]["spec"]["pool"].update(resourceSliceCount=2), ["says it has 2 slices", "1 are here"]),
        (lambda slices: slices.clear(), ["belong to no node"]),
        (lambda slices: slices[0].update(spec=None), ["spec is missing"]),
        (lambda slices: slices[0].update(apiVersion="v1"), ["'v1' is no version of ResourceSlices"]),
    ],
)
def test_what_cannot_be_replayed(change: Callable[[Any], Any], words: list[str]) -> None:
    captured = _captured()
    change(captured)
    with pytest.raises(SliceError) as caught:
        replay(captured, node="fake", node_uid=None)
    assert [word for word in words if word not in caught.value.message] == [], caught.value.message
