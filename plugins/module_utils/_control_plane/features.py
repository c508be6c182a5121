# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a feature of dynamic resource allocation needs: gates and API versions, by Kubernetes release. Private to the collection.

Source: k8s.io/kubernetes v1.37.2, pkg/features/kube_features.go (versioned defaults and dependencies), pkg/controlplane/instance.go (API
versions that are off by default).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.releases import minor_number

CORE = "DynamicResourceAllocation"
GROUP = "resource.k8s.io"


@dataclass(frozen=True)
class Feature:
    """A capability by a name that people use; each gate with the minor version (of 1.x) that has it first."""

    gates: Mapping[str, int]
    # API versions of resource.k8s.io that hold its objects, with the first and the last minor version that need them switched on.
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def since(self) -> int:
        """The gate named first is the feature itself; the others come along where they exist."""
        return next(iter(self.gates.values()))


FEATURES: Mapping[str, Feature] = {
    "partitionable-devices": Feature({"DRAPartitionableDevices": 33}),
    "partition-types": Feature(
        {"DRAPartitionableDevicesType": 37, "DRAPartitionableDevices": 33, "DRAResourcePoolStatus": 36}
    ),
    "compatibility-groups": Feature({"DRADeviceCompatibilityGroups": 37, "DRAPartitionableDevices": 33}),
    "device-taints": Feature(
        {"DRADeviceTaints": 33, "DRADeviceTaintRules": 35}, {"v1alpha3": (33, 35), "v1beta2": (36, 36)}
    ),
    "consumable-capacity": Feature({"DRAConsumableCapacity": 34, "DRAFractionalCapacityRange": 37}),
    "binding-conditions": Feature({"DRADeviceBindingConditions": 34, "DRAResourceClaimDeviceStatus": 32}),
    "device-status": Feature({"DRAResourceClaimDeviceStatus": 32}),
    "extended-resource": Feature({"DRAExtendedResource": 34}),
    "list-attributes": Feature({"DRAListTypeAttributes": 36}),
    "derived-attributes": Feature({"DRADerivedAttributes": 37}),
    "prioritized-list": Feature({"DRAPrioritizedList": 33}),
    "admin-access": Feature({"DRAAdminAccess": 32}),
    "optional-node-operations": Feature({"DRAOptionalNodeOperations": 37, "NodeDeclaredFeatures": 35}),
    "node-allocatable": Feature({"DRANodeAllocatableResources": 36}),
    "pool-status": Feature({"DRAResourcePoolStatus": 36}, {"v1alpha3": (36, 37)}),
    "workload-claims": Feature({"DRAWorkloadResourceClaims": 36, "GenericWorkload": 35}),
}


@dataclass(frozen=True)
class Switches:
    """What kube-apiserver and its companions are told."""

    gates: Mapping[str, bool]
    runtime_config: Mapping[str, bool]

    @staticmethod
    def text(values: Mapping[str, bool]) -> str:
        return ",".join(f"{name}={'true' if on else 'false'}" for name, on in sorted(values.items()))


def switches(
    version: str, names: Iterable[str], gates: Mapping[str, bool], runtime_config: Mapping[str, bool]
) -> Switches:
    """Dynamic resource allocation itself, the features by name, and what the user switches by gate and API version, which has the last word."""
    minor = minor_number(version)
    all_gates: dict[str, bool] = {}
    all_versions: dict[str, bool] = {}
    if minor < 34:
        # Its API left alpha with 1.32, but gate and versions were off until 1.34.
        all_gates[CORE] = True
        all_versions[f"{GROUP}/v1beta1"] = True
        if minor == 33:
            all_versions[f"{GROUP}/v1beta2"] = True
    for name in names:
        feature = FEATURES.get(name)
        if feature is None:
            raise FleetError(f"features has {name!r}; there are {', '.join(sorted(FEATURES))}", feature=name)
        if feature.since > minor:
            raise FleetError(
                f"features has {name!r}, which Kubernetes has since 1.{feature.since}; kubernetes_version is {version}",
                feature=name,
            )
        all_gates.update({gate: True for gate, since in feature.gates.items() if since <= minor})
        for api_version, (first, last) in feature.versions.items():
            if first <= minor <= last:
                all_versions[f"{GROUP}/{api_version}"] = True
    return Switches({**all_gates, **gates}, {**all_versions, **runtime_config})


def enabled_gates(metrics: str) -> dict[str, bool]:
    """What an API server says of its own gates, out of the text of its metrics."""
    found = {}
    for line in metrics.splitlines():
        if line.startswith("kubernetes_feature_enabled{"):
            labels, _blank, value = line.rpartition(" ")
            name = labels.partition('name="')[2].partition('"')[0]
            if name:
                found[name] = value.strip() not in ("0", "0.0")
    return found


def refused(wanted: Mapping[str, bool], reported: Mapping[str, bool]) -> list[str]:
    """The gates that are not as asked for. An API server drops the fields behind such a gate without a word."""
    return [
        f"{name} is {'unknown' if name not in reported else 'on' if reported[name] else 'off'}"
        for name, on in sorted(wanted.items())
        if name not in ("AllAlpha", "AllBeta") and reported.get(name) is not on
    ]
