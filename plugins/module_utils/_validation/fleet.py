# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a cluster a scenario can use, and who uses which at the moment. Private to the collection.

Nodes that look the same are one group, so that a fleet of thousands needs no more work than one of each machine.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import (
    Request,
    Selectors,
    attribute_values,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import Device, Object, PoolKey, View
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pools import (
    Problem,
    SliceFacts,
    facts_of,
    problems_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.observe import Observer
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.scenario import Alignment, DeviceNeed, Needs

# How often somebody who waits for a node looks whether the time is up.
_WAKE_S = 1.0


class Skip(Exception):
    """The cluster cannot show what the scenario is about."""


@dataclass
class Fit:
    """How well a node suits a scenario. A doubtful one looks broken: there the scenario has to run, and to fail."""

    suits: bool
    doubtful: bool = False
    reason: str = ""
    devices: dict[str, list[Device]] = field(default_factory=dict)


class Lease(NamedTuple):
    """Nodes that a scenario has for itself, and their devices by the name of the need."""

    nodes: tuple[str, ...]
    devices: Mapping[str, list[Device]]
    # Why the devices are not what the scenario needs, on nodes that were taken although they are doubtful.
    doubts: tuple[str, ...] = ()


class Fleet:
    """What a cluster has, from one list of slices and one of nodes."""

    def __init__(self, slices: Iterable[Object], nodes: Iterable[Object], only: Sequence[str] = ()) -> None:
        self.pools: dict[PoolKey, list[SliceFacts]] = {}
        shapes: dict[str, list[int]] = {}
        for slice_ in slices:
            facts = facts_of(slice_)
            self.pools.setdefault((facts.driver, facts.pool), []).append(facts)
            if facts.node:
                shapes.setdefault(facts.node, []).append(_shape(slice_))
        usable = {str(node["metadata"]["name"]) for node in nodes if _usable(node)}
        self.groups: dict[tuple[int, ...], list[str]] = {}
        for name in sorted(set(shapes) & usable):
            if not only or name in only:
                self.groups.setdefault(tuple(sorted(shapes[name])), []).append(name)

    @property
    def nodes(self) -> int:
        return sum(len(names) for names in self.groups.values())

    def problems(self) -> dict[PoolKey, list[Problem]]:
        """The pools that something is wrong with."""
        found = {key: problems_of(facts) for key, facts in sorted(self.pools.items())}
        return {key: problems for key, problems in found.items() if problems}


def _shape(slice_: Object) -> int:
    """Equal for slices whose devices differ in nothing but their values."""
    spec = slice_["spec"]
    devices = [
        (
            str(device["name"]),
            tuple(sorted(map(str, device.get("attributes") or {}))),
            tuple(sorted((str(name), str(value)) for name, value in (device.get("capacity") or {}).items())),
        )
        for device in spec.get("devices") or ()
    ]
    return hash((str(spec["driver"]), tuple(sorted(devices))))


def _usable(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return ready and not (node.get("spec") or {}).get("unschedulable")


class Leases:
    """Gives nodes to scenarios that run at the same time, each to one. Safe to use from many threads."""

    def __init__(self, fleet: Fleet, observer: Observer) -> None:
        self.fleet = fleet
        self.observer = observer
        self._taken: set[str] = set()
        self._changed = threading.Condition()

    def acquire(self, needs: Needs, deadline: Deadline, selectors: Selectors) -> Lease:
        """Wait for nodes that suit; Skip when the cluster has none."""
        if needs.nodes == 0:
            return Lease((), {})
        groups = self._suitable(needs, selectors)
        while True:
            lease, busy, contended = self._try(needs, groups, selectors)
            if lease is not None:
                return lease
            if not contended:
                raise Skip(busy or f"needs {needs.nodes} such nodes at once, and the cluster has fewer")
            if deadline.expired():
                raise Skip(f"no node became free within {deadline.timeout_s:.0f} s; {busy}")
            with self._changed:
                self._changed.wait(timeout=_WAKE_S)

    def release(self, lease: Lease) -> None:
        with self._changed:
            self._taken -= set(lease.nodes)
            self._changed.notify_all()

    def _suitable(self, needs: Needs, selectors: Selectors) -> list[list[str]]:
        """The groups whose nodes suit; if there are none, those that might if they were not broken."""
        seen = self.observer.look()
        good: list[list[str]] = []
        doubtful: list[list[str]] = []
        reasons: list[str] = []
        for names in self.fleet.groups.values():
            view = View(self.observer.slices_of_nodes(names[:1]), [], [], seen.classes)
            fit = fit_of(view, names[0], needs, selectors)
            if fit.suits:
                (doubtful if fit.doubtful else good).append(names)
            else:
                reasons.append(fit.reason)
        if good or doubtful:
            return good or doubtful
        if not self.fleet.groups:
            raise Skip("no node that is ready has ResourceSlices")
        raise Skip("no node has what it needs: " + "; ".join(list(dict.fromkeys(reasons))[:3]))

    def _try(self, needs: Needs, groups: list[list[str]], selectors: Selectors) -> tuple[Optional[Lease], str, bool]:
        """A lease, or why there is none, and whether that is because other scenarios have nodes."""
        chosen: list[str] = []
        doubts: list[str] = []
        devices: dict[str, list[Device]] = {}
        busy, contended = "", False
        seen = self.observer.look()
        for name in (name for names in groups for name in names):
            with self._changed:
                if name in self._taken:
                    contended = contended or name not in chosen
                    continue
                self._taken.add(name)
            view = View(self.observer.slices_of_nodes([name]), seen.claims, [], seen.classes)
            fit = fit_of(view, name, needs, selectors)
            held = [] if fit.doubtful else _held(view, fit)
            if fit.suits and not held:
                chosen.append(name)
                doubts += [fit.reason] if fit.doubtful and fit.reason else []
                for need, found in fit.devices.items():
                    devices.setdefault(need, []).extend(found)
                if len(chosen) == needs.nodes:
                    return Lease(tuple(chosen), devices, tuple(doubts)), "", contended
                continue
            busy = f"{name}: {'in use by others: ' + ', '.join(held[:3]) if held else fit.reason}"
            self._give_back([name])
        self._give_back(chosen)
        return None, busy, contended

    def _give_back(self, names: Sequence[str]) -> None:
        with self._changed:
            self._taken -= set(names)
            self._changed.notify_all()


def _held(view: View, fit: Fit) -> list[str]:
    keys = {device.key for devices in fit.devices.values() for device in devices}
    return [
        f"{key[2]} by {holders[0].words}"
        for key, holders in view.holders.items()
        if key in keys and not all(holder.result.get("adminAccess") for holder in holders)
    ]


def fit_of(view: View, node: str, needs: Needs, selectors: Selectors) -> Fit:
    """Whether a node has what a scenario needs, free or not. What cannot be said for a fault of the slices makes it doubtful."""
    fit = Fit(suits=True)
    faults = [
        problem for slices in view.pools.values() for problem in problems_of([facts_of(slice_) for slice_ in slices])
    ]
    for need in needs.devices:
        found, error = _matching(view, node, need, selectors)
        fit.devices[need.name] = found
        if error:
            fit.doubtful = True
            fit.reason = f"need {need.name}: {error}"
        elif len(found) < need.number:
            if faults:
                fit.doubtful = True
            else:
                fit.suits = False
                fit.reason = f"{node} has {len(found)} of {need.number} devices of class {need.device_class}" + (
                    f" with {need.select}" if need.select else ""
                )
                return fit
    for alignment, wanted in ((needs.aligned, True), (needs.unaligned, False)):
        if alignment is not None and not fit.doubtful:
            _align(fit, node, alignment, wanted, {need.name: need.number for need in needs.devices})
    fit.doubtful = fit.doubtful or bool(faults)
    return fit


def _matching(view: View, node: str, need: DeviceNeed, selectors: Selectors) -> tuple[list[Device], str]:
    request = Request(need.name, need.name, need.device_class, (need.select,) if need.select else (), "", 0, False, ())
    found: list[Device] = []
    error = ""
    for device in view.on_node(node):
        verdict = selectors.judge(view, request, device)
        if verdict.matches:
            found.append(device)
        error = error or (f"{device.words}: {verdict.error}" if verdict.error else "")
    return found, error


def _align(fit: Fit, node: str, alignment: Alignment, wanted: bool, numbers: Mapping[str, int]) -> None:
    """Devices that share a value come first. Without the attribute on all of one kind, a node says nothing: it is doubtful."""
    values: dict[str, dict[Any, list[Device]]] = {}
    for name in alignment.devices:
        by_value = values.setdefault(name, {})
        for device in fit.devices[name]:
            for value in attribute_values(device, alignment.attribute) or ():
                by_value.setdefault(value, []).append(device)
        if not by_value:
            fit.doubtful = True
            fit.reason = f"no device for {name} on {node} has {alignment.attribute}"
            return
    common = [
        value
        for value in values[alignment.devices[0]]
        if all(len(values[name].get(value, ())) >= numbers[name] for name in alignment.devices)
    ]
    if bool(common) is not wanted:
        fit.suits = False
        fit.reason = (
            f"no {' and '.join(alignment.devices)} of {node} share {alignment.attribute}"
            if wanted
            else f"{' and '.join(alignment.devices)} of {node} share {alignment.attribute}"
        )
    elif common:
        for name in alignment.devices:
            first = values[name][common[0]]
            fit.devices[name] = first + [device for device in fit.devices[name] if device not in first]


def described(device: Device) -> dict[str, Any]:
    """A device as templates see it."""
    return {
        "name": device.key[2],
        "driver": device.key[0],
        "pool": device.key[1],
        "attributes": {
            name: next(iter(value.values()), None) for name, value in (device.body.get("attributes") or {}).items()
        },
        "capacity": {
            name: value.get("value") if isinstance(value, Mapping) else value
            for name, value in (device.body.get("capacity") or {}).items()
        },
    }
