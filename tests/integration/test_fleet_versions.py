# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet on every release of Kubernetes: each serves another version of the API, and writes slices in its own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from modcall import Modules, counts
from planes import Plane

from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.releases import KUBERNETES

# The first time, each release takes as long as its build.
pytestmark = [pytest.mark.live, pytest.mark.timeout(7800)]

SERVED = {"1.32": "v1beta1", "1.33": "v1beta2"}


@pytest.mark.parametrize("minor", KUBERNETES)
def test_a_fleet(minor: str, control_plane_factory: Callable[..., Plane], tmp_path: Path):
    plane = control_plane_factory(f"fleet-{minor.replace('.', '-')}", kubernetes_version=minor)
    modules = Modules(plane.kubeconfig, tmp_path)
    fleet = {"name": "n{n}", "count": 4, "machine": "aws-p5"}
    first = modules.nodes(**fleet)
    assert first["kubernetes"]["api_version"] == SERVED.get(minor, "v1")
    assert counts(first, "slices") == {"created": 12}
    assert modules.nodes(**fleet)["changed"] is False
    # Somebody changes one and changes it back, so that it is compared in full.
    name = plane.get("resourceslices")["items"][0]["metadata"]["name"]
    devices = plane.get("resourceslice", name)["spec"]["devices"]
    for part in (devices[:1], devices):
        patch = [{"op": "replace", "path": "/spec/devices", "value": part}]
        plane.kubectl("patch", "resourceslice", name, "--type=json", "-p", json.dumps(patch))
    assert modules.nodes(**fleet)["changed"] is False
    changed = modules.nodes(**{**fleet, "machine": "aws-p4d"})
    assert changed["summary"]["slices"]["failed"] == 0
    assert modules.nodes(**{**fleet, "machine": "aws-p4d"})["changed"] is False
    info = modules.info(gather=["summary"])["summary"]
    assert (info["incomplete_pools"], info["drivers"]["gpu.nvidia.com"]["devices"]) == ([], 32)
