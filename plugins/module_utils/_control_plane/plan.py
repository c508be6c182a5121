# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a control plane shall be to what kwokctl is told; pure. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.ports import LOOPBACK
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.binaries import Binaries
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import Switches
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.releases import minor_number
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import (
    APISERVER,
    COMPONENTS,
    CONTROLLER_MANAGER,
    ETCD,
    KWOK,
    SCHEDULER,
)

# Each is a listener of its own; the names are ours, the options kwokctl's.
PORTS: Mapping[str, str] = {
    ETCD: "etcdPort",
    "etcd-peer": "etcdPeerPort",
    APISERVER: "kubeApiserverPort",
    CONTROLLER_MANAGER: "kubeControllerManagerPort",
    SCHEDULER: "kubeSchedulerPort",
    KWOK: "kwokControllerPort",
}
# The nodes that KWOK plays the kubelet of: never one that has a real kubelet.
NODE_ANNOTATION = "kwok.x-k8s.io/node=fake"


@dataclass(frozen=True)
class ClusterPlan:
    """A control plane as it shall be."""

    name: str
    binaries: Binaries
    switches: Switches
    extra_args: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    qps_limits: bool = False

    def settings(self) -> dict[str, Any]:
        """What a running control plane is compared by; all of it can be told from the plan alone."""
        return {
            "kubernetes": f"{self.binaries.kubernetes.version} from {self.binaries.path(APISERVER)}",
            "kwok": f"{self.binaries.kwok.version} from {self.binaries.path('kwokctl')}",
            "feature_gates": dict(sorted(self.switches.gates.items())),
            "runtime_config": dict(sorted(self.switches.runtime_config.items())),
            "extra_args": {name: dict(args) for name, args in sorted(self.extra_args.items()) if args},
            "qps_limits": self.qps_limits,
        }


def checked_extra_args(raw: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Further arguments by component, as strings; a flag is named without its dashes."""
    found: dict[str, dict[str, str]] = {}
    for component, flags in raw.items():
        if component not in COMPONENTS:
            raise FleetError(f"extra_args has {component!r}; the components are {', '.join(COMPONENTS)}")
        if not isinstance(flags, Mapping):
            raise FleetError(f"extra_args.{component} is {flags!r}; it must map flags to values, such as {{v: 4}}")
        found[component] = {}
        for flag, value in flags.items():
            if str(flag).startswith("-"):
                raise FleetError(f"extra_args.{component} has {flag!r}; flags are named without dashes")
            found[component][str(flag)] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def check_upgrade(before: str, after: str) -> None:
    """Data that a newer Kubernetes has written are not always readable for an older one."""
    if before and minor_number(after) < minor_number(before):
        raise FleetError(
            f"kubernetes_version is {after}, but the data of this control plane were written by {before}; "
            "remove it with state absent first, or use another name"
        )


def kwokctl_configuration(
    plan: ClusterPlan, ports: Mapping[str, int], pki: str, etcd_url_host: str = LOOPBACK
) -> dict[str, Any]:
    """The configuration of kwokctl. Every listener is on loopback and speaks TLS with the certificates of this control plane.

    kwokctl would start etcd without encryption and without asking who is there; whoever may write to etcd is an administrator.
    """
    options: dict[str, Any] = {
        "runtime": "binary",
        "bindAddress": LOOPBACK,
        "securePort": True,
        "kubeAuthorization": True,
        "kubeAdmission": True,
        "disableQPSLimits": not plan.qps_limits,
        "quietPull": True,
        "kubeVersion": f"v{plan.binaries.kubernetes.version}",
        "kwokVersion": f"v{plan.binaries.kwok.version}",
        "kubectlBinary": plan.binaries.path("kubectl"),
        "etcdBinary": plan.binaries.path("etcd"),
        "kubeApiserverBinary": plan.binaries.path(APISERVER),
        "kubeControllerManagerBinary": plan.binaries.path(CONTROLLER_MANAGER),
        "kubeSchedulerBinary": plan.binaries.path(SCHEDULER),
        "kwokControllerBinary": plan.binaries.path("kwok"),
        "kubeFeatureGates": Switches.text(plan.switches.gates),
        "kubeRuntimeConfig": Switches.text(plan.switches.runtime_config),
        **{option: ports[name] for name, option in PORTS.items()},
    }
    if "etcdctl" in plan.binaries.kubernetes.paths:
        options["etcdctlBinary"] = plan.binaries.path("etcdctl")
    patches = {name: [*_our_arguments(name, ports, pki, etcd_url_host), *_extra(plan, name)] for name in COMPONENTS}
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": options,
        "componentsPatches": [{"name": name, "extraArgs": args} for name, args in patches.items() if args],
    }


def _our_arguments(component: str, ports: Mapping[str, int], pki: str, host: str) -> list[dict[str, Any]]:
    ca, certificate, key = (f"{pki}/{name}" for name in ("ca.crt", "admin.crt", "admin.key"))
    client, peer = f"https://{host}:{ports[ETCD]}", f"https://{host}:{ports['etcd-peer']}"
    if component == ETCD:
        return [
            _override("listen-client-urls", client),
            _override("advertise-client-urls", client),
            _override("listen-peer-urls", peer),
            _override("initial-advertise-peer-urls", peer),
            _override("initial-cluster", f"node0={peer}"),
            *(_add(f"{prefix}cert-file", certificate) for prefix in ("", "peer-")),
            *(_add(f"{prefix}key-file", key) for prefix in ("", "peer-")),
            *(_add(f"{prefix}trusted-ca-file", ca) for prefix in ("", "peer-")),
            *(_add(f"{prefix}client-cert-auth", "true") for prefix in ("", "peer-")),
        ]
    if component == APISERVER:
        return [
            _override("etcd-servers", client),
            _add("etcd-cafile", ca),
            _add("etcd-certfile", certificate),
            _add("etcd-keyfile", key),
        ]
    if component in (CONTROLLER_MANAGER, SCHEDULER):
        return [_add("tls-cert-file", certificate), _add("tls-private-key-file", key)]
    return [
        _override("manage-all-nodes", "false"),
        _add("manage-nodes-with-annotation-selector", NODE_ANNOTATION),
    ]


def _extra(plan: ClusterPlan, component: str) -> list[dict[str, Any]]:
    return [_add(flag, value) for flag, value in sorted(plan.extra_args.get(component, {}).items())]


def _override(flag: str, value: str) -> dict[str, Any]:
    return {"key": flag, "value": value, "override": True}


def _add(flag: str, value: str) -> dict[str, Any]:
    return {"key": flag, "value": value}
