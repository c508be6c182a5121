# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.binaries import Binaries, ProgramSet
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import switches
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.plan import (
    PORTS,
    ClusterPlan,
    check_upgrade,
    checked_extra_args,
    kwokctl_configuration,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.releases import (
    KUBERNETES_PROGRAMS,
    KWOK_PROGRAMS,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import COMPONENTS

PORT_NUMBERS = {name: 20000 + index for index, name in enumerate(PORTS)}


def plan(**changes: Any) -> ClusterPlan:
    programs = changes.pop("programs", KUBERNETES_PROGRAMS)
    kubernetes = ProgramSet("kubernetes", "1.37.2", "path", {name: f"/k/{name}" for name in programs})
    kwok = ProgramSet("kwok", "0.8.0", "path", {name: f"/w/{name}" for name in KWOK_PROGRAMS})
    settings: dict[str, Any] = {"switches": switches("1.37.2", [], {}, {}), **changes}
    return ClusterPlan("lab", Binaries(kubernetes, kwok), **settings)


def arguments(configuration: dict[str, Any], component: str) -> dict[str, str]:
    patches = {patch["name"]: patch["extraArgs"] for patch in configuration["componentsPatches"]}
    return {argument["key"]: argument["value"] for argument in patches[component]}


def test_every_listener_is_on_loopback_with_tls():
    configuration = kwokctl_configuration(plan(), PORT_NUMBERS, "/pki")
    options = configuration["options"]
    assert (options["runtime"], options["bindAddress"]) == ("binary", "127.0.0.1")
    assert options["securePort"] and options["kubeAuthorization"] and options["kubeAdmission"]
    etcd = arguments(configuration, "etcd")
    assert all(etcd[key].startswith("https://127.0.0.1:") for key in etcd if key.endswith("-urls"))
    assert etcd["client-cert-auth"] == etcd["peer-client-cert-auth"] == "true"
    assert arguments(configuration, "kube-apiserver")["etcd-servers"] == etcd["listen-client-urls"]
    for component in ("kube-controller-manager", "kube-scheduler"):
        assert arguments(configuration, component)["tls-cert-file"] == "/pki/admin.crt"
    assert "0.0.0.0" not in json.dumps(configuration)


def test_each_component_has_a_program_and_a_port_of_its_own():
    options = kwokctl_configuration(plan(), PORT_NUMBERS, "/pki")["options"]
    assert sorted(options[option] for option in PORTS.values()) == sorted(PORT_NUMBERS.values())
    assert {value for key, value in options.items() if key.endswith("Binary")} == {
        *(f"/k/{name}" for name in KUBERNETES_PROGRAMS),
        "/w/kwok",
    }


def test_etcdctl_may_be_missing():
    few = plan(programs=[name for name in KUBERNETES_PROGRAMS if name != "etcdctl"])
    assert "etcdctlBinary" not in kwokctl_configuration(few, PORT_NUMBERS, "/pki")["options"]


def test_kwok_manages_annotated_nodes_only():
    kwok = arguments(kwokctl_configuration(plan(), PORT_NUMBERS, "/pki"), "kwok-controller")
    assert kwok["manage-all-nodes"] == "false"
    assert kwok["manage-nodes-with-annotation-selector"] == "kwok.x-k8s.io/node=fake"


def test_gates_versions_limits_and_arguments_reach_kwokctl():
    wanted = switches("1.37.2", ["list-attributes"], {}, {"resource.k8s.io/v1beta1": True})
    configuration = kwokctl_configuration(
        plan(switches=wanted, qps_limits=True, extra_args={"etcd": {"unsafe-no-fsync": "true"}}), PORT_NUMBERS, "/pki"
    )
    options = configuration["options"]
    assert options["kubeFeatureGates"] == "DRAListTypeAttributes=true"
    assert options["kubeRuntimeConfig"] == "resource.k8s.io/v1beta1=true"
    assert options["disableQPSLimits"] is False
    assert arguments(configuration, "etcd")["unsafe-no-fsync"] == "true"


def test_settings_tell_what_makes_a_restart_necessary():
    assert plan().settings() == plan(extra_args={"etcd": {}}).settings()
    for change in (
        {"switches": switches("1.37.2", ["list-attributes"], {}, {})},
        {"switches": switches("1.37.2", [], {}, {"resource.k8s.io/v1beta1": True})},
        {"qps_limits": True},
        {"extra_args": {"etcd": {"debug": "true"}}},
    ):
        assert plan(**change).settings() != plan().settings()
    # What is read back from the state file is compared with it.
    assert json.loads(json.dumps(plan().settings())) == plan().settings()


def test_extra_arguments_are_checked_and_become_strings():
    assert checked_extra_args({"etcd": {"a": True, "b": 3}}) == {"etcd": {"a": "true", "b": "3"}}
    for raw, says in (
        ({"kubelet": {}}, f"the components are {', '.join(COMPONENTS)}"),
        ({"etcd": "--debug"}, "must map flags to values"),
        ({"etcd": {"--debug": True}}, "without dashes"),
    ):
        with pytest.raises(FleetError, match=says):
            checked_extra_args(raw)


def test_data_are_not_given_to_an_older_kubernetes():
    check_upgrade("", "1.32.5")
    check_upgrade("1.36.3", "1.37.2")
    check_upgrade("1.37.2", "1.37.1")
    with pytest.raises(FleetError, match=r"were written by 1\.37\.2"):
        check_upgrade("1.37.2", "1.36.3")
