# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What render_node makes: the same bytes for the same input, nothing shared, each version's form, and clear refusals."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load, machine_names
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import (
    KUBERNETES,
    MODES,
    RELEASES,
    DriverSettings,
    SliceError,
    api_version_for,
    check_slices,
    default_drivers,
    render_node,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.naming import generate_name, slice_name
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import LATER

GPU, COMPUTE_DOMAIN, DRANET = "gpu.nvidia.com", "compute-domain.nvidia.com", "dra.net"


def _render(description: object, *drivers: DriverSettings, node: str = "node-1", **more: Any) -> list[dict[str, Any]]:
    machine = load(description)
    return render_node(machine, node=node, node_uid="uid-1", drivers=drivers or default_drivers(machine), **more)


def _names(item: dict[str, Any]) -> list[str]:
    return [device["name"] for device in item["spec"]["devices"]]


@pytest.mark.parametrize("name", machine_names())
@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_every_machine_on_every_kubernetes(name: str, kubernetes: str) -> None:
    slices = _render(name, kubernetes=kubernetes)
    check_slices(slices, kubernetes)
    assert {item["apiVersion"] for item in slices} == {api_version_for(kubernetes)}
    assert ("basic" in slices[0]["spec"]["devices"][0]) == (kubernetes == "1.32")
    assert [item["spec"]["driver"] for item in slices] == [settings.driver for settings in default_drivers(load(name))]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["aws-p5", "aws-p4d", "aws-g4dn", "dgx-h100"])
def test_every_release_is_valid_everywhere(release: str, name: str) -> None:
    for kubernetes in KUBERNETES:
        check_slices(
            _render(name, DriverSettings(GPU, release), DriverSettings(COMPUTE_DOMAIN, release), kubernetes=kubernetes),
            kubernetes,
        )


def test_same_input_same_bytes() -> None:
    first = json.dumps(_render("aws-p5"))
    assert json.dumps(_render("aws-p5")) == first
    assert json.dumps(_render("aws-p5", node="node-2")) != first
    machine = load("aws-p5")
    drivers = default_drivers(machine)
    again = [render_node(machine, node="node-1", node_uid="uid-1", drivers=drivers) for _time in range(3)]
    assert {json.dumps(slices) for slices in again} == {first}


def test_bytes_that_are_part_of_the_interface() -> None:
    """Who stored slices of an earlier version of the collection finds them unchanged."""
    (gpus, _domain) = _render("lab-h100")
    assert gpus["metadata"]["name"] == "00000-gpu.nvidia.com-node-1-rk5tb"
    assert gpus["spec"]["devices"][0]["attributes"]["uuid"] == {"string": "GPU-6bd62d34-2456-4d42-04bc-8bf8f7284260"}


