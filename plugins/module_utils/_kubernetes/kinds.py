# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of objects that the collection handles, and their paths: no discovery is needed. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping
from urllib.parse import quote

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ClusterError

DRA_GROUP = "resource.k8s.io"
# Newest first. v1alpha3 has slices in 1.31 only, before the API had its present shape.
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")


@dataclass(frozen=True)
class Kind:
    """A kind at one version of its API group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As RBAC and error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The path of the collection, of an object, or of its subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
            if subresource:
                parts.append(subresource)
        return "/" + "/".join(quote(part, safe="") for part in parts)


NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
POD = Kind("", "v1", "pods", "Pod")
EVENT = Kind("", "v1", "events", "Event")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
SECRET = Kind("", "v1", "secrets", "Secret")
SERVICE = Kind("", "v1", "services", "Service")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTA = Kind("", "v1", "resourcequotas", "ResourceQuota")
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
REPLICA_SET = Kind("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SET = Kind("apps", "v1", "daemonsets", "DaemonSet")
JOB = Kind("batch", "v1", "jobs", "Job")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)

_KNOWN = (
    NODE, NAMESPACE, POD, EVENT, CONFIG_MAP, SECRET, SERVICE, SERVICE_ACCOUNT, RESOURCE_QUOTA, DEPLOYMENT, REPLICA_SET,
    STATEFUL_SET, DAEMON_SET, JOB, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, LEASE, PRIORITY_CLASS,
)  # fmt: skip

# Kind, plural and whether it lives in a namespace, for every version of resource.k8s.io.
_DRA = {
    "ResourceSlice": ("resourceslices", False),
    "DeviceClass": ("deviceclasses", False),
    "DeviceTaintRule": ("devicetaintrules", False),
    "ResourceClaim": ("resourceclaims", True),
    "ResourceClaimTemplate": ("resourceclaimtemplates", True),
    "ResourcePoolStatusRequest": ("resourcepoolstatusrequests", False),
}


def resource_kind(kind: str, version: str) -> Kind:
    """A kind of resource.k8s.io at `version`, such as `v1`."""
    if kind not in _DRA:
        raise ClusterError(f"{DRA_GROUP} has no kind {kind!r}; known: {', '.join(sorted(_DRA))}")
    plural, namespaced = _DRA[kind]
    return Kind(DRA_GROUP, version, plural, kind, namespaced)


def kind_of(obj: Mapping[str, Any]) -> Kind:
    """The kind of a manifest, by its apiVersion and kind."""
    api_version, name = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    group, _slash, version = api_version.rpartition("/")
    if group == DRA_GROUP and name in _DRA:
        return resource_kind(name, version)
    for known in _KNOWN:
        if known.kind == name and known.api_version == api_version:
            return known
    raise ClusterError(
        f"no path is known for an object with apiVersion {api_version!r} and kind {name!r}; known are"
        f" {', '.join(sorted(k.kind for k in _KNOWN))} and those of {DRA_GROUP}"
    )
