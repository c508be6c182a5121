# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module device_class as Ansible runs it, against an API server in memory."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes import options
from ansible_collections.gpulab.fleet.plugins.modules import device_class

CLASSES = "deviceclasses.resource.k8s.io"
ALL = {
    "gpu.nvidia.com",
    "mig.nvidia.com",
    "vfio.gpu.nvidia.com",
    "compute-domain-daemon.nvidia.com",
    "compute-domain-default-channel.nvidia.com",
    "dra.net",
}


@pytest.fixture
def server(api_server, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE_S", 0.3)
    return api_server


@pytest.fixture
def call(server, run_module):
    def run(check_mode=False, fails=False, **params):
        arguments = {"host": server.url, **params, "_ansible_check_mode": check_mode, "_ansible_diff": True}
        return run_module(device_class, arguments, fails)

    return run


def actions(result):
    return {entry["name"]: entry["action"] for entry in result["results"]}


def specs(server):
    return {obj["metadata"]["name"]: obj["spec"] for obj in server.of(CLASSES)}


def test_all_classes_are_made_once(server, call):
    first = call()
    assert first["changed"] and actions(first) == dict.fromkeys(ALL, "created")
    assert specs(server)["gpu.nvidia.com"] == {
        "selectors": [
            {
                "cel": {
                    "expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
                }
            }
        ],
        "extendedResourceName": "nvidia.com/gpu",
    }
    writes = server.writes
    again = call()
    assert not again["changed"] and actions(again) == dict.fromkeys(ALL, "unchanged") and again["diff"] == []
    assert server.writes == writes


def test_check_mode_writes_nothing_and_says_what_it_would(server, call):
    result = call(check_mode=True, drivers=["dra.net"])
    assert result["changed"] and actions(result) == {"dra.net": "created"}
    assert result["diff"][0]["after"] == {"selectors": [{"cel": {"expression": "device.driver == 'dra.net'"}}]}
    assert server.of(CLASSES) == []


def test_older_versions_of_the_api_have_no_extended_resource(server, call):
    server.versions = ["v1beta1"]
    result = call(drivers=["gpu.nvidia.com"])
    assert result["api_version"] == "v1beta1"
    assert all("extendedResourceName" not in spec for spec in specs(server).values())


def test_a_class_of_ours_is_repaired(server, call):
    call()
    server.change(CLASSES, "dra.net", lambda obj: obj["spec"].update(selectors=[]))
    result = call()
    assert actions(result)["dra.net"] == "updated" and result["changed"]
    (diff,) = result["diff"]
    assert (diff["before"], diff["after"]["selectors"][0]["cel"]["expression"]) == (
        {"selectors": []},
        "device.driver == 'dra.net'",
    )
    assert specs(server)["dra.net"]["selectors"]


def test_a_field_that_is_no_longer_wanted_goes(server, call):
    mine = {"name": "mine", "selector": "true"}
    call(classes=[{**mine, "extended_resource_name": "example.com/mine"}])
    assert specs(server)["mine"]["extendedResourceName"] == "example.com/mine"
    assert actions(call(classes=[mine])) == {"mine": "updated"}
    assert "extendedResourceName" not in specs(server)["mine"]


def test_classes_of_others_stay_as_they_are(server, call):
    same = {"selectors": [{"cel": {"expression": "device.driver == 'dra.net'"}}]}
    server.add(CLASSES, {"metadata": {"name": "dra.net"}, "spec": same})
    server.add(CLASSES, {"metadata": {"name": "mig.nvidia.com"}, "spec": {"selectors": []}})
    result = call()
    assert actions(result)["dra.net"] == actions(result)["mig.nvidia.com"] == "foreign"
    assert len(result["warnings"]) == 1 and "DeviceClass mig.nvidia.com was not made by this collection" in str(
        result["warnings"]
    )
    assert specs(server)["mig.nvidia.com"] == {"selectors": []}
    gone = call(state="absent")
    assert set(specs(server)) == {"dra.net", "mig.nvidia.com"}
    assert set(actions(gone)) == ALL - {"dra.net", "mig.nvidia.com"}
    assert not call(state="absent")["changed"]


def test_absent_may_mean_some(server, call):
    call(classes=[{"name": "mine", "selector": "true"}], drivers=["dra.net", "gpu.nvidia.com"])
    call(state="absent", drivers=["gpu.nvidia.com"])
    assert set(specs(server)) == {"mine", "dra.net"}
    assert actions(call(state="absent", classes=[{"name": "mine", "selector": "true"}])) == {"mine": "deleted"}


def test_check_mode_deletes_nothing(server, call):
    call()
    would = call(check_mode=True, state="absent")
    assert would["changed"] and set(specs(server)) == ALL


def test_a_field_that_the_server_drops_is_told(server, call):
    server.on_create = lambda obj: obj["spec"].pop("extendedResourceName", None)
    result = call(drivers=["gpu.nvidia.com"])
    assert "has dropped spec.extendedResourceName of DeviceClass gpu.nvidia.com" in str(result["warnings"])


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"drivers": ["gpu.amd.com"]}, "drivers has 'gpu.amd.com'; classes are known for gpu.nvidia.com"),
        (
            {"drivers": ["dra.net"], "classes": [{"name": "dra.net", "selector": "true"}]},
            "classes names 'dra.net' twice",
        ),
        (
            {"api_version": "v1beta1", "classes": [{"name": "a", "selector": "true", "extended_resource_name": "x/y"}]},
            "extended_resource_name, which needs resource.k8s.io/v1",
        ),
    ],
)
def test_bad_input_is_told_without_a_request(server, call, params, says):
    assert says in call(fails=True, **params)["msg"]
    assert server.requests == []


def test_what_is_forbidden_is_named(server, call):
    server.forbidden = {("create", CLASSES)}
    message = call(fails=True, drivers=["dra.net"])["msg"]
    assert "create" in message and CLASSES in message
