# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices rebuilt from a machine description equal what unmodified drivers published, attribute by attribute."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import (
    DriverSettings,
    check_slices,
    convert,
    render_node,
)

DATA = Path(__file__).resolve().parents[4] / "data" / "slices"
RealData = Callable[..., Path]

# What only one machine can know: left out of the first comparison, and set in the description for the second.
IDENTITY = ("uuid", "parentUUID", "dra.net/mac", "dra.net/ipv4")

PRESETS = {"aws-p5.48xlarge": "aws-p5", "aws-p4d.24xlarge": "aws-p4d"}
BOARDS = {"h100": "nvidia-h100-sxm5-80gb", "a100": "nvidia-a100-sxm4-40gb", "t4": "nvidia-t4", "gb300": "nvidia-gb300"}

GPU_CASES = [
    *(f"{release}-{board}-full" for release in ("v25.3.2", "v25.8.1", "v25.12.0", "v0.4.1", "v0.5.0-dev") for board in BOARDS
      if board != "gb300"),
    "v0.5.0-dev-gb300-full", "v0.5.0-dev-a100-fullmockprofile", "v0.5.0-dev-h100-fullmockprofile", "v0.5.0-dev-t4-fullmockprofile",
    *(f"{release}-h100-full-k134" for release in ("v25.3.2", "v25.8.1", "v0.5.0-dev")),
    *(f"{release}-h100-full-k134-{version}" for release in ("v25.3.2", "v0.5.0-dev") for version in ("v1beta1", "v1beta2")),
    "v25.12.0-h100-longnodename", "v0.5.0-dev-h100-longnodename", "v0.5.0-dev-h100-addrnone",
    *(f"{release}-h100-staticmig" for release in ("v25.3.2", "v25.8.1", "v25.12.0", "v0.4.1", "v0.5.0-dev")),
    "v0.5.0-dev-a100-staticmig",
]  # fmt: skip
COMPUTE_DOMAIN_CASES = [
    f"{release}-h100-computedomain" for release in ("v25.3.2", "v25.8.1", "v25.12.0", "v0.4.1", "v0.5.0-dev")
]


