# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices in a real cluster: what a scheduler sees at every moment of an update, what the API refuses, what it silently drops."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from modcall import Modules, counts
from planes import Plane

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.pools import complete

DRIVER = "fleet.gpulab.test"


@pytest.fixture
def modules(control_plane: Plane, tmp_path: Path) -> Iterator[Modules]:
    """The modules, and a cluster without slices afterwards."""
    yield Modules(control_plane.kubeconfig, tmp_path)
    control_plane.kubectl("delete", "resourceslices", "--all")


def slice_of(number: int = 0, devices: tuple[str, ...] = ("a",), pool: str = "p", **extra: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{pool}-{number}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": "somewhere",
            "pool": {"name": pool},
            "devices": [{"name": f"{name}{number}", "attributes": {"type": {"string": "card"}}} for name in devices],
            **extra,
        },
    }


class Watch:
    """Every change of a slice, in order."""

    def __init__(self, plane: Plane) -> None:
        self.process = subprocess.Popen(
            [
                plane.kubectl_path,
                "--kubeconfig",
                plane.kubeconfig,
                "get",
                "resourceslices",
                "--watch",
                "--output-watch-events",
                "-o",
                "json",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        time.sleep(2)

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        time.sleep(2)
        self.process.terminate()
        text = self.process.communicate(timeout=20)[0]
        decoder, position, found = json.JSONDecoder(), 0, []
        while position < len(text.rstrip()):
            event, end = decoder.raw_decode(text, position)
            position = end + len(text[end:]) - len(text[end:].lstrip())
            found.append((event["type"], event["object"]))
        return found


def replay(events: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[bool, int, list[str]]]:
    """After each event: whether the pool is complete, its generation, and its devices."""
    there: dict[str, dict[str, Any]] = {}
    for kind, obj in events:
        if kind == "DELETED":
            there.pop(obj["metadata"]["name"])
        else:
            there[obj["metadata"]["name"]] = obj
        pools = [item["spec"]["pool"] for item in there.values()]
        newest = max((pool["generation"] for pool in pools), default=0)
        devices = [
            device["name"]
            for item in there.values()
            if item["spec"]["pool"]["generation"] == newest
            for device in item["spec"]["devices"]
        ]
        yield complete([(pool["generation"], pool["resourceSliceCount"]) for pool in pools]), newest, sorted(devices)


def test_what_a_scheduler_sees_while_a_pool_changes(control_plane: Plane, modules: Modules):
    modules.slices(*[slice_of(number, ("a", "b")) for number in range(5)])
    watch = Watch(control_plane)
    try:
        wanted = [slice_of(number, ("a", "b")) for number in range(5)]
        wanted[2] = slice_of(2, ("a", "c"))
        modules.slices(*wanted)
        new = [slice_of(number, ("x", "y", "z")) for number in range(4)]
        modules.slices(*new)
    finally:
        events = watch.events()
    # A watch begins with what is there already.
    states = list(replay(events))[4:]
    assert states[0][:2] == (True, 1)
    # One slice: the pool is whole all the time, in the same generation.
    first_new = next(place for place, state in enumerate(states) if state[1] == 2)
    assert all(state[0] and state[1] == 1 for state in states[:first_new])
    assert "c2" in states[first_new - 1][2]
    # Then a new generation: incomplete from its first to its last slice but one, whole while the old one goes, and never a mixture.
    growing = [state for state in states if state[1] == 2]
    assert [state[0] for state in growing] == [False] * 3 + [True] * 6
    assert growing[3][2] == sorted(f"{name}{number}" for name in "xyz" for number in range(4))
    assert modules.slices(*new)["changed"] is False


def test_half_a_generation_that_somebody_left_is_completed_or_replaced(control_plane: Plane, modules: Modules):
    pool = [slice_of(number) for number in range(3)]
    modules.slices(*pool)
    changed = [slice_of(number, ("b",)) for number in range(3)]
    modules.slices(*changed)
    current = control_plane.get("resourceslices")["items"]
    assert {item["spec"]["pool"]["generation"] for item in current} == {2}
    control_plane.kubectl("delete", "resourceslice", current[0]["metadata"]["name"])
    assert counts(modules.slices(*changed), "slices") == {"created": 1, "unchanged": 2}
    control_plane.kubectl("delete", "resourceslice", current[1]["metadata"]["name"])
    again = [slice_of(number, ("c",)) for number in range(3)]
    assert counts(modules.slices(*again), "slices") == {"created": 3, "deleted": 2}
    info = modules.info()
    assert [(one["generation"], one["complete"], one["devices"]) for one in info["pools"]] == [(3, True, 3)]


def test_what_the_server_makes_of_our_slices_is_what_we_compare_with(control_plane: Plane, modules: Modules):
    """Quantities, taints, counters, capacity policies and per-device nodes come back in other words, and are no difference."""
    devices = [
        {
            "name": "gpu",
            "allNodes": True,
            "attributes": {"v": {"version": "1.2.3-rc.1+build"}, "n": {"int": 0}, "no": {"bool": False}},
            "capacity": {
                "memory": {
                    "value": "40960Mi",
                    "requestPolicy": {
                        "default": "1024Mi",
                        "validRange": {"min": "1024Mi", "max": "40960Mi", "step": "1024Mi"},
                    },
                },
                "share": {"value": "1000m"},
            },
            "allowMultipleAllocations": True,
            "taints": [{"key": "t.example.com/x", "effect": "NoSchedule"}],
        },
        {
            "name": "part",
            "nodeName": "n1",
            "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "20480Mi"}}}],
        },
    ]
    slices = [slice_of(0), slice_of(1)]
    for slice_ in slices:
        slice_["spec"].pop("nodeName")
        slice_["spec"].pop("devices")
        slice_["spec"]["perDeviceNodeSelection"] = True
    slices[0]["spec"]["sharedCounters"] = [{"name": "set", "counters": {"memory": {"value": "40960Mi"}}}]
    slices[1]["spec"]["devices"] = devices
    assert counts(modules.slices(*slices), "slices") == {"created": 2}
    assert modules.slices(*slices)["changed"] is False
    name = "p-1"
    # Somebody touches it, so that it is compared in full.
    control_plane.kubectl("label", "resourceslice", name, "a=b")
    patch = [{"op": "replace", "path": "/spec/devices/0/attributes/n", "value": {"int": 7}}]
    control_plane.kubectl("patch", "resourceslice", name, "--type=json", "-p", json.dumps(patch))
    patch[0]["value"] = {"int": 0}
    control_plane.kubectl("patch", "resourceslice", name, "--type=json", "-p", json.dumps(patch))
    assert modules.slices(*slices)["changed"] is False


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s["spec"].update(devices=[{"name": f"d{n}"} for n in range(129)]), "at most 128"),
        (lambda s: s["spec"]["devices"][0]["attributes"].update({"has-dash": {"string": "x"}}), "has-dash"),
        (lambda s: s["spec"]["devices"][0]["attributes"].update(v={"version": "01.2.3"}), "01.2.3"),
        (lambda s: s.update(apiVersion="resource.k8s.io/v1beta1"), "is no field of ResourceSlices"),
    ],
)
def test_bad_slices_change_nothing(control_plane: Plane, modules: Modules, change: Any, words: str):
    bad = slice_of(0, pool="bad")
    change(bad)
    message = modules.slices(slice_of(0), bad, fails=True)["msg"]
    assert words in message
    assert control_plane.get("resourceslices")["items"] == []


