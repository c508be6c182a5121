# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a scenario that failed, for the person who has to find out why. Private to the collection."""

from __future__ import annotations

import os
from typing import Any, Mapping, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import Object, result_key, results_of
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import write_text_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import EVENT
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.observe import Observer, Seen
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.scenario import dump_documents


def keep(
    folder: str,
    observer: Observer,
    seen: Seen,
    namespace: str,
    nodes: Sequence[str],
    checks: Sequence[Mapping[str, Any]],
) -> str:
    """Write claims, pods, events, the slices of the nodes and the checks into a folder; its path."""
    claims = [claim for claim in seen.claims if claim["metadata"].get("namespace") == namespace]
    held = {result_key(result) for claim in claims for result in results_of(claim)}
    others = [
        claim
        for claim in seen.claims
        if claim not in claims and any(result_key(result) in held for result in results_of(claim))
    ]
    slices: Sequence[Object] = observer.slices_of_nodes(nodes) if nodes else []
    content: dict[str, Sequence[Object]] = {
        "claims": claims,
        "claims-of-others": others,
        "pods": [pod for pod in seen.pods if pod["metadata"].get("namespace") == namespace],
        "events": list(observer.kubernetes.list(EVENT, namespace)),
        "slices": slices,
        "checks": list(checks),
    }
    try:
        for name, objects in content.items():
            if objects:
                text = dump_documents([_plain(one) for one in objects])
                write_text_atomic(os.path.join(folder, f"{name}.yml"), text, mode=0o644)
    except OSError as error:
        raise FleetError(f"{folder} cannot be written: {error}", option="keep_dir") from error
    return folder


def _plain(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(obj)
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
