# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""dra_check against a real scheduler: it confirms what was allocated and what waits, and does not believe a phase."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from modcall import Modules
from planes import Plane

SPACE, NODE, GPU = "claims-checked", "chk-t4-0", "gpu.nvidia.com"
API = "resource.k8s.io/v1"


class Lab:
    """One node with one GPU."""

    def __init__(self, plane: Plane, modules: Modules) -> None:
        self.plane = plane
        self.modules = modules

    def create(self, *objects: dict[str, Any]) -> None:
        self.plane.kubectl(
            "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        )

    def check(self, fails: bool = False, **params: Any) -> dict[str, Any]:
        given = {"namespace": SPACE, "timeout_s": 60, **params}
        return self.modules.start("dra_check", **given).result(fails)


def claim(name: str) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": GPU}}
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"devices": {"requests": [request]}},
    }


def pod(name: str, of: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none.example/none", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE, "labels": labels},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": of}],
            "nodeSelector": {"kubernetes.io/hostname": NODE},
            "tolerations": [{"operator": "Exists"}],
            **spec,
        },
    }


@pytest.fixture
def lab(control_plane: Plane, tmp_path: Path) -> Iterator[Lab]:
    modules = Modules(control_plane.kubeconfig, tmp_path)
    modules.start("device_class").result()
    modules.nodes(name="chk-t4-{n}", count=1, machine="aws-g4dn", set="chk-t4")
    control_plane.kubectl("create", "namespace", SPACE)
    try:
        yield Lab(control_plane, modules)
    finally:
        control_plane.kubectl("delete", "pods", "--all", "-n", SPACE, "--grace-period=0", "--force", check=False)
        control_plane.kubectl("delete", "namespace", SPACE, check=False)
        modules.nodes(set="chk-t4", state="absent")
        modules.start("device_class", state="absent").result()


def failures(result: dict[str, Any]) -> set[tuple[str, str]]:
    return {(check["claim"], check["name"]) for check in result["checks"] if check["status"] == "failed"}


def test_what_runs_what_waits_and_what_only_seems_to_run(lab: Lab) -> None:
    lab.create(claim("mine"), pod("runs", "mine", {"app": "a"}), pod("shares", "mine", {"app": "b"}))
    result = lab.check()
    assert {check["status"] for check in result["checks"]} == {"passed"}

    # A pod of other labels shares the claim: it is not checked, and it is no stranger in reservedFor.
    result = lab.check(label_selector="app in (a)")
    assert {check["claim"] for check in result["checks"]} == {"mine", "pod/runs"}

    # The GPU is taken: the next one waits, for this reason and no other.
    lab.create(claim("late"), pod("waits", "late", {"app": "c"}))
    lab.check(expect={"pods": [{"name": "waits", "pending": "exhausted"}]})
    result = lab.check(fails=True, timeout_s=6, expect={"pods": [{"name": "waits", "pending": "no_match"}]})
    assert failures(result) == {("pod/waits", "pod.cause")}
    assert "the cause should be no_match, but is exhausted" in result["msg"]

    # Past the scheduler, onto a node that has nothing left: it runs, and is told.
    lab.create(claim("none"), pod("forced", "none", {"app": "d"}, nodeName=NODE))
    result = lab.check(pods=["forced"], fails=True, timeout_s=20)
    assert failures(result) == {("none", "claim.allocated"), ("pod/forced", "pod.claims")}
    assert "Running on chk-t4-0: it went past the scheduler by spec.nodeName" in result["msg"]
