# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices from one version of resource.k8s.io to another, and in the form in which the API server returns them; private to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.values import canonical_quantity
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import API_VERSIONS, V1, V1BETA1

_NAME = "name"
_BASIC = "basic"


def plain_copy(value: Any) -> Any:
    """A copy of what JSON can hold; several times as fast as copy.deepcopy, which follows references."""
    if isinstance(value, dict):
        return {key: plain_copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_copy(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain_copy(item) for key, item in value.items()}
    return value


def wrap_devices(devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Devices as v1beta1 has them: everything but the name in ``basic``."""
    return [
        {_BASIC: {key: value for key, value in device.items() if key != _NAME}, _NAME: device[_NAME]}
        if _NAME in device
        else {_BASIC: device}
        for device in devices
    ]


def unwrap_devices(devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Devices of v1beta1 as later versions have them."""
    return [
        {**(device.get(_BASIC) or {}), **{key: value for key, value in device.items() if key != _BASIC}}
        for device in devices
    ]


def convert(slice_: Mapping[str, Any], api_version: str) -> dict[str, Any]:
    """A copy of the slice for another version of the API."""
    if api_version not in API_VERSIONS:
        raise SliceError(f"{api_version!r} is no version of ResourceSlices; allowed: {', '.join(API_VERSIONS)}")
    given = slice_.get("apiVersion")
    if given not in API_VERSIONS:
        raise SliceError(f"apiVersion: {given!r} is no version of ResourceSlices; allowed: {', '.join(API_VERSIONS)}")
    result: dict[str, Any] = plain_copy(slice_)
    result["apiVersion"] = api_version
    spec = result.get("spec")
    devices = spec.get("devices") if isinstance(spec, dict) else None
    if isinstance(spec, dict) and isinstance(devices, list) and all(isinstance(device, dict) for device in devices):
        if given == V1BETA1 and api_version != V1BETA1:
            spec["devices"] = unwrap_devices(devices)
        elif given != V1BETA1 and api_version == V1BETA1:
            spec["devices"] = wrap_devices(devices)
    return result


def canonical(slice_: Mapping[str, Any]) -> dict[str, Any]:
    """A copy as the API server would return it: canonical quantities, nothing empty, devices and attributes as they are."""
    result: dict[str, Any] = plain_copy(slice_)
    spec = result.get("spec")
    if not isinstance(spec, dict):
        return result
    for name in ("nodeName", "allNodes", "perDeviceNodeSelection", "nodeSelector"):
        if spec.get(name) in (None, "", False):
            spec.pop(name, None)
    for counter_set in _dicts(spec.get("sharedCounters")):
        _canonical_values(counter_set.get("counters"))
    for device in _dicts(spec.get("devices")):
        body = device[_BASIC] if isinstance(device.get(_BASIC), dict) else device
        for consumed in _dicts(body.get("consumesCounters")):
            _canonical_values(consumed.get("counters"))
        _canonical_values(body.get("capacity"))
        for name in (
            "attributes",
            "capacity",
            "consumesCounters",
            "taints",
            "bindingConditions",
            "bindingFailureConditions",
        ):
            if name in body and not body[name]:
                del body[name]
    if not spec.get("sharedCounters"):
        spec.pop("sharedCounters", None)
    return result


def as_v1(slice_: Mapping[str, Any]) -> dict[str, Any]:
    """A slice in the form of resource.k8s.io/v1; what is in it already is shared, not copied."""
    return dict(slice_) if slice_["apiVersion"] == V1 else convert(slice_, V1)


def comparable(slice_: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a slice in the one form in which slices are compared."""
    return canonical(as_v1(slice_))


def exporter(api_version: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """From the form of resource.k8s.io/v1 to that of the version in which slices are sent."""
    return dict if api_version == V1 else lambda slice_: convert(slice_, api_version)


def _dicts(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _canonical_values(values: Any) -> None:
    """Quantities of capacities and counters, and of what a capacity's requests may be."""
    for item in _dicts(list(values.values())) if isinstance(values, dict) else []:
        if "value" in item:
            item["value"] = _quantity(item["value"])
        policy = item.get("requestPolicy")
        if isinstance(policy, dict):
            if "default" in policy:
                policy["default"] = _quantity(policy["default"])
            if isinstance(policy.get("validValues"), list):
                policy["validValues"] = [_quantity(value) for value in policy["validValues"]]
            if isinstance(policy.get("validRange"), dict):
                policy["validRange"] = {key: _quantity(value) for key, value in policy["validRange"].items()}


def _quantity(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return value
    return canonical_quantity(value if isinstance(value, str) else repr(value))
