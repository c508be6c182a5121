# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server requires of slices, checked before anything is sent: every violation with its object and field; private to the collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import show
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import fields, names
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.device_rules import (
    check_counters,
    check_device,
    has_lists,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import Violation, refuse_all
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.findings import Findings
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.pool_rules import pool_violations
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import (
    API_VERSIONS,
    NEWEST,
    V1BETA1,
    parse_kubernetes,
)


def check_slices(slices: Iterable[Mapping[str, Any]], kubernetes: Optional[str] = None, pools: bool = True) -> None:
    """Raise SliceError with everything that is wrong with a set of slices.

    ``kubernetes`` is the release whose limits hold, the newest unless given. With ``pools`` false, only what the API server
    itself would refuse counts; otherwise also what it takes and the scheduler then finds invalid.
    """
    release = NEWEST if kubernetes is None else parse_kubernetes(kubernetes)
    given = list(slices)
    violations: list[Violation] = []
    seen: dict[str, int] = {}
    for number, item in enumerate(given):
        name = describe(item, number)
        violations.extend(slice_violations(item, name, release))
        if seen.setdefault(name, number) != number:
            violations.append(Violation(name, "metadata.name", "is the name of two slices"))
    if pools and not violations:
        violations.extend(pool_violations(given))
    if violations:
        raise refuse_all(violations, "these slices cannot be used")


def describe(item: object, number: int) -> str:
    """What a message calls a slice: its name, or its place when it has none."""
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"ResourceSlice {name}" if isinstance(name, str) and name else f"ResourceSlice number {number + 1}"


def slice_violations(item: object, name: str, release: fields.Release) -> list[Violation]:
    """What is wrong with one slice alone."""
    found = Findings(name, release)
    top = found.mapping("", item, fields.SLICE)
    if not isinstance(item, Mapping):
        return found.violations
    if top.get("kind") != "ResourceSlice":
        found.add("kind", f"{show(top.get('kind'))} is not ResourceSlice")
    if top.get("apiVersion") not in API_VERSIONS:
        found.add("apiVersion", f"{show(top.get('apiVersion'))} is not known; allowed: {', '.join(API_VERSIONS)}")
        return found.violations
    metadata = found.mapping("metadata", top.get("metadata"))
    if metadata.get("name") is not None or metadata.get("generateName") is None:
        found.text("metadata.name", metadata.get("name"), lambda text: names.subdomain(text, fields.NAME_LENGTH))
    spec = found.mapping("spec", top.get("spec"), fields.SPEC)
    if spec:
        _check_spec(found, spec, top["apiVersion"] == V1BETA1)
    return found.violations


def _check_spec(found: Findings, spec: Mapping[str, Any], wrapped: bool) -> None:
    found.text("spec.driver", spec.get("driver"), lambda text: names.subdomain(text, fields.DRIVER_LENGTH))
    pool = found.mapping("spec.pool", spec.get("pool"), fields.POOL)
    if pool:
        found.text("spec.pool.name", pool.get("name"), names.pool)
        found.whole("spec.pool.generation", pool.get("generation", 0), 0)
        found.whole("spec.pool.resourceSliceCount", pool.get("resourceSliceCount"), 1)
    per_device = _check_nodes(found, spec)
    devices = _devices(found, spec, wrapped)
    seen: set[str] = set()
    for number, (field, device) in enumerate(devices):
        name = found.text(f"spec.devices[{number}].name", device.get("name"), names.label)
        if name and name in seen:
            found.add(f"spec.devices[{number}].name", f"{name!r} is the name of two devices of this slice")
        seen.add(name)
        check_device(found, field, device, per_device)
    _check_shared(found, spec, [device for _field, device in devices])


def _devices(found: Findings, spec: Mapping[str, Any], wrapped: bool) -> list[tuple[str, Mapping[str, Any]]]:
    """The devices with their fields, freed from v1beta1's wrapper."""
    result: list[tuple[str, Mapping[str, Any]]] = []
    items = found.items("spec.devices", spec.get("devices"), None, "devices")
    for number, item in enumerate(items):
        name = item.get("name") if isinstance(item, Mapping) else None
        field = f"spec.devices[{name or number}]"
        if wrapped:
            outer = found.mapping(field, item, _WRAPPER)
            field += ".basic"
            inner = found.mapping(field, outer.get("basic") or {}, fields.DEVICE)
            result.append((field, {**inner, "name": outer.get("name")}))
        else:
            result.append((field, found.mapping(field, item, fields.DEVICE)))
    limit = found.limits.devices
    advanced: list[str] = []
    if len(result) > found.limits.advanced_devices:
        advanced = [name for name, test in _ADVANCED.items() if any(test(device) for _field, device in result)]
    if advanced:
        limit = found.limits.advanced_devices
    if len(result) > limit:
        why = f" with {' and '.join(advanced)}" if advanced else ""
        found.add("spec.devices", f"has {len(result)} devices{why}; at most {limit} are allowed in a slice")
        return []
    return result


def _check_nodes(found: Findings, spec: Mapping[str, Any]) -> bool:
    """Exactly one way to say which nodes have the devices; whether the devices say it themselves."""
    choices = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    # v1beta1 has no nodes as an empty name and as false.
    given = [name for name in choices if spec.get(name) not in (None, "", False)]
    if len(given) != 1:
        what = " and ".join(given) if given else "none of them"
        found.add("spec", f"has {what}; exactly one of {', '.join(choices)} is allowed")
    if spec.get("nodeName"):
        found.text("spec.nodeName", spec["nodeName"], lambda text: names.subdomain(text, fields.NODE_LENGTH))
    if spec.get("nodeSelector") is not None:
        selector = found.mapping("spec.nodeSelector", spec["nodeSelector"])
        terms = selector.get("nodeSelectorTerms")
        if not isinstance(terms, list) or len(terms) != 1:
            found.add("spec.nodeSelector.nodeSelectorTerms", "is not a list of exactly one term")
    return spec.get("perDeviceNodeSelection") is True


def _check_shared(found: Findings, spec: Mapping[str, Any], devices: list[Mapping[str, Any]]) -> None:
    limits = found.limits
    sets = found.items("spec.sharedCounters", spec.get("sharedCounters"), limits.counter_sets, "counter sets")
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None and not limits.combined:
        found.add(
            "spec", "has sharedCounters and devices; since Kubernetes 1.35 only one of them is allowed in a slice"
        )
    seen: set[str] = set()
    total = 0
    for number, item in enumerate(sets):
        at = f"spec.sharedCounters[{number}]"
        entry = found.mapping(at, item, fields.COUNTER_SET)
        name = found.text(f"{at}.name", entry.get("name"), names.label)
        if name and name in seen:
            found.add(f"{at}.name", f"{name!r} is the name of two counter sets")
        seen.add(name)
        total += check_counters(found, f"{at}.counters", entry.get("counters"), limits.counters_per_set)
    if limits.counters_per_slice is not None and total > limits.counters_per_slice:
        found.add(
            "spec.sharedCounters", f"have {total} counters; at most {limits.counters_per_slice} are allowed in a slice"
        )
    if limits.consumed_per_slice is not None:
        consumed = sum(
            len(entry.get("counters") or {})
            for device in devices
            for entry in device.get("consumesCounters") or []
            if isinstance(entry, Mapping)
        )
        if consumed > limits.consumed_per_slice:
            found.add(
                "spec.devices",
                f"consume {consumed} counters; at most {limits.consumed_per_slice} are allowed in a slice",
            )


_WRAPPER: Mapping[str, fields.Release] = {"name": (1, 32), "basic": (1, 32)}
_ADVANCED = {
    "taints": lambda device: bool(device.get("taints")),
    "consumesCounters": lambda device: bool(device.get("consumesCounters")),
    "list attributes": has_lists,
}
