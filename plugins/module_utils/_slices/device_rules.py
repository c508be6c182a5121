# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server requires of one device of a slice; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import show
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import fields, names
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.findings import Findings, not_text
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.values import is_semantic_version, parse_quantity

_INT64 = 1 << 63


def check_device(found: Findings, field: str, device: Mapping[str, Any], per_device: bool) -> None:
    """Write down what is wrong with a device; ``device`` has no ``basic``, whatever ``field`` says."""
    attributes = found.mapping(f"{field}.attributes", device.get("attributes") or {})
    capacity = found.mapping(f"{field}.capacity", device.get("capacity") or {})
    total = len(attributes) + len(capacity)
    if total > fields.ATTRIBUTES_AND_CAPACITIES:
        found.add(
            field,
            f"has {total} attributes and capacities together; at most {fields.ATTRIBUTES_AND_CAPACITIES} are allowed",
        )
    lists = False
    for name, value in attributes.items():
        if not _is_plain(name, value):
            _check_attribute(found, f"{field}.attributes", name, value)
            lists = lists or _is_list(value)
    if found.limits.attribute_values is not None and lists:
        values = sum(_count_values(value) for value in attributes.values())
        if values > found.limits.attribute_values:
            found.add(
                f"{field}.attributes", f"have {values} values; at most {found.limits.attribute_values} are allowed"
            )
    shared = device.get("allowMultipleAllocations") is True
    for name, value in capacity.items():
        _check_capacity(found, f"{field}.capacity", name, value, shared)
    _check_taints(found, field, device)
    _check_consumption(found, field, device)
    _check_nodes(found, field, device, per_device)
    _check_conditions(found, field, device)


def has_lists(device: Mapping[str, Any]) -> bool:
    """Whether an attribute of the device has a list."""
    attributes = device.get("attributes")
    return isinstance(attributes, Mapping) and any(_is_list(value) for value in attributes.values())


def _is_list(value: object) -> bool:
    return isinstance(value, Mapping) and not fields.LISTS.keys().isdisjoint(value)


def check_counters(found: Findings, field: str, counters: object, limit: Optional[int]) -> int:
    """The counters of a set or of a device; how many they are."""
    if not counters:
        found.add(field, "is missing; a set without counters is not allowed")
        return 0
    items = found.mapping(field, counters)
    if limit is not None and len(items) > limit:
        found.add(field, f"has {len(items)} counters; at most {limit} are allowed")
        return len(items)
    for name, value in items.items():
        found.text(f"{field}[{name}]", name, names.label)
        entry = found.mapping(f"{field}[{name}]", value, fields.COUNTER)
        if entry:
            _quantity(found, f"{field}[{name}].value", entry.get("value"))
    return len(items)


def _is_plain(name: object, value: object) -> bool:
    """Whether an attribute is a short text under a good name, as nearly all are; the others are looked at closely."""
    if not isinstance(value, dict) or len(value) != 1 or not isinstance(name, str):
        return False
    text = value.get("string")
    return (
        isinstance(text, str) and text.isascii() and len(text) <= fields.VALUE_BYTES and names.attribute(name) is None
    )


def _check_attribute(found: Findings, field: str, name: object, value: object) -> None:
    wrong = names.attribute(name) if isinstance(name, str) else "is not text"
    at = f"{field}[{name}]"
    if wrong is not None:
        found.add(at, f"the name {wrong}")
    if not isinstance(value, Mapping):
        found.add(at, f'{show(value)} is not a mapping; write the kind of the value, such as {{"string": "..."}}')
        return
    if len(value) != 1 or not value.keys() <= fields.SCALARS.keys():
        found.mapping(at, value, fields.ATTRIBUTE)
        given = [kind for kind in fields.ATTRIBUTE if value.get(kind) is not None]
        if len(given) != 1:
            kinds = " and ".join(given) if given else "no value"
            found.add(at, f"has {kinds}; exactly one of {', '.join(fields.ATTRIBUTE)} is allowed")
            return
    for kind, item in value.items():
        if kind in fields.SCALARS:
            _check_value(found, f"{at}.{kind}", kind, item)
        elif kind in fields.LISTS and item is not None:
            entries = found.items(f"{at}.{kind}", item, None, "values")
            if item == []:
                found.add(f"{at}.{kind}", "is empty")
            for number, entry in enumerate(entries):
                _check_value(found, f"{at}.{kind}[{number}]", kind[:-1], entry)


