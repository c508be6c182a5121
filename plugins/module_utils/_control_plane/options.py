# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the options of the module control_plane to a typed request, and from outcomes to its result. Private to the collection."""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.all_of_them import named_diff
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import cache_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress, progress_file
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import own_cluster, releases
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.binaries import ORDER, BinariesRequest
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import switches
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.manage import (
    STARTING_STATES,
    Request,
    look,
    manage,
    manage_all,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.plan import checked_extra_args
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import ClusterPaths, list_clusters

AUTO, CLUSTER = "auto", "cluster"


def run(params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module control_plane returns."""
    if _is_users(params):
        return _own(params)
    request = to_request(params, check_mode)
    who = "all" if params["all"] else params["name"]
    progress = Progress(progress_file(f"control-plane-{who}", params["progress_path"], params["state_dir"]), who)
    outcomes = manage_all(request, progress) if params["all"] else [manage(params["name"], request, progress)]
    return {
        "changed": any(outcome.differences.changed for outcome in outcomes),
        "clusters": [outcome.to_dict(ClusterPaths(outcome.name, request.state_root)) for outcome in outcomes],
        "diff": [
            named_diff(f"control plane {outcome.name}", outcome.differences)
            for outcome in outcomes
            if outcome.differences.changed
        ],
    }


def inform(params: Mapping[str, Any]) -> dict[str, Any]:
    """What the module control_plane_info returns."""
    root: Optional[str] = params["state_dir"]
    names = [params["name"]] if params["name"] else list_clusters(root)
    return {"changed": False, "clusters": [look(name, root) for name in names]}


def to_request(params: Mapping[str, Any], check_mode: bool) -> Request:
    """The options, typed; what does not go together is refused."""
    if params["all"] and params["state"] in STARTING_STATES:
        raise FleetError(f"all is true with state {params['state']!r}; it goes with stopped and absent only")
    releases.check_urls(params["download_urls"])
    source = params["source"]
    return Request(
        state=params["state"],
        binaries=BinariesRequest(
            cache_root=params["cache_dir"] or cache_dir(),
            release=releases.wanted(params["kubernetes_version"]),
            kwok_version=releases.kwok_version(params["kwok_version"]),
            sources=params["sources"] or "",
            ways=ORDER if source == AUTO else (source,),
            download_urls=params["download_urls"],
            timeout_s=params["build_timeout_s"],
        ),
        features=tuple(params["features"]),
        feature_gates=_switched(params, "feature_gates"),
        runtime_config=_switched(params, "runtime_config"),
        extra_args=checked_extra_args(params["extra_args"]),
        qps_limits=params["qps_limits"],
        timeout_s=params["timeout_s"],
        state_root=params["state_dir"],
        check_mode=check_mode,
    )


def warnings(clusters: Iterable[Mapping[str, Any]]) -> list[str]:
    """What a person should know although nothing failed."""
    return [
        f"control plane {cluster['name']} had crashed: {cluster['found']['reason']}"
        for cluster in clusters
        if cluster["found"]["status"] == "crashed"
    ]


def _is_users(params: Mapping[str, Any]) -> bool:
    """A kubeconfig or a context names a cluster that is there already; it cannot be ended by us, so stopping means one of ours."""
    if params["source"] == CLUSTER:
        return True
    named = bool(params["kubeconfig"] or params["context"])
    return named and params["source"] == AUTO and params["state"] in STARTING_STATES


def _own(params: Mapping[str, Any]) -> dict[str, Any]:
    if params["state"] not in STARTING_STATES:
        # It was not made by us.
        return {"changed": False, "clusters": [], "diff": []}
    path = params["kubeconfig"]
    if path is not None and not os.path.exists(path):
        raise FleetError(f"kubeconfig is {path!r}, and there is no such file; give the path of a kubeconfig", path=path)
    cluster = own_cluster.look(params["name"], path, params["context"], params["timeout_s"])
    version = str(cluster["kubernetes_version"])
    minor = releases.minor_of(version)
    # Features are looked up in the table of the releases that we know; a newer one has what the newest of these has.
    known = version if minor in releases.KUBERNETES else releases.KUBERNETES[releases.NEWEST][0]
    wanted = switches(known, params["features"], _switched(params, "feature_gates"), {})
    own_cluster.check_gates(cluster, wanted.gates)
    return {"changed": False, "clusters": [cluster], "diff": []}


def _switched(params: Mapping[str, Any], option: str) -> dict[str, bool]:
    """YAML and the command line write yes and no in many ways; anything else is a mistake."""
    found = {}
    for name, value in params[option].items():
        text = str(value).lower()
        if text not in ("true", "false", "yes", "no", "1", "0", "on", "off"):
            raise FleetError(f"{option}.{name} is {value!r}; it must be true or false", option=option)
        found[str(name)] = text in ("true", "yes", "1", "on")
    return found
