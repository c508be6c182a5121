# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which version of resource.k8s.io to speak with a server. Private to the collection."""

from __future__ import annotations

from typing import Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ClusterError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import DRA_GROUP, DRA_VERSIONS


def choose_version(kubernetes: Kubernetes, wanted: Optional[str]) -> str:
    """The wanted version if the server serves it, or its newest."""
    if wanted is None:
        return kubernetes.dra_version()
    served = kubernetes.api_versions(DRA_GROUP)
    if wanted not in served:
        raise ClusterError(
            f"api_version is {wanted!r}, but {kubernetes.host} serves {DRA_GROUP} at {', '.join(served) or 'no version'} only; give"
            " one of these, or leave it unset, or switch the version on with runtime-config of the API server"
            f" ({DRA_GROUP}/{wanted}=true)",
            option="api_version",
            value=wanted,
            served=list(served),
        )
    return wanted


def require_served(kubernetes: Kubernetes, given: Sequence[str]) -> str:
    """The version that objects are written in; all versions that they come in have to be served."""
    served = kubernetes.api_versions(DRA_GROUP)
    unknown = sorted(set(given) - set(served))
    if unknown:
        raise ClusterError(
            f"the slices are of {DRA_GROUP}/{unknown[0]}, but {kubernetes.host} serves {', '.join(served) or 'no version'} only;"
            " give api_version: auto to have them converted, or write them in a version that is served",
            option="api_version",
            value=unknown[0],
            served=list(served),
        )
    return min(given, key=DRA_VERSIONS.index) if given else kubernetes.dra_version()