def _check_value(found: Findings, field: str, kind: str, value: object) -> None:
    if kind == "bool":
        if not isinstance(value, bool):
            found.add(field, f"{show(value)} is not true or false")
    elif kind == "int":
        if isinstance(value, bool) or not isinstance(value, int):
            found.add(field, f"{show(value)} is not a whole number")
        elif not -_INT64 <= value < _INT64:
            found.add(field, f"{value} does not fit into 64 bits")
    elif not isinstance(value, str):
        found.add(field, not_text(value))
    else:
        size = len(value.encode())
        if size > fields.VALUE_BYTES:
            found.add(field, f"{show(value)} has {size} bytes; at most {fields.VALUE_BYTES} are allowed")
        if kind == "version" and not is_semantic_version(value):
            found.add(
                field,
                f"{show(value)} is no semantic version: three numbers without leading zeros, such as 580.105.8, as "
                "https://semver.org has them",
            )


def _count_values(value: object) -> int:
    if not isinstance(value, Mapping):
        return 1
    return sum(len(item) for kind, item in value.items() if kind in fields.LISTS and isinstance(item, list)) or 1


def _check_capacity(found: Findings, field: str, name: object, value: object, shared: bool) -> None:
    at = f"{field}[{name}]"
    wrong = names.attribute(name) if isinstance(name, str) else "is not text"
    if wrong is not None:
        found.add(at, f"the name {wrong}")
    if not isinstance(value, Mapping):
        found.add(at, f'{show(value)} is not a mapping; write {{"value": "80Gi"}}')
        return
    entry = found.mapping(at, value, fields.CAPACITY)
    whole = _quantity(found, f"{at}.value", entry.get("value"))
    policy = entry.get("requestPolicy")
    if policy is None:
        return
    if not shared:
        found.add(f"{at}.requestPolicy", "is allowed only on a device with allowMultipleAllocations: true")
    elif whole is not None:
        _check_policy(found, f"{at}.requestPolicy", found.mapping(f"{at}.requestPolicy", policy, fields.POLICY), whole)


def _check_policy(found: Findings, field: str, policy: Mapping[str, Any], whole: Fraction) -> None:
    values, span = policy.get("validValues"), policy.get("validRange")
    if values and span is not None:
        found.add(field, "has validValues and validRange; one of them is allowed")
        return
    if not values and span is None:
        return
    default = _quantity(found, f"{field}.default", policy.get("default"))
    if default is None:
        return
    if values:
        given = found.items(f"{field}.validValues", values, fields.VALID_VALUES, "values")
        options = [_quantity(found, f"{field}.validValues[{number}]", value) for number, value in enumerate(given)]
        numbers = [option for option in options if option is not None]
        if numbers != sorted(set(numbers)):
            found.add(f"{field}.validValues", "are not in ascending order, each once")
        if numbers and max(numbers) > whole:
            found.add(f"{field}.validValues", "are larger than the capacity")
        if numbers and default not in numbers:
            found.add(f"{field}.default", "is not one of validValues")
        return
    _check_range(found, f"{field}.validRange", found.mapping(f"{field}.validRange", span, fields.RANGE), default, whole)


