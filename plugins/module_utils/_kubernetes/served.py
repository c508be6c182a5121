# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which version of resource.k8s.io to speak with a server. Private to the collection."""

from __future__ import annotations

from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ClusterError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import DRA_GROUP


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
