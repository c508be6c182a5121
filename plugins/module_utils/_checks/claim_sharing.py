# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what a claim holds is its own: nothing given twice, and shared counters and capacity not over-committed. Private to the collection."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Iterable, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import (
    Device,
    DeviceKey,
    Holder,
    Object,
    PoolKey,
    View,
    result_key,
    results_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pools import generation_of, memory_slices
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.quantity import parse_quantity

# Counter set and counter -> how much.
Amounts = dict[tuple[str, str], Fraction]


def shared_checks(subject: Subject, name: str, view: View, claim: Object) -> list[Check]:
    """What a claim holds, next to what all other claims hold."""
    bad = _twice(view, claim) + _same_hardware(view, claim)
    checks = [
        subject.failed(name, "claim.exclusive", "; ".join(bad), {"devices": _held(view, claim)})
        if bad
        else subject.passed(name, "claim.exclusive", "no other claim has one of its devices")
    ]
    pools = sorted({result_key(result)[:2] for result in results_of(claim)} & set(view.pools))
    counted = [pool for pool in pools if _available(view, pool) or _uses_counters(view, claim, pool)]
    over = [problem for pool in counted for problem in overcommitted(view, pool)]
    if over:
        checks.append(subject.failed(name, "claim.counters", "; ".join(over)))
    elif counted:
        checks.append(
            subject.passed(name, "claim.counters", f"the shared counters of {_pools(counted)} are not over-committed")
        )
    return checks


def _twice(view: View, claim: Object) -> list[str]:
    bad = []
    seen: set[DeviceKey] = set()
    for result in results_of(claim):
        key = result_key(result)
        if result.get("adminAccess") or key in seen:
            continue
        seen.add(key)
        holders = view.owners(key)
        if len(holders) < 2:
            continue
        device = view.devices.get(key)
        if device is not None and device.body.get("allowMultipleAllocations"):
            bad += _shares(device, holders)
        else:
            bad.append(
                f"device {key[2]} of {key[1]} is allocated {len(holders)} times:"
                f" {', '.join(holder.words for holder in holders)}"
            )
    return bad


def _shares(device: Device, holders: list[Holder]) -> list[str]:
    """A device that may be shared: each share once, and together no more than there is."""
    bad = []
    shares = [str(holder.result.get("shareID")) for holder in holders]
    if len(set(shares)) != len(shares):
        bad.append(f"one share of {device.words} is given {len(shares)} times")
    used: dict[str, Fraction] = {}
    for holder in holders:
        for name, amount in (holder.result.get("consumedCapacity") or {}).items():
            used[str(name)] = used.get(str(name), Fraction(0)) + parse_quantity(str(amount))
    for name, amount in sorted(used.items()):
        there = (device.body.get("capacity") or {}).get(name) or {}
        if amount > parse_quantity(str(there.get("value", "0"))):
            bad.append(f"{device.words}: {_number(amount)} of {name} is given, there is {there.get('value', 'none')}")
    return bad


def _same_hardware(view: View, claim: Object) -> list[str]:
    """One piece of hardware under two names: a GPU and a MIG device on it, or MIG devices that overlap."""
    bad = []
    for result in results_of(claim):
        device = view.devices.get(result_key(result))
        if device is None or result.get("adminAccess"):
            continue
        for key in view.owned_on.get(device.node, ()):
            words = _shared_hardware(device, view.devices[key], view.owners(key)[0].words)
            if words:
                bad.append(words)
    return list(dict.fromkeys(bad))


def _shared_hardware(device: Device, other: Device, owner: str) -> str:
    if device.key == other.key or device.key[0] != other.key[0]:
        return ""
    place = f"{other.key[2]} of {other.key[1]}"
    parent, parent_of_other = _text(device, "parentUUID"), _text(other, "parentUUID")
    if parent and parent == _text(other, "uuid"):
        return f"{device.key[2]} is a part of {place}, which {owner} has as a whole"
    if parent_of_other and parent_of_other == _text(device, "uuid"):
        return f"{device.key[2]} has {place} as a part, which {owner} has"
    both = set(memory_slices(device.body)) & set(memory_slices(other.body))
    if parent and parent == parent_of_other and both:
        numbers = ", ".join(map(str, sorted(both)))
        return f"{device.key[2]} and {place}, which {owner} has, both have memory slice {numbers} of {parent}"
    return ""


def _text(device: Device | None, name: str) -> str:
    attributes: Mapping[str, Any] = (device.body.get("attributes") or {}) if device is not None else {}
    domain = device.key[0] if device is not None else ""
    value = attributes.get(name) or attributes.get(f"{domain}/{name}") or {}
    return str(value.get("string") or "")


def overcommitted(view: View, pool: PoolKey, leave_out: Iterable[DeviceKey] = ()) -> list[str]:
    """The counters of a pool of which more is used than there is."""
    there = _available(view, pool)
    bad = []
    for (counter_set, counter), amount in sorted(consumed(view, pool, leave_out).items()):
        limit = there.get((counter_set, counter))
        where = f"counter {counter} of {counter_set} (pool {pool[1]})"
        if limit is None:
            bad.append(f"{where} is used and not defined")
        elif amount > limit:
            bad.append(f"{where} is over-committed: {_number(amount)} used of {_number(limit)}")
    return bad


def consumed(view: View, pool: PoolKey, leave_out: Iterable[DeviceKey] = ()) -> Amounts:
    """What all allocated devices of a pool use of its counters, each device once."""
    skipped = set(leave_out)
    total: Amounts = {}
    for key in view.holders:
        device = view.devices.get(key)
        if key[:2] == pool and device is not None and key not in skipped and view.owners(key):
            for name, amount in consumption(device).items():
                total[name] = total.get(name, Fraction(0)) + amount
    return total


def consumption(device: Device) -> Amounts:
    """What a device uses of counters when it is allocated."""
    return {
        (str(used["counterSet"]), str(counter)): parse_quantity(str(value["value"]))
        for used in device.body.get("consumesCounters") or ()
        for counter, value in (used.get("counters") or {}).items()
    }


def fits(view: View, device: Device, used: Amounts) -> bool:
    """Whether the counters of its pool have room for one more device."""
    there = _available(view, device.key[:2])
    return all(
        used.get(name, Fraction(0)) + amount <= there.get(name, -1) for name, amount in consumption(device).items()
    )


def _available(view: View, pool: PoolKey) -> Amounts:
    """The counters of a pool, which are in the slices of the devices or, since 1.35, in slices of their own."""
    newest = view.generation(pool)
    return {
        (str(one["name"]), str(counter)): parse_quantity(str(value["value"]))
        for slice_ in view.pools[pool]
        if generation_of(slice_) == newest
        for one in slice_["spec"].get("sharedCounters") or ()
        for counter, value in (one.get("counters") or {}).items()
    }


def _uses_counters(view: View, claim: Object, pool: PoolKey) -> bool:
    keys = [key for key in map(result_key, results_of(claim)) if key[:2] == pool]
    return any(key in view.devices and view.devices[key].body.get("consumesCounters") for key in keys)


def _held(view: View, claim: Object) -> dict[str, list[str]]:
    return {
        "/".join(result_key(result)): [holder.words for holder in view.holders.get(result_key(result), ())]
        for result in results_of(claim)
    }


def _pools(pools: Iterable[PoolKey]) -> str:
    return ", ".join(f"{pool[1]} ({pool[0]})" for pool in pools)


def _number(value: Fraction) -> str:
    return str(int(value)) if value.denominator == 1 else str(float(value))
