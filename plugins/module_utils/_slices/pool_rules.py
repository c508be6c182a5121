# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler requires of pools, which the API server does not look at; private to the collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.convert import unwrap_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import Violation
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.values import parse_quantity
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import V1BETA1


def pool_violations(slices: Iterable[Mapping[str, Any]]) -> list[Violation]:
    """What is wrong with the pools that slices make up; each slice alone is valid."""
    pools: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in slices:
        pools.setdefault((item["spec"]["driver"], item["spec"]["pool"]["name"]), []).append(item)
    violations: list[Violation] = []
    for (driver, name), members in pools.items():
        violations.extend(_pool(f"pool {name} of {driver}", members))
    return violations


def newest_slices(slices: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those slices of a pool that have its newest generation, which are the ones that count."""
    newest = max(_generation(item) for item in slices)
    return [item for item in slices if _generation(item) == newest]


def devices_of(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The devices of a slice, in whatever version, as v1 has them."""
    devices: list[dict[str, Any]] = item["spec"].get("devices") or []
    return unwrap_devices(devices) if item["apiVersion"] == V1BETA1 else devices


def _generation(item: Mapping[str, Any]) -> int:
    """The API has no generation as 0."""
    generation: int = item["spec"]["pool"].get("generation") or 0
    return generation


def _pool(name: str, members: Sequence[Mapping[str, Any]]) -> list[Violation]:
    found: list[Violation] = []
    nodes = sorted({str(item["spec"]["nodeName"]) for item in members if item["spec"].get("nodeName")})
    if len(nodes) > 1:
        found.append(
            Violation(name, "spec.pool.name", f"is the name of pools of {len(nodes)} nodes: {', '.join(nodes[:3])}")
        )
        return found
    current = newest_slices(members)
    if len(current) != len(members):
        newest = _generation(current[0])
        found.append(
            Violation(
                name, "spec.pool.generation", f"{len(members) - len(current)} slices are older than generation {newest}"
            )
        )
    counts = sorted({item["spec"]["pool"]["resourceSliceCount"] for item in current})
    if len(counts) > 1:
        found.append(
            Violation(
                name, "spec.pool.resourceSliceCount", f"differs between its slices: {', '.join(map(str, counts))}"
            )
        )
    elif counts != [len(current)]:
        found.append(
            Violation(
                name,
                "spec.pool.resourceSliceCount",
                f"says {counts[0]}, but there are {len(current)} slices of that generation; nothing of it would be allocated",
            )
        )
    found.extend(_devices(name, current))
    return found


def _devices(name: str, current: Sequence[Mapping[str, Any]]) -> list[Violation]:
    found: list[Violation] = []
    counters = _counters(current)
    seen: dict[str, str] = {}
    for item in current:
        for device in devices_of(item):
            here = str(item["metadata"].get("name") or "a slice without a name")
            if device["name"] in seen:
                where = f"in {seen[device['name']]} and {here}"
                found.append(Violation(name, "spec.devices", f"two devices are named {device['name']}, {where}"))
            seen[device["name"]] = here
            found.extend(_consumption(name, device, counters))
    return found


def _counters(current: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Fraction]]:
    return {
        entry["name"]: _numbers(entry["counters"])
        for item in current
        for entry in item["spec"].get("sharedCounters") or []
    }


def _consumption(
    name: str, device: Mapping[str, Any], counters: Mapping[str, Mapping[str, Fraction]]
) -> list[Violation]:
    found: list[Violation] = []
    for consumed in device.get("consumesCounters") or []:
        field = f"spec.devices[{device['name']}].consumesCounters"
        whole = counters.get(consumed["counterSet"])
        if whole is None:
            found.append(
                Violation(
                    name, field, f"names the counter set {consumed['counterSet']}, which no slice of the pool has"
                )
            )
            continue
        for counter, amount in _numbers(consumed["counters"]).items():
            if counter not in whole:
                found.append(Violation(name, field, f"names {counter}, which {consumed['counterSet']} has not"))
            elif amount > whole[counter]:
                found.append(Violation(name, field, f"takes more of {counter} than {consumed['counterSet']} has"))
    return found


def _numbers(counters: Mapping[str, Mapping[str, Any]]) -> dict[str, Fraction]:
    return {counter: parse_quantity(entry["value"]) or Fraction(0) for counter, entry in counters.items()}
