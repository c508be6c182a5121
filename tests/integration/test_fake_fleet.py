# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook that fills a control plane with fake nodes: from nothing, again, otherwise, in pieces, and gone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import recap
from planes import Plane, Planes

from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import wait_gone

NAME = "fleet"
CLASSES = {
    "compute-domain-daemon.nvidia.com",
    "compute-domain-default-channel.nvidia.com",
    "dra.net",
    "gpu.nvidia.com",
    "mig.nvidia.com",
    "vfio.gpu.nvidia.com",
}
MIXED = [
    {"name": "p5-{n:02}", "count": 3, "machine": "aws-p5"},
    {"set": "mig", "nodes": ["mig-a"], "machine": "aws-p4d", "labels": {"zone": "east"}},
]


@pytest.fixture(scope="module", autouse=True)
def removed_at_the_end(planes: Planes) -> Iterator[None]:
    yield
    planes.remove(NAME)


def play(planes: Planes, **variables: object) -> Any:
    given = {"control_plane_name": NAME, "fleet_validate": False, **variables}
    return planes.play("playbooks/fake_fleet.yml", given, timeout_s=7500)


def plane(planes: Planes) -> Plane:
    return planes.plane(NAME)


def names(found: Plane, kind: str) -> set[str]:
    return {item["metadata"]["name"] for item in found.get(kind)["items"]}


def test_from_nothing_to_a_validated_fleet_and_again(planes: Planes, tmp_path: Path):
    validated = {
        "fleet_validate": True,
        "lab_report_dir": str(tmp_path),
        "dra_validation_keep_dir": str(tmp_path / "kept"),
    }
    first = play(planes, fake_gpu_fleet_nodes=MIXED, **validated)
    assert first.returncode == 0
    found = plane(planes)
    assert names(found, "nodes") == {"p5-00", "p5-01", "p5-02", "mig-a"}
    assert names(found, "deviceclasses") == CLASSES
    gpus = [
        (item["spec"]["nodeName"], len(item["spec"]["devices"]))
        for item in found.get("resourceslices")["items"]
        if item["spec"]["driver"] == "gpu.nvidia.com"
    ]
    assert sorted(gpus) == [("mig-a", 8), ("p5-00", 8), ("p5-01", 8), ("p5-02", 8)]
    report = json.loads((tmp_path / "latest" / "report.json").read_text())
    assert report["summary"]["failed"] == 0
    # It has neither MIG devices nor a machine where nothing shares a root.
    assert {one["name"] for one in report["scenarios"] if one["status"] != "passed"} == {
        "gpu_nic_no_common_root",
        "mig_by_profile_same_parent",
    }
    again = play(planes, fake_gpu_fleet_nodes=MIXED, **validated)
    assert again.returncode == 0 and recap(again.output)["localhost"]["changed"] == 0


def test_a_dead_kwok_is_started_again_by_the_next_run(planes: Planes):
    kwok = next(one for one in plane(planes).paths.started() if one.name == "kwok-controller")
    os.kill(kwok.pid, signal.SIGKILL)
    assert wait_gone(kwok.ref, 10)
    done = play(planes, fake_gpu_fleet_nodes=[{**MIXED[0], "count": 4}])
    assert done.returncode == 0, "nodes become ready only when KWOK is back"
    # The set that this run does not name stays.
    assert names(plane(planes), "nodes") == {"p5-00", "p5-01", "p5-02", "p5-03", "mig-a"}


def test_absent_takes_the_named_sets_and_our_classes_only(planes: Planes):
    found = plane(planes)
    found.kubectl("create", "-f", "-", stdin="apiVersion: v1\nkind: Node\nmetadata: {name: foreign}\n")
    done = play(planes, fake_gpu_fleet_nodes=MIXED, fake_gpu_fleet_state="absent")
    assert done.returncode == 0
    assert names(found, "nodes") == {"foreign"} and not names(found, "deviceclasses")
    assert not names(found, "resourceslices")


def test_a_wrong_machine_is_one_message(planes: Planes):
    done = play(planes, fake_gpu_fleet_nodes=[{"name": "a-{n}", "machine": "no-such-machine"}])
    assert done.returncode != 0 and "no-such-machine" in done.output
    assert names(plane(planes), "nodes") == {"foreign"}
