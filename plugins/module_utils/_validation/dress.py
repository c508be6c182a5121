# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a scenario's manifests ready for the cluster and the nodes that they are meant for. Pure. Private to the collection."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import DRA_GROUP

RUN_LABEL = "gpulab.fleet/validation"
HOSTNAME = "kubernetes.io/hostname"


def dress(
    obj: Mapping[str, Any],
    run: str,
    version: str,
    nodes: Sequence[str],
    tolerations: Sequence[Mapping[str, Any]],
    image: str,
    node_selector: Mapping[str, str],
) -> dict[str, Any]:
    """A copy with the run's label and the served API version; pods are bound to the scenario's nodes unless they say otherwise."""
    result: dict[str, Any] = _copy(obj)
    _label(result, run)
    if str(result.get("apiVersion", "")).startswith(f"{DRA_GROUP}/"):
        result["apiVersion"] = f"{DRA_GROUP}/{version}"
        for spec in _claim_specs(result):
            _requests_for(spec, version)
    if result.get("kind") == "ResourceClaimTemplate":
        _label(result["spec"], run)
    for template in _pods(result):
        _label(template, run)
        _bind(template["spec"], nodes, tolerations, image, node_selector)
    return result


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(item) for item in value]
    return value


def _label(obj: dict[str, Any], run: str) -> None:
    obj.setdefault("metadata", {}).setdefault("labels", {})[RUN_LABEL] = run


def _claim_specs(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if obj.get("kind") == "ResourceClaim":
        yield obj["spec"]
    elif obj.get("kind") == "ResourceClaimTemplate":
        yield obj["spec"]["spec"]


def _requests_for(spec: dict[str, Any], version: str) -> None:
    """Scenarios are written for v1; v1beta1 has what is in `exactly` beside the request's name."""
    if version != "v1beta1":
        return
    for request in (spec.get("devices") or {}).get("requests") or ():
        request.update(request.pop("exactly", None) or {})


def _pods(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The object itself if it is a pod, or the pod template in it."""
    if obj.get("kind") == "Pod":
        yield obj
    template = (obj.get("spec") or {}).get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        yield template


def _bind(
    spec: dict[str, Any],
    nodes: Sequence[str],
    tolerations: Sequence[Mapping[str, Any]],
    image: str,
    node_selector: Mapping[str, str],
) -> None:
    if "tolerations" not in spec and tolerations:
        spec["tolerations"] = [dict(one) for one in tolerations]
    for container in spec.get("containers") or ():
        container.setdefault("image", image)
    if "nodeName" in spec or "affinity" in spec or "nodeSelector" in spec or not nodes:
        return
    if node_selector or len(nodes) == 1:
        spec["nodeSelector"] = dict(node_selector)
    if len(nodes) == 1:
        spec["nodeSelector"][HOSTNAME] = nodes[0]
    else:
        expression = {"key": HOSTNAME, "operator": "In", "values": list(nodes)}
        terms = [{"matchExpressions": [expression]}]
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
