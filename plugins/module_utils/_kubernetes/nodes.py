# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes without a kubelet: what they look like, and what has to change on one that is there. Private to the collection.

Pure: no clock, no network.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, NamedTuple, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import SET_LABEL
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.quantity import parse_quantity

KWOK_ANNOTATION = "kwok.x-k8s.io/node"
NODE_ANNOTATION = "gpulab.fleet/node"
HOSTNAME_LABEL = "kubernetes.io/hostname"


@dataclass(frozen=True)
class NodeTemplate:
    """What all nodes of a set have in common."""

    set_name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    # key, value and effect of each
    taints: tuple[Mapping[str, str], ...] = ()
    # for capacity and allocatable alike
    capacity: Mapping[str, str] = field(default_factory=dict)
    node_info: Mapping[str, str] = field(default_factory=dict)


class NodeSeen(NamedTuple):
    """A node that is there, reduced to what we compare."""

    name: str
    uid: str
    set_name: Optional[str]
    deleting: bool
    patch: Optional[dict[str, Any]]
    status_patch: Optional[dict[str, Any]]
    differences: tuple[str, ...]


def new_node(template: NodeTemplate, name: str) -> dict[str, Any]:
    """The body of the one request that makes a node; the API keeps a new node's status."""
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(template, name), "annotations": _annotations(template)},
        # Cloud controllers leave nodes of a provider that they do not know alone.
        "spec": {"providerID": f"kwok://{name}"},
        "status": _status(template),
    }
    if template.taints:
        node["spec"]["taints"] = [dict(taint) for taint in template.taints]
    return node


def see_node(template: NodeTemplate, node: Mapping[str, Any]) -> NodeSeen:
    """A node with the patches that bring it to the template; nothing that others put on it is touched."""
    metadata = node["metadata"]
    name, labels = metadata["name"], metadata.get("labels") or {}
    set_name = labels.get(SET_LABEL)
    patch: Optional[dict[str, Any]] = None
    status_patch: Optional[dict[str, Any]] = None
    differences: list[str] = []
    if set_name == template.set_name:
        former = _former(metadata)
        patch = _main_patch(template, node, former, differences)
        status_patch = _status_patch(template, node.get("status") or {}, former, differences)
    return NodeSeen(
        name,
        metadata.get("uid", ""),
        set_name,
        metadata.get("deletionTimestamp") is not None,
        patch,
        status_patch,
        tuple(differences),
    )


def _labels(template: NodeTemplate, name: str) -> dict[str, str]:
    # Label values are shorter than names may be.
    hostname = {HOSTNAME_LABEL: name} if len(name) <= 63 else {}
    return {**hostname, **template.labels, SET_LABEL: template.set_name}


def _annotations(template: NodeTemplate) -> dict[str, str]:
    return {**template.annotations, NODE_ANNOTATION: _memory(template)}


def _memory(template: NodeTemplate) -> str:
    """What we put on the node, so that a later run can take away what is no longer wanted."""
    return json.dumps(
        {
            "labels": sorted(template.labels),
            "annotations": sorted(template.annotations),
            "taints": sorted(_taint_key(taint) for taint in template.taints),
            "capacity": sorted(template.capacity),
        },
        separators=(",", ":"),
    )


def _former(metadata: Mapping[str, Any]) -> dict[str, list[str]]:
    try:
        data = json.loads((metadata.get("annotations") or {}).get(NODE_ANNOTATION, "{}"))
    except ValueError:
        data = {}
    data = data if isinstance(data, dict) else {}
    return {key: [str(item) for item in value] for key, value in data.items() if isinstance(value, list)}


def _taint_key(taint: Mapping[str, Any]) -> str:
    return f"{taint.get('key')}:{taint.get('effect')}"


def _main_patch(
    template: NodeTemplate, node: Mapping[str, Any], former: Mapping[str, list[str]], differences: list[str]
) -> Optional[dict[str, Any]]:
    metadata = node["metadata"]
    changes: dict[str, Any] = {}
    for key, wanted in (("labels", _labels(template, metadata["name"])), ("annotations", _annotations(template))):
        there = metadata.get(key) or {}
        part: dict[str, Optional[str]] = {name: value for name, value in wanted.items() if there.get(name) != value}
        part.update({name: None for name in former.get(key, ()) if name in there and name not in wanted})
        if part:
            changes[key] = part
            differences += [f"{key}.{name}" for name in sorted(part) if name != NODE_ANNOTATION]
    spec: dict[str, Any] = {}
    there_taints = (node.get("spec") or {}).get("taints") or []
    mine = {_taint_key(taint) for taint in template.taints} | set(former.get("taints", ()))
    others = [taint for taint in there_taints if _taint_key(taint) not in mine]
    wanted_taints = [dict(taint) for taint in template.taints]
    if sorted(map(_taint, there_taints)) != sorted(map(_taint, [*others, *wanted_taints])):
        spec["taints"] = [*others, *wanted_taints]
        differences.append("taints")
    if not changes and not spec:
        return None
    # A list is replaced as a whole, so nobody may have added to it meanwhile.
    patch: dict[str, Any] = {"metadata": {**changes, "resourceVersion": metadata.get("resourceVersion", "")}}
    if spec:
        patch["spec"] = spec
    return patch


def _taint(taint: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect"))


def _status(template: NodeTemplate) -> dict[str, Any]:
    status: dict[str, Any] = {"nodeInfo": {**_NO_INFO, **template.node_info}}
    if template.capacity:
        status["capacity"] = dict(template.capacity)
        status["allocatable"] = dict(template.capacity)
    return status


# The API wants all of them.
_NO_INFO = dict.fromkeys(
    (
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
        "kubeProxyVersion", "operatingSystem", "architecture",
    ),
    "",
)  # fmt: skip


def _status_patch(
    template: NodeTemplate, status: Mapping[str, Any], former: Mapping[str, list[str]], differences: list[str]
) -> Optional[dict[str, Any]]:
    patch: dict[str, Any] = {}
    for key in ("capacity", "allocatable"):
        there = status.get(key) or {}
        part: dict[str, Optional[str]] = {
            name: value for name, value in template.capacity.items() if not _equal(there.get(name), value)
        }
        part.update(
            {name: None for name in former.get("capacity", ()) if name in there and name not in template.capacity}
        )
        if part:
            patch[key] = part
            differences += [f"{key}.{name}" for name in sorted(part)]
    info = status.get("nodeInfo") or {}
    changed = {name: value for name, value in template.node_info.items() if info.get(name) != value}
    if changed:
        patch["nodeInfo"] = {**_NO_INFO, **info, **changed}
        differences += [f"nodeInfo.{name}" for name in sorted(changed)]
    return {"status": patch} if patch else None


def _equal(one: Optional[str], other: str) -> bool:
    try:
        return one is not None and parse_quantity(one) == parse_quantity(other)
    except ValueError:
        return one == other


def condition(obj: Mapping[str, Any], kind: str) -> Optional[Mapping[str, Any]]:
    """A condition of an object by its type."""
    found: Iterable[Mapping[str, Any]] = (obj.get("status") or {}).get("conditions") or ()
    return next((entry for entry in found if entry.get("type") == kind), None)


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether the node says that it is ready."""
    ready = condition(node, "Ready")
    return ready is not None and ready.get("status") == "True"