def test_nothing_is_shared() -> None:
    machine = load("aws-p5")
    drivers = default_drivers(machine)
    first = render_node(machine, node="node-1", node_uid="u", drivers=drivers)
    kept = copy.deepcopy(first)
    other = render_node(machine, node="node-1", node_uid="u", drivers=drivers)

    def spoil(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                spoil(item)
            value.clear()
        elif isinstance(value, list):
            for item in value:
                spoil(item)
            value.clear()

    spoil(other)
    assert first == kept
    assert render_node(machine, node="node-1", node_uid="u", drivers=drivers) == kept


def test_nodes_differ_in_names_and_identities_only() -> None:
    one, two = (json.dumps(_render("aws-p4d", node=node)) for node in ("node-1", "node-2"))
    unlike = re.compile(
        r"GPU-[0-9a-f-]{36}|([0-9a-f]{2}:){5}[0-9a-f]{2}|198\.1[89]\.\d+\.\d+/15|node-\d-?[a-z0-9]{0,5}"
    )
    identities = set(re.findall(r"GPU-[0-9a-f-]{36}", one)), set(re.findall(r"GPU-[0-9a-f-]{36}", two))
    assert len(identities[0]) == len(identities[1]) == 8
    assert not identities[0] & identities[1]
    assert unlike.sub("x", one) == unlike.sub("x", two)


def test_identities_of_the_description_hold_on_every_node() -> None:
    described = {"from": "lab-h100", "roots": {"pci0000:40": {"devices": {"gpu0": {"identity": {"uuid": "GPU-mine"}}}}}}
    for node in ("node-1", "node-2"):
        assert _render(described, node=node)[0]["spec"]["devices"][0]["attributes"]["uuid"] == {"string": "GPU-mine"}


def test_metadata_and_pool() -> None:
    (item, _domain) = _render("lab-h100", generation=3)
    owner = {"apiVersion": "v1", "controller": True, "kind": "Node", "name": "node-1", "uid": "uid-1"}
    assert item["metadata"]["ownerReferences"] == [owner]
    assert item["spec"]["pool"] == {"generation": 3, "name": "node-1", "resourceSliceCount": 1}
    assert item["spec"]["nodeName"] == "node-1"
    machine = load("lab-h100")
    for orphan in render_node(machine, node="node-1", node_uid=None, drivers=default_drivers(machine)):
        assert "ownerReferences" not in orphan["metadata"]


@pytest.mark.parametrize(
    ("release", "prefix"),
    [("25.3", "node-1-gpu.nvidia.com-"), ("25.12", "node-1-gpu.nvidia.com-"), ("0.4", "00000-gpu.nvidia.com-node-1-"), (None, "00000-gpu.nvidia.com-node-1-")],
)  # fmt: skip
def test_names(release: str | None, prefix: str) -> None:
    (item,) = _render("lab-h100", DriverSettings(GPU, release))
    assert item["metadata"]["generateName"] == prefix
    assert re.fullmatch(re.escape(prefix) + "[bcdfghjklmnpqrstvwxz2456789]{5}", item["metadata"]["name"])


def test_names_that_are_cut_stay_apart() -> None:
    nodes = [f"a-cluster-with-a-long-name.and-a-long-domain.example.internal-{number}" for number in range(5000)]
    names = [slice_name(generate_name(GPU, node, 0, True), "0") for node in nodes]
    assert len(set(names)) == len(nodes)
    assert max(map(len, names)) == 63
    # Places in a pool that the helper does not number are told apart as well.
    assert slice_name("node-gpu.nvidia.com-", "0") != slice_name("node-gpu.nvidia.com-", "1")


def test_a_driver_without_devices_has_no_slice() -> None:
    assert _render("lab-h100", DriverSettings(DRANET)) == []
    assert [settings.driver for settings in default_drivers(load("lab-h100"))] == [GPU, COMPUTE_DOMAIN]


def test_gpus_of_others_are_none_of_nvidia_s() -> None:
    described = {"from": "lab-h100-pair", "roots": {"pci0000:40": {"devices": {"gpu0": {"board": "amd-mi210"}}}}}
    (item,) = _render(described, DriverSettings(GPU))
    # The minor counts NVIDIA's; the identity belongs to the place among all GPUs.
    (device,) = item["spec"]["devices"]
    assert device["name"] == "gpu-0"
    assert device["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": "0000:81:00.0"}
    assert (
        default_drivers(
            load({"from": "lab-h100", "roots": {"pci0000:40": {"devices": {"gpu0": {"board": "amd-mi210"}}}}})
        )
        == ()
    )


def test_a_machine_without_told_driver_has_the_default() -> None:
    attributes = _render("lab-h100")[0]["spec"]["devices"][0]["attributes"]
    assert attributes["driverVersion"] == {"version": "580.105.8"}
    assert attributes["addressingMode"] == {"string": "HMM"}
    quiet = {"from": "lab-h100", "nvidia_driver": {"version": "550.54.15", "cuda_version": "12.4"}}
    attributes = _render(quiet)[0]["spec"]["devices"][0]["attributes"]
    assert attributes["driverVersion"] == {"version": "550.54.15"}
    assert "addressingMode" not in attributes


# MIG ---------------------------------------------------------------------------------------------------------------------


def _mig(layout: object, release: str | None = None, machine: str = "lab-h100-pair") -> list[str]:
    (item,) = _render(machine, DriverSettings(GPU, release, "static-mig", {"mig": layout}))
    return _names(item)


def test_mig_layouts_by_option() -> None:
    assert _mig({"gpu0": ["3g.40gb", "1g.10gb+me"]}) == ["gpu-0-mig-3g40gb-9-0", "gpu-0-mig-1g10gb-me-20-4", "gpu-1"]
    assert _mig({"*": ["7g.80gb"]}) == ["gpu-0-mig-7g80gb-0-0", "gpu-1-mig-7g80gb-0-0"]
    assert _mig({"*": ["7g.80gb"], "gpu1": None}) == ["gpu-0-mig-7g80gb-0-0", "gpu-1"]
    # MIG mode on without instances: nothing is left to be announced, but 25.3 announces the whole GPU even then.
    assert _mig({"gpu0": []}) == ["gpu-1"]
    assert _mig({"gpu0": []}, "25.3") == ["gpu-0", "gpu-1"]
    assert _mig({"gpu0": ["3g.40gb"]}, "25.8") == ["gpu-0-mig-9-0-4", "gpu-1"]
    assert _mig({"gpu0": ["3g.40gb"]}, "25.3") == ["gpu-0", "gpu-0-mig-9-0-4", "gpu-1"]


def test_a_machine_with_a_layout_is_static_mig_by_default() -> None:
    described = {"from": "lab-h100", "roots": {"pci0000:40": {"devices": {"gpu0": {"mig": ["1g.10gb"] * 7}}}}}
    assert default_drivers(load(described))[0].mode == "static-mig"
    (item, _domain) = _render(described)
    assert _names(item) == [f"gpu-0-mig-1g10gb-19-{start}" for start in range(7)]
    uuids = {device["attributes"]["uuid"]["string"] for device in item["spec"]["devices"]}
    assert len(uuids) == 7
    assert all(re.fullmatch(r"MIG-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in uuids)
    (whole,) = _render(described, DriverSettings(GPU))
    assert _names(whole) == ["gpu-0"]
    parent = {device["attributes"]["parentUUID"]["string"] for device in item["spec"]["devices"]}
    assert parent == {whole["spec"]["devices"][0]["attributes"]["uuid"]["string"]}


# Refusals ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([DriverSettings("gpu.example.com")], ["gpu.example.com", "allowed: gpu.nvidia.com"]),
        ([DriverSettings(GPU, "24.1")], ["24.1", "allowed: 25.3, 25.8, 25.12, 0.4, 0.5"]),
        ([DriverSettings(DRANET, "0.5")], ["0.5", "dra.net", "allowed: 1.2"]),
        ([DriverSettings(GPU, mode="mig")], ["'mig' is not a mode", "allowed: full, static-mig"]),
        ([DriverSettings(COMPUTE_DOMAIN, mode="static-mig")], ["static-mig", "allowed: full"]),
        ([DriverSettings(GPU), DriverSettings(GPU, "0.4")], ["gpu.nvidia.com is there twice"]),
        ([DriverSettings(GPU, options={"mig": {}})], ["options.mig does not go with mode full"]),
        ([DriverSettings(GPU, mode="static-mig", options={"migs": {}})], ["'migs' is no option", "allowed: mig"]),
        ([DriverSettings(GPU, mode="static-mig", options={"mig": ["1g.10gb"]})], ["is not a mapping"]),
        ([DriverSettings(GPU, mode="static-mig", options={"mig": {"gpu9": []}})], ["no GPU 'gpu9'", "gpu0"]),
        ([DriverSettings(GPU, mode="static-mig", options={"mig": {"gpu0": ["9g.10gb"]}})], ["gpu0.mig[0]", "'9g.10gb'"]),
        ([DriverSettings(GPU, mode="static-mig", options={"mig": {"gpu0": ["1c.3g.40gb"]}})], ["gpu0.mig[0]", "'1c.3g.40gb'"]),
        ([DriverSettings(GPU, mode="static-mig", options={"mig": {"gpu0": "1g.10gb"}})], ["options.mig.gpu0", "is not a list"]),
        *(([DriverSettings(GPU, mode=mode)], [f"mode: {mode}", "not made yet", "allowed: full, static-mig"]) for mode in LATER),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(settings: list[DriverSettings], words: list[str]) -> None:
    with pytest.raises(FleetError) as caught:
        _render("lab-h100", *settings)
    assert [word for word in words if word not in caught.value.message] == [], caught.value.message


def test_facts_that_are_unknown_are_asked_for() -> None:
    described = {"from": "lab-h100", "roots": {"pci0000:40": {"devices": {"gpu0": {"board": "nvidia-a30"}}}}}
    with pytest.raises(SliceError, match=r"boards\.nvidia-a30\.gpu\.memory_mib is missing.*machine description"):
        _render(described)
    boards = {"my-a30": {"from": "nvidia-a30", "gpu": {"memory_mib": 24576}}}
    described = {
        "from": "lab-h100",
        "boards": boards,
        "roots": {"pci0000:40": {"devices": {"gpu0": {"board": "my-a30"}}}},
    }
    assert _render(described)[0]["spec"]["devices"][0]["capacity"] == {"memory": {"value": "24Gi"}}


@pytest.mark.parametrize(
    ("version", "problem"),
    [("1.31", "too old"), ("latest", "not a version"), (1.34, "in quotes"), ("", "not a version")],
)
def test_versions_of_kubernetes_that_are_not(version: Any, problem: str) -> None:
    with pytest.raises(SliceError, match=problem):
        _render("lab-h100", kubernetes=version)


def test_versions_of_kubernetes() -> None:
    versions = {
        version: api_version_for(version).split("/")[1]
        for version in ("1.32", "v1.33.4", "1.34", "v1.36.0-gke.1", "1.40")
    }
    assert versions == {"1.32": "v1beta1", "v1.33.4": "v1beta2", "1.34": "v1", "v1.36.0-gke.1": "v1", "1.40": "v1"}


def test_releases_are_found_by_their_full_names() -> None:
    for name in ("25.12", "25.12.0", "v25.12.0", "v0.4.1", "v0.5.0-dev"):
        assert _render("lab-h100", DriverSettings(GPU, name))
    assert set(MODES) == {GPU, COMPUTE_DOMAIN, DRANET}


# Network adapters --------------------------------------------------------------------------------------------------------


def _attributes(device: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("dra.net/", ""): next(iter(value.values())) for key, value in device["attributes"].items()}


def test_names_of_rdma_devices() -> None:
    (item,) = _render("dgx-h100", DriverSettings(DRANET))
    assert [_attributes(device)["rdmaDevice"] for device in item["spec"]["devices"]] == [f"mlx5_{n}" for n in range(8)]
    (item,) = _render("oci-gb200", DriverSettings(DRANET))
    assert _names(item)[:3] == ["pci-0000-03-00-0", "pci-0000-03-00-1", "pci-0002-03-00-0"]
    own = {"roots": {"pci0000:15": {"devices": {"nic0": {"network": {"rdma_device": "ib7"}}}}}}
    (item,) = _render({"from": "dgx-h100", **own}, DriverSettings(DRANET))
    assert [_attributes(device)["rdmaDevice"] for device in item["spec"]["devices"]][:2] == ["ib7", "mlx5_1"]


def test_an_uplink_is_not_published_and_an_interface_is() -> None:
    nics = {
        "nic0": {"address": "0000:42:00.0", "board": "amazon-ena", "network": {"interface": "ens5", "uplink": True}},
        "nic1": {"address": "0000:43:00.0", "board": "amazon-ena", "network": {"interface": "ens6"}},
        "nic2": {"address": "0000:44:00.0", "board": "nvidia-connectx-7", "network": {"interface": "ibp68s0", "mtu": 4092}},
        "nic3": {"address": "0000:45:00.0", "board": "amazon-ena", "network": {"interface": "ens7"}, "identity": {"ipv4": ""}},
    }  # fmt: skip
    (item,) = _render({"from": "lab-h100", "roots": {"pci0000:40": {"devices": nics}}}, DriverSettings(DRANET))
    ena, ib, bare = (_attributes(device) for device in item["spec"]["devices"])
    assert (ena["ifName"], ena["mtu"], ena["rdma"], ena["encapsulation"], ena["type"]) == (
        "ens6",
        1500,
        False,
        "ether",
        "device",
    )
    assert (ib["ifName"], ib["mtu"], ib["rdma"], ib["encapsulation"], ib["type"]) == (
        "ibp68s0",
        4092,
        True,
        "infiniband",
        "ipoib",
    )
    assert "rdmaDevice" not in ib
    assert re.fullmatch(r"198\.1[89]\.\d+\.\d+/15", ena["ipv4"])
    assert "ipv4" not in bare
