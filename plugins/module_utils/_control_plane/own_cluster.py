# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a cluster of the user's own, in which nothing is started or changed. Private to the collection."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import enabled_gates, refused
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ApiError, Forbidden
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import connect


class OwnClusterError(FleetError):
    """The user's cluster lacks what is asked for, and it is not ours to change."""


def look(name: str, kubeconfig: Optional[str], context: Optional[str], timeout_s: float) -> dict[str, Any]:
    """The same facts as of a control plane of ours, as far as a cluster tells them."""
    address = {"kubeconfig": kubeconfig, "context": context}
    kubernetes = connect(address, Deadline(timeout_s))
    try:
        version = kubernetes.server_version()
        # Fails with a reason when the server has no dynamic resource allocation.
        kubernetes.dra_version()
        return {
            "name": name,
            "status": "running",
            "found": {"status": "running", "reason": "", "logs": {}},
            "actions": [],
            "built": [],
            "seconds": {},
            "source": "cluster",
            "kubeconfig": kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config"),
            "context": context or "",
            "server": kubernetes.host,
            "kubernetes_version": version.git.lstrip("v"),
            "kwok_version": "",
            "feature_gates": _gates(kubernetes),
            "kubectl": "",
            "components": {},
            "folder": "",
        }
    finally:
        kubernetes.close()


def check_gates(cluster: Mapping[str, Any], wanted: Mapping[str, bool]) -> None:
    """The gates of the user's own API server are as asked for, or it is said which are not."""
    known = cluster["feature_gates"]
    wrong = refused(wanted, known) if known else []
    if wrong:
        raise OwnClusterError(
            f"{cluster['server']} does not have the feature gates that are asked for: {', '.join(wrong)}. It would drop the fields "
            "behind them without a word; switch them on there, or ask for less",
            feature_gates=wrong,
        )


def _gates(kubernetes: Kubernetes) -> dict[str, bool]:
    """Nothing when the user may not read metrics."""
    try:
        text = kubernetes.raw("GET", "/metrics").body.decode(errors="replace")
    except Forbidden:
        return {}
    except ApiError as error:
        if error.details.get("status") in (404, 405):
            return {}
        raise
    return {name: on for name, on in sorted(enabled_gates(text).items()) if name.startswith(("DRA", "Dynamic"))}