def _read(path: Path) -> Any:
    # The dumps quote addresses; what they leave as a time stays text.
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def _typed(slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The dump's texts back as the types that the API has."""
    for item in slices:
        pool = item["spec"]["pool"]
        pool.update({key: int(pool[key]) for key in ("generation", "resourceSliceCount")})
        for owner in item["metadata"].get("ownerReferences", []):
            owner["controller"] = owner["controller"] == "true"
        for device in item["spec"]["devices"]:
            for value in device.get("basic", device)["attributes"].values():
                if "int" in value:
                    value["int"] = int(value["int"])
                if "bool" in value:
                    value["bool"] = value["bool"] == "true"
    return slices


def _description(described: dict[str, Any], identities: bool) -> dict[str, Any]:
    """The machine of a golden case: a preset where the catalog has it, with what the case says of the software."""
    nvml = described["nvml"]
    driver = {"version": nvml["driverVersion"], "cuda_version": nvml["cudaDriverVersion"]}
    if nvml["addressingMode"] != "not supported":
        driver["addressing_mode"] = nvml["addressingMode"]
    layouts: dict[str, list[dict[str, Any]]] = {}
    for instance in described["migInstances"]:
        profile = next(row for row in described["migTable"]["profiles"] if row["id"] == instance["profileId"])
        name = {"19": "1g", "20": "1g", "15": "1g", "14": "2g", "9": "3g", "5": "4g", "0": "7g"}[profile["id"]]
        known = {item.profile_id: item.name for item in _profiles(described)}
        assert known[int(profile["id"])].startswith(name)
        entry: dict[str, Any] = {"profile": known[int(profile["id"])], "start": instance["start"]}
        if identities:
            entry["uuid"] = instance["uuid"]
        layouts.setdefault(instance["index"], []).append(entry)
    devices: dict[str, dict[str, Any]] = {}
    for gpu in described["gpus"]:
        device: dict[str, Any] = {}
        if identities:
            device["identity"] = {"uuid": gpu["uuid"]}
        if gpu["migMode"] == "enabled":
            device["mig"] = layouts.get(gpu["index"], [])
        devices.setdefault(gpu["pcieRoot"], {})[f"gpu{gpu['index']}"] = device
    if described["shape"] in PRESETS:
        return {
            "from": PRESETS[described["shape"]],
            "nvidia_driver": driver,
            "roots": {root: {"devices": items} for root, items in devices.items()},
        }
    board = {
        "from": BOARDS[described["mockProfile"]],
        "gpu": {
            "product_name": nvml["productName"],
            "cuda_compute_capability": nvml["computeCapability"],
            "memory_mib": int(nvml["memoryTotalBytes"]) >> 20,
        },
    }
    roots: dict[str, dict[str, Any]] = {}
    for gpu in described["gpus"]:
        root = roots.setdefault(gpu["pcieRoot"], {"devices": {}})
        if int(gpu["numaNode"]) >= 0:
            root["numa_node"] = gpu["numaNode"]
        device = devices[gpu["pcieRoot"]][f"gpu{gpu['index']}"]
        root["devices"][f"gpu{gpu['index']}"] = {"address": gpu["bdf"], "board": "mock", **device}
    return {
        "name": "golden",
        "cpus": 1,
        "memory_mb": 1,
        "nvidia_driver": driver,
        "boards": {"mock": board},
        "roots": roots,
    }


def _profiles(described: dict[str, Any]) -> Any:
    gpu = load({"from": PRESETS[described["shape"]]}).devices()
    return next(device.board.gpu.mig_profiles for _root, device in gpu if device.board.gpu is not None)


def _devices(slices: list[dict[str, Any]], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The devices by name, since the drivers write them in no order."""
    result: dict[str, Any] = {}
    for item in copy.deepcopy(slices):
        for device in item["spec"]["devices"]:
            attributes = device.get("basic", device)["attributes"]
            for name in without:
                if name in attributes:
                    assert attributes[name]["string"]
                    attributes[name] = "only that machine knows it"
            assert device["name"] not in result
            result[device["name"]] = device
    return result


def _frame(slices: list[dict[str, Any]]) -> list[Any]:
    """Everything of slices but their devices, and without what a server makes up."""
    result = []
    for item in copy.deepcopy(slices):
        for name in ("creationTimestamp", "generation", "resourceVersion", "uid"):
            item["metadata"].pop(name, None)
        prefix = item["metadata"]["generateName"]
        assert re.fullmatch(r"[a-z0-9.-]{,63}", item["metadata"]["name"])
        assert item["metadata"].pop("name").startswith(prefix[:53])
        del item["spec"]["devices"]
        result.append(item)
    return result


def _case(real_data: RealData, case: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    described = _read(real_data("golden", f"{case}.input.yaml"))
    return described, _typed(_read(real_data("golden", f"{case}.yaml"))["items"])


def _render(described: dict[str, Any], driver: str, uid: str, identities: bool) -> list[dict[str, Any]]:
    mode = "static-mig" if described["mode"].startswith("staticmig") else "full"
    slices = render_node(
        load(_description(described, identities)),
        node=described["node"],
        node_uid=uid,
        drivers=[DriverSettings(driver, release=described["driverRelease"], mode=mode)],
        kubernetes=described["kubernetes"],
    )
    check_slices(slices, described["kubernetes"])
    return slices


@pytest.mark.parametrize("case", GPU_CASES)
def test_gpus(real_data: RealData, case: str) -> None:
    described, published = _case(real_data, case)
    version = published[0]["apiVersion"]
    uid = published[0]["metadata"]["ownerReferences"][0]["uid"]

    def made(identities: bool) -> list[dict[str, Any]]:
        # A server may serve older versions only; the same input then goes through the conversion.
        return [convert(item, version) for item in _render(described, "gpu.nvidia.com", uid, identities)]

    assert _devices(made(identities=False), IDENTITY) == _devices(published, IDENTITY)
    assert _devices(made(identities=True)) == _devices(published)
    assert _frame(made(identities=False)) == _frame(published)


@pytest.mark.parametrize("case", COMPUTE_DOMAIN_CASES)
def test_compute_domains(real_data: RealData, case: str) -> None:
    described, published = _case(real_data, case)
    uid = published[0]["metadata"]["ownerReferences"][0]["uid"]
    made = _render(described, "compute-domain.nvidia.com", uid, identities=False)
    assert _devices(made) == _devices(published)
    assert _frame(made) == _frame(published)


def _dump(real_data: RealData, name: str, node: str, driver: str) -> list[dict[str, Any]]:
    """The slices of a node's driver in a dump of a real machine."""
    text = real_data("resourceslices", name).read_text(encoding="utf-8")
    # The report on the T4 shows the command, and leaves out a part of the metadata.
    text = re.sub(r"^(\$ .*|  \.\.\.)$", "", text, flags=re.MULTILINE)
    content = yaml.load(text, Loader=yaml.BaseLoader)
    items = content["items"] if content["kind"] == "List" else [content]
    return _typed([item for item in items if (item["spec"]["nodeName"], item["spec"]["driver"]) == (node, driver)])


# Dump, node, driver, its release, the machine, and the count of devices.
P4D_NODE = "ip-192-168-153-160.ec2.internal"
T4_PAIR = str(DATA / "t4-pair.yml")
DUMPS = [
    ("aicr-aws-p5-h100_resourceslices.yaml", "gpu-node-1", "gpu.nvidia.com", "25.12", "aws-p5", 8),
    ("aicr-aws-p5-h100_resourceslices.yaml", "gpu-node-2", "gpu.nvidia.com", "25.12", "aws-p5", 8),
    ("aicr-aws-p5-h100_resourceslices.yaml", "gpu-node-1", "compute-domain.nvidia.com", "25.12", "aws-p5", 2),
    ("aicr-aws-p5-h100_resourceslices.yaml", "gpu-node-2", "compute-domain.nvidia.com", "25.12", "aws-p5", 2),
    ("dranet-aws_eks_examples_gpu-efa_resourceslice-gpu.yaml", P4D_NODE, "gpu.nvidia.com", "25.12", "aws-p4d", 8),
    ("dranet-aws_eks_examples_gpu-efa_resourceslice-dranet.yaml", P4D_NODE, "dra.net", "1.2", "aws-p4d", 7),
    ("cncf-openshift-t4_resourceslice.yaml", "harpatil4220c-g9kfm-gpu-c-rd8r8", "gpu.nvidia.com", "25.12", T4_PAIR, 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "node", "driver", "release", "machine", "count"), DUMPS, ids=lambda value: str(value)[:30]
)
def test_real_machines(
    real_data: RealData, name: str, node: str, driver: str, release: str, machine: str, count: int
) -> None:
    published = _dump(real_data, name, node, driver)

    def made(description: object) -> list[dict[str, Any]]:
        settings = DriverSettings(driver, release=release)
        return render_node(load(description), node=node, node_uid=None, drivers=[settings], kubernetes="1.34")

    ours = made(machine)
    assert len(_devices(published)) == count
    assert _devices(ours, IDENTITY) == _devices(published, IDENTITY)
    assert [item["spec"]["pool"] for item in ours] == [item["spec"]["pool"] for item in published]

    # With what only that machine knows in the description, nothing has to be left out.
    known = _devices(published)
    identities: dict[str, dict[str, Any]] = {}
    for root, device in load(machine).devices():
        addresses = {device.address, "pci-" + re.sub("[:.]", "-", device.address)}
        for dumped in known.values():
            attributes = {key: next(iter(value.values())) for key, value in dumped["attributes"].items()}
            if addresses & {attributes.get("resource.kubernetes.io/pciBusID"), dumped["name"]}:
                names = {"uuid": "uuid", "dra.net/mac": "mac", "dra.net/ipv4": "ipv4"}
                identity = {ours: attributes[theirs] for theirs, ours in names.items() if theirs in attributes}
                root_changes = identities.setdefault(root.name, {"devices": {}})
                root_changes["devices"][device.name] = {"identity": identity}
    changes = {"roots": identities}
    assert _devices(made({"from": machine, **changes})) == known


def test_an_eks_node_with_one_t4() -> None:
    """The attributes that public notes show of an EKS node with driver 25.8, whose capacity of 15Gi is one of them."""
    (item,) = render_node(
        load("aws-g4dn"), node="node", node_uid=None, drivers=[DriverSettings("gpu.nvidia.com", release="25.8")]
    )
    (device,) = item["spec"]["devices"]
    attributes = {key: next(iter(value.values())) for key, value in device["attributes"].items()}
    assert re.fullmatch(r"GPU-[0-9a-f-]{36}", attributes.pop("uuid"))
    assert attributes == {
        "architecture": "Turing",
        "brand": "Nvidia",
        "cudaComputeCapability": "7.5.0",
        "cudaDriverVersion": "13.0.0",
        "driverVersion": "580.95.5",
        "pcieBusID": "0000:00:1e.0",
        "productName": "Tesla T4",
        "resource.kubernetes.io/pcieRoot": "pci0000:00",
        "type": "gpu",
    }
    assert (device["name"], device["capacity"]) == ("gpu-0", {"memory": {"value": "15Gi"}})
