# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog's machines publish what real ones published, also where no dump lies beside the checkout."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import DriverSettings, render_node

DATA = Path(__file__).resolve().parents[4] / "data" / "slices"
PUBLISHED = yaml.safe_load((DATA / "published.yml").read_text(encoding="utf-8"))
T4_PAIR = str(DATA / "t4-pair.yml")
# How the GPUs were divided whose slices are in the data.
MIG = {
    "mig": {
        "gpu0": [
            {"profile": "3g.40gb", "start": 0},
            {"profile": "2g.20gb", "start": 4},
            {"profile": "1g.10gb", "start": 6},
        ],
        "gpu1": [{"profile": "1g.10gb+me", "start": 0}, {"profile": "1g.20gb", "start": 2}],
        "gpu2": ["7g.80gb"],
        "gpu3": [],
    }
}
IDENTITIES = {
    "uuid": r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "parentUUID": r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "dra.net/mac": r"[0-9a-f]{2}(:[0-9a-f]{2}){5}",
    "dra.net/ipv4": r"198\.1[89]\.[0-9]+\.[0-9]+/15",
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: f"{case['machine']}-{case['driver']}-{case['release']}")
def test_as_published(case: dict[str, Any]) -> None:
    machine = load(T4_PAIR if case["machine"] == "t4-pair" else case["machine"])
    options = MIG if case["mode"] == "static-mig" else {}
    settings = DriverSettings(case["driver"], case["release"], case["mode"], options)
    (item,) = render_node(machine, node="node", node_uid=None, drivers=[settings])
    devices = {device["name"]: device for device in item["spec"]["devices"]}
    assert set(devices) == set(case["devices"])
    for name, published in case["devices"].items():
        made = {key: next(iter(value.items())) for key, value in devices[name]["attributes"].items()}
        for identity in IDENTITIES.keys() & made.keys():
            assert re.fullmatch(IDENTITIES[identity], made.pop(identity)[1])
        assert {key: f"{kind} {_text(value)}" for key, (kind, value) in made.items()} == {
            **case["alike"],
            **published["attributes"],
        }
        capacity = {key: value["value"] for key, value in devices[name].get("capacity", {}).items()}
        slices = {f"memorySlice{number}": "1" for number in published.get("memory_slices", [])}
        assert capacity == {**published.get("capacity", {}), **slices}


def test_the_order_of_layouts_without_starts_is_that_of_the_data() -> None:
    """Where nothing says a start, the places are those that the cases have."""
    plain = {"mig": {"gpu0": ["3g.40gb", "2g.20gb", "1g.10gb"], "gpu1": ["1g.20gb"], "gpu2": ["7g.80gb"], "gpu3": []}}
    machine = load("aws-p5")
    settings = DriverSettings("gpu.nvidia.com", "0.5", "static-mig", plain)
    (item,) = render_node(machine, node="node", node_uid=None, drivers=[settings])
    names = [device["name"] for device in item["spec"]["devices"]]
    assert names[:3] == ["gpu-0-mig-3g40gb-9-0", "gpu-0-mig-2g20gb-14-4", "gpu-0-mig-1g10gb-19-6"]
    assert names[-4:] == ["gpu-4", "gpu-5", "gpu-6", "gpu-7"]
