# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ResourceSlice says, in a form that two slices can be compared in, and what an API server left out. Private to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Iterable, Iterator, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import digest

Slice = dict[str, Any]
# Brings a slice into the form of resource.k8s.io/v1 with canonical values; the room that knows devices has it.
Canonical = Callable[[Mapping[str, Any]], Slice]

# Which feature gate switches a field on (API documentation of resource.k8s.io, 1.33 to 1.37).
_GATES = {
    "sharedCounters": "DRAPartitionableDevices",
    "consumesCounters": "DRAPartitionableDevices",
    "perDeviceNodeSelection": "DRAPartitionableDevices",
    "partitionTypeAttribute": "DRAPartitionableDevices",
    "taints": "DRADeviceTaints",
    "bindsToNode": "DRADeviceBindingConditions",
    "bindingConditions": "DRADeviceBindingConditions",
    "bindingFailureConditions": "DRADeviceBindingConditions",
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "requestPolicy": "DRAConsumableCapacity",
    "ints": "DRAListTypeAttributes",
    "bools": "DRAListTypeAttributes",
    "strings": "DRAListTypeAttributes",
    "versions": "DRAListTypeAttributes",
    "nodeAllocatableResources": "DRANodeAllocatableResources",
}


def comparable(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A canonical spec without its generation, with lists of named things in the order of the names.

    Real drivers publish devices in no particular order, so the order says nothing.
    """
    result = dict(spec)
    result["pool"] = {key: value for key, value in (spec.get("pool") or {}).items() if key != "generation"}
    for key in ("devices", "sharedCounters"):
        if key in result:
            result[key] = sorted((_plain(item) for item in result[key]), key=_name)
    return result


def content_digest(canonical: Slice) -> str:
    """Equal for slices that say the same."""
    return digest(comparable(canonical.get("spec") or {}))


def _plain(item: Any) -> Any:
    if not isinstance(item, Mapping) or "taints" not in item:
        return item
    # The server notes when a taint was added, if we do not say.
    taints = [{key: value for key, value in taint.items() if key != "timeAdded"} for taint in item["taints"]]
    return {**item, "taints": sorted(taints, key=lambda taint: (str(taint.get("key")), str(taint.get("effect"))))}


def _name(item: Any) -> str:
    return str(item.get("name", "")) if isinstance(item, Mapping) else str(item)


def missing_fields(sent: Any, received: Any, path: str = "") -> Iterator[str]:
    """The fields that were sent and did not come back, as paths with `[]` for any item of a list."""
    if isinstance(sent, Mapping):
        if not isinstance(received, Mapping):
            yield path
            return
        for key, value in sent.items():
            at = f"{path}.{key}" if path else str(key)
            if key not in received:
                # Nothing is lost with what is empty.
                if not (value is None or value is False or (isinstance(value, (str, list, Mapping)) and not value)):
                    yield at
            else:
                yield from missing_fields(value, received[key], at)
    elif isinstance(sent, list) and isinstance(received, list):
        others = {_name(item): item for item in received if isinstance(item, Mapping) and "name" in item}
        for position, item in enumerate(sent):
            other = others.get(_name(item)) if others else None
            if other is None and position < len(received):
                other = received[position]
            if other is None:
                yield f"{path}[]"
            elif isinstance(item, (Mapping, list)):
                yield from missing_fields(item, other, f"{path}[]")


def dropped_message(paths: Mapping[str, str]) -> str:
    """One sentence about fields (path -> a slice that has it) that the server does not keep."""
    parts = []
    for path, name in sorted(paths.items()):
        field = path.replace("[]", "").rpartition(".")[2]
        gate = _GATES.get(field)
        parts.append(f"spec.{path} (in {name}{f'; feature gate {gate}' if gate else ''})")
    return (
        f"the API server silently drops {', '.join(parts)}: it does not know the field, or the feature gate for it is off;"
        " switch the gate on in kube-apiserver, kube-scheduler and kube-controller-manager, or leave the field out"
    )


def shape(spec: Mapping[str, Any]) -> frozenset[str]:
    """The fields that a spec uses; slices of one shape fare the same with feature gates."""
    found: set[str] = set()
    _collect(spec, "", found)
    return frozenset(found)


# Names of attributes, capacities and counters are data, and not fields.
_NAMED = (".attributes", ".capacity", ".counters")


def _collect(value: Any, path: str, found: set[str]) -> None:
    # Plain types only: this walks through everything that is published.
    if isinstance(value, dict):
        named = path.endswith(_NAMED)
        for key, item in value.items():
            at = f"{path}.*" if named else f"{path}.{key}"
            if isinstance(item, (dict, list)):
                _collect(item, at, found)
            else:
                found.add(at)
    elif isinstance(value, list):
        at = f"{path}[]"
        for item in value:
            if isinstance(item, (dict, list)):
                _collect(item, at, found)
            else:
                found.add(at)


def by_pool(slices: Iterable[Slice]) -> dict[tuple[str, str], list[Slice]]:
    """Slices by driver and pool."""
    found: dict[tuple[str, str], list[Slice]] = {}
    for slice_ in slices:
        key = (str(slice_["spec"]["driver"]), str(slice_["spec"]["pool"]["name"]))
        found.setdefault(key, []).append(slice_)
    return found


def without(slice_: Slice, paths: Mapping[str, str]) -> Slice:
    """The slice without the fields at these paths (`devices[].taints`); what is given stays as it is."""
    spec = slice_["spec"]
    for path in paths:
        spec = _left(spec, path.split("."))
    return slice_ if spec is slice_["spec"] else {**slice_, "spec": spec}


def _left(value: Any, parts: Sequence[str]) -> Any:
    """The value without what is at the path; parts that it does not touch are shared."""
    key, rest = parts[0], parts[1:]
    many, key = key.endswith("[]"), key[:-2] if key.endswith("[]") else key
    if not isinstance(value, dict) or key not in value:
        return value
    if not rest:
        # A list whose items vanish is dropped as a whole.
        return {name: item for name, item in value.items() if name != key}
    inner = value[key]
    return {**value, key: [_left(item, rest) for item in inner] if many else _left(inner, rest)}