def _check_range(found: Findings, field: str, span: Mapping[str, Any], default: Fraction, whole: Fraction) -> None:
    least = _quantity(found, f"{field}.min", span.get("min"))
    if least is None:
        return
    most = _quantity(found, f"{field}.max", span["max"]) if span.get("max") is not None else None
    step = _quantity(found, f"{field}.step", span["step"]) if span.get("step") is not None else None
    if least > whole or (most is not None and most > whole):
        found.add(field, "goes beyond the capacity")
    if most is not None and least > most:
        found.add(f"{field}.min", "is larger than max")
    if default < least or (most is not None and default > most):
        found.add(field, "does not hold the default")
    if step is None:
        return
    if step <= 0:
        found.add(f"{field}.step", "is not greater than zero")
        return
    if least + step > whole:
        found.add(f"{field}.step", "leads beyond the capacity at once")
    for name, number in (("default", default), ("max", most)):
        if number is not None and (number - least) % step != 0:
            found.add(f"{field}.step", f"does not lead from min to {name}")


def _check_taints(found: Findings, field: str, device: Mapping[str, Any]) -> None:
    for number, item in enumerate(found.items(f"{field}.taints", device.get("taints"), found.limits.taints, "taints")):
        at = f"{field}.taints[{number}]"
        taint = found.mapping(at, item, fields.TAINT)
        found.text(f"{at}.key", taint.get("key"), names.label_key)
        if taint.get("value"):
            found.text(f"{at}.value", taint["value"], names.label_value)
        if taint.get("effect") not in fields.TAINT_EFFECTS:
            allowed = ", ".join(fields.TAINT_EFFECTS)
            found.add(f"{at}.effect", f"{show(taint.get('effect'))} is no effect; allowed: {allowed} (as texts)")


def _check_consumption(found: Findings, field: str, device: Mapping[str, Any]) -> None:
    limits = found.limits
    at = f"{field}.consumesCounters"
    seen: set[str] = set()
    for number, item in enumerate(
        found.items(at, device.get("consumesCounters"), limits.consumptions_per_device, "counter sets")
    ):
        consumed = found.mapping(f"{at}[{number}]", item, fields.CONSUMPTION)
        name = found.text(f"{at}[{number}].counterSet", consumed.get("counterSet"), names.label)
        if name and name in seen:
            found.add(f"{at}[{number}].counterSet", f"{name!r} is there twice")
        seen.add(name)
        check_counters(found, f"{at}[{number}].counters", consumed.get("counters"), limits.counters_per_set)


def _check_nodes(found: Findings, field: str, device: Mapping[str, Any], per_device: bool) -> None:
    given = [name for name in ("nodeName", "nodeSelector", "allNodes") if device.get(name) is not None]
    if not per_device and given:
        found.add(field, f"has {' and '.join(given)}, which needs perDeviceNodeSelection: true in the slice's spec")
    if per_device and len(given) != 1:
        found.add(field, "needs exactly one of nodeName, nodeSelector and allNodes, as perDeviceNodeSelection is true")
    if device.get("nodeName") is not None:
        found.text(f"{field}.nodeName", device["nodeName"], lambda name: names.subdomain(name, fields.NODE_LENGTH))
    if device.get("allNodes") is not None and device["allNodes"] is not True:
        found.add(f"{field}.allNodes", "is not true; leave it out instead")


def _check_conditions(found: Findings, field: str, device: Mapping[str, Any]) -> None:
    conditions: dict[str, list[Any]] = {}
    for name in ("bindingConditions", "bindingFailureConditions"):
        conditions[name] = found.items(f"{field}.{name}", device.get(name), fields.BINDING_CONDITIONS, "conditions")
        for number, condition in enumerate(conditions[name]):
            found.text(f"{field}.{name}[{number}]", condition, names.label_key)
    every = [str(condition) for items in conditions.values() for condition in items]
    if len(set(every)) != len(every):
        found.add(f"{field}.bindingConditions", "and bindingFailureConditions have a condition twice")


def _quantity(found: Findings, field: str, value: object) -> Optional[Fraction]:
    if value is None:
        found.add(field, "is missing")
        return None
    number = parse_quantity(value)
    if number is None:
        found.add(field, f'{show(value)} is no quantity; write one such as "80Gi" or "132"')
    return number
