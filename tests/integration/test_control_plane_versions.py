# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every release of the table builds, runs, and lets its scheduler allocate a device; the first time each takes as long as its build."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from planes import Plane, Planes
from test_control_plane import until

from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.releases import KUBERNETES

pytestmark = [pytest.mark.live, pytest.mark.timeout(7800)]

# The version that slices are written in, and how a request and a device look there.
API = {"1.32": "v1beta1", "1.33": "v1beta2"}
OLDER = {"1.33", "1.34", "1.35"}


def manifests(version: str) -> str:
    api = f"resource.k8s.io/{version}"
    attributes = {"attributes": {"type": {"string": "gpu"}}}
    device = {"name": "gpu-0", **({"basic": attributes} if version == "v1beta1" else attributes)}
    wanted = {"deviceClassName": "versions.gpulab.test"}
    request = {"name": "gpu", **(wanted if version == "v1beta1" else {"exactly": wanted})}
    size = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node", "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": size, "allocatable": size},
        },
        {
            "apiVersion": api,
            "kind": "ResourceSlice",
            "metadata": {"name": "node-gpu"},
            "spec": {
                "driver": "versions.gpulab.test",
                "nodeName": "node",
                "pool": {"name": "node", "generation": 1, "resourceSliceCount": 1},
                "devices": [device],
            },
        },
        {
            "apiVersion": api,
            "kind": "DeviceClass",
            "metadata": {"name": "versions.gpulab.test"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'versions.gpulab.test'"}}]},
        },
        {
            "apiVersion": api,
            "kind": "ResourceClaim",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "claims-one", "namespace": "default"},
            "spec": {
                "containers": [{"name": "c", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
            },
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.mark.parametrize("minor", KUBERNETES)
def test_a_release_allocates(minor: str, control_plane_factory: Callable[..., Plane]):
    features = ["partitionable-devices", "device-taints"] if minor in OLDER else []
    found = control_plane_factory(f"v{minor.replace('.', '-')}", kubernetes_version=minor, features=features)
    assert found.kubernetes_version == KUBERNETES[minor][0]
    assert found.feature_gates["DynamicResourceAllocation"]
    if features:
        assert found.feature_gates["DRAPartitionableDevices"] and found.feature_gates["DRADeviceTaints"]
    version = API.get(minor, "v1")
    served = found.kubectl("api-versions").stdout.split()
    assert f"resource.k8s.io/{version}" in served
    found.kubectl("apply", "-f", "-", stdin=manifests(version))
    until("pod Running", lambda: found.get("pod", "claims-one")["status"].get("phase") == "Running")
    results = found.get("resourceclaim", "one")["status"]["allocation"]["devices"]["results"]
    assert [result["device"] for result in results] == ["gpu-0"]


def test_data_survive_a_newer_release_and_are_kept_from_an_older(planes: Planes):
    name = "upgraded"
    try:
        older = planes.start(name, kubernetes_version="1.34")
        older.kubectl("create", "configmap", "kept", "--from-literal=a=b")
        newer = planes.start(name)
        assert newer.kubernetes_version.startswith("1.37.") and newer.get("configmap", "kept")["data"] == {"a": "b"}
        back = planes.play(
            "playbooks/control_plane.yml", {"control_plane_name": name, "control_plane_kubernetes_version": "1.34"}
        )
        assert back.returncode != 0 and "were written by 1.37" in " ".join(back.output.split())
        time.sleep(1)
        assert newer.get("configmap", "kept")["data"] == {"a": "b"}, "the refused run must not have disturbed it"
    finally:
        planes.remove(name)
