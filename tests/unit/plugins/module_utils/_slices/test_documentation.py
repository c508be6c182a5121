# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/resourceslices.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load, machine_names
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import (
    DRIVERS,
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
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import LATER, TABLE

PAGE = (Path(__file__).resolve().parents[5] / "docs" / "resourceslices.md").read_text(encoding="utf-8")


def _rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    lines = PAGE.split(f"# {heading}\n", 1)[1].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def test_drivers_modes_and_releases() -> None:
    rows = {row[0].strip("`"): row for row in _rows("Drivers")}
    assert set(rows) == set(DRIVERS)
    for driver, row in rows.items():
        assert re.findall(r"`([a-z-]+)`", row[1]) == list(MODES[driver])
        assert row[2] == ", ".join(release.name for release in TABLE[driver])
    for mode in LATER:
        assert f"`{mode}`" in PAGE


def test_versions_of_the_api() -> None:
    told: dict[str, str] = {}
    for kubernetes, version, _more in _rows("Kubernetes 1.32 to 1.37"):
        first, _to, last = kubernetes.partition(" to ")
        for name in KUBERNETES[KUBERNETES.index(first) : KUBERNETES.index(last or first) + 1]:
            told[name] = version.strip("`")
    assert told == {name: api_version_for(name).split("/")[1] for name in KUBERNETES}


@pytest.mark.parametrize("release", RELEASES)
def test_attributes_of_each_release(release: str) -> None:
    """A yes in the table is an attribute in the slice, and nothing else is there."""
    layout = {"mig": {"gpu0": ["1g.10gb"]}}
    settings = DriverSettings("gpu.nvidia.com", release, "static-mig", layout)
    (item,) = render_node(load("aws-p5"), node="node-1", node_uid=None, drivers=[settings])
    devices: dict[str, dict[str, Any]] = {device["name"]: device["attributes"] for device in item["spec"]["devices"]}
    mig = next(name for name in devices if "-mig-" in name)
    column = 1 + RELEASES.index(release)
    rows = _rows("What each release of NVIDIA's driver publishes")
    whole: set[str] = set()
    divided: set[str] = set()
    for row in rows:
        if row[0].startswith("MIG: ") and row[column] == "yes":
            divided |= set(re.findall(r"`([\w./]+)`", row[0]))
        elif row[0].startswith("`") and row[column] == "yes":
            whole |= set(re.findall(r"`([\w./]+)`", row[0]))
    assert set(devices["gpu-1"]) == whole
    assert set(devices[mig]) == (whole - {"minor", "index"}) | divided
    cells = {row[0]: row[column] for row in rows}
    assert ("gpu-0" in devices) == (cells["the whole GPU beside its MIG devices"] == "yes")
    prefixes = {row[0]: [cell.strip("`") for cell in row[1:]] for row in rows}
    earlier = dict(zip(RELEASES, prefixes["name of a slice"]))
    form = earlier[release].removeprefix("as ")
    assert item["metadata"]["name"].startswith(earlier.get(form, form)[:-5])
    names = dict(zip(RELEASES, prefixes["name of a MIG device"]))
    form = names[release].removeprefix("as ")
    assert mig == names.get(form, form)


def _roots(machine: str) -> dict[str, set[str]]:
    """By driver: the PCIe roots of its devices on a machine."""
    loaded = load(machine)
    slices = render_node(loaded, node="node-1", node_uid=None, drivers=default_drivers(loaded))
    root = "resource.kubernetes.io/pcieRoot"
    return {
        item["spec"]["driver"]: {
            device["attributes"][root]["string"] for device in item["spec"]["devices"] if root in device["attributes"]
        }
        for item in slices
    }


def test_machines_whose_gpus_and_adapters_share_roots() -> None:
    """The page names all machines on which a request that aligns both can be met, and all on which it cannot."""
    text = " ".join(PAGE.split("A request for a GPU and an adapter", 1)[1].split("## ", 1)[0].split())
    can, cannot = text.split("It cannot on", 1)
    for machine in machine_names():
        roots = _roots(machine)
        if not {"gpu.nvidia.com", "dra.net"} <= roots.keys():
            continue
        told = can if roots["gpu.nvidia.com"] & roots["dra.net"] else cannot
        assert f"`{machine}`" in told or ("DGX" in told and machine.startswith("dgx-")), machine


def test_the_example_of_mig_is_right() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    settings = DriverSettings(**yaml.safe_load(example))
    (item,) = render_node(load("dgx-h100"), node="node-1", node_uid=None, drivers=[settings])
    assert len(item["spec"]["devices"]) == 3 + 6


def test_the_message_is_the_one_that_comes() -> None:
    (item,) = render_node(load("lab-h100"), node="one", node_uid=None, drivers=[DriverSettings("gpu.nvidia.com")])
    item["metadata"] = {"name": "one"}
    attributes = item["spec"]["devices"][0]["attributes"]
    item["spec"]["devices"][0]["attributes"] = {
        "product-name": {"string": "x"},
        **attributes,
        "driverVersion": {"version": "580.105.08"},
    }
    with pytest.raises(SliceError) as caught:
        check_slices([item])
    (block,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    for shown, real in zip(block.splitlines(), str(caught.value).splitlines()):
        assert real.startswith(shown.rstrip("…").rstrip())