def test_a_version_that_is_not_served(control_plane: Plane, modules: Modules, tmp_path: Path):
    rendered = modules.slices(
        state="rendered", machine="aws-p5", nodes=["a"], kubernetes_version="1.32", dest=str(tmp_path / "old.yml")
    )
    assert rendered["slices"][0]["apiVersion"] == "resource.k8s.io/v1beta1"
    message = modules.slices(src=[str(tmp_path / "old.yml")], fails=True)["msg"]
    assert "the slices are of resource.k8s.io/v1beta1, but" in message
    assert "serves v1 only; give api_version: auto" in message
    assert counts(modules.slices(src=[str(tmp_path / "old.yml")], api_version="auto"), "slices") == {"created": 3}
    assert modules.slices(src=[str(tmp_path / "old.yml")], api_version="auto")["changed"] is False


def test_capture_and_publish_again(control_plane: Plane, modules: Modules, tmp_path: Path):
    modules.slices(machine="aws-p4d", nodes=["a"], set="source")
    path = str(tmp_path / "captured.yml")
    modules.info(dest=path, gather=[])
    dump = tmp_path / "kubectl.yml"
    dump.write_text(control_plane.kubectl("get", "resourceslices", "-o", "yaml").stdout)
    before = [copy.deepcopy(item["spec"]) for item in control_plane.get("resourceslices")["items"]]
    modules.slices(state="absent", set="source")
    for file in (path, str(dump)):
        modules.slices(src=[file], set="copy")
        assert [item["spec"] for item in control_plane.get("resourceslices")["items"]] == before
    assert modules.slices(src=[path], set="copy")["changed"] is False
    assert [document["kind"] for document in yaml.safe_load_all(Path(path).read_text())] == ["ResourceSlice"] * len(
        before
    )


def test_a_field_whose_gate_is_off_is_noticed(tmp_path: Path, control_plane_factory: Callable[..., Plane]):
    plane = control_plane_factory("gated", feature_gates={"DRAConsumableCapacity": False})
    modules = Modules(plane.kubeconfig, tmp_path)
    slice_ = slice_of(0)
    slice_["spec"]["devices"][0]["allowMultipleAllocations"] = True
    message = modules.slices(slice_of(1, pool="good"), slice_, fails=True)["msg"]
    assert (
        "silently drops spec.devices[].allowMultipleAllocations (in p-0; feature gate DRAConsumableCapacity)" in message
    )
    assert plane.get("resourceslices")["items"] == []
    result = modules.slices(slice_, dropped_fields="warn")
    assert "allowMultipleAllocations" in json.dumps(result["warnings"])
    again = modules.slices(slice_, dropped_fields="warn")
    assert again["changed"] is False
    assert "allowMultipleAllocations" in json.dumps(again["warnings"])


def test_environment_and_defaults_as_users_of_kubernetes_know_them(
    control_plane: Plane, modules: Modules, stream: Any, tmp_path: Path, checkout: Path
):
    play = tmp_path / "play.yml"
    play.write_text(
        yaml.safe_dump(
            [
                {
                    "hosts": "localhost",
                    "gather_facts": False,
                    "module_defaults": {"group/gpulab.fleet.kubernetes": {"concurrency": 2}},
                    "tasks": [
                        {"gpulab.fleet.resourceslice": {"slices": [slice_of(0)]}, "register": "made"},
                        {"gpulab.fleet.resourceslice_info": {"gather": ["summary"]}, "register": "seen"},
                        {"ansible.builtin.assert": {"that": ["made is changed", "seen.summary.devices == 1"]}},
                    ],
                }
            ]
        )
    )
    done = stream(
        ["ansible-playbook", play],
        cwd=checkout,
        timeout_s=120,
        K8S_AUTH_KUBECONFIG=control_plane.kubeconfig,
        K8S_AUTH_CONTEXT=control_plane.context,
        XDG_STATE_HOME=str(tmp_path),
        PATH=os.environ["PATH"],
    )
    assert done.returncode == 0, done.output
