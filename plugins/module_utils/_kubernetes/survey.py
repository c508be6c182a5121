# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster has: pools as the scheduler judges them, their devices, and who has been given which. Private to the collection.

Pure: it is fed with slices and claims one at a time and keeps of each what is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.device_cel import CelError, Selector
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.pools import complete

DeviceKey = tuple[str, str, str]


class Holder(NamedTuple):
    """A claim that a device was allocated for."""

    namespace: str
    claim: str
    uid: str
    request: str
    admin: bool
    pods: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "claim": self.claim,
            "request": self.request,
            "admin_access": self.admin,
            "reserved_for": list(self.pods),
        }


@dataclass
class _Slice:
    name: str
    node: str
    generation: int
    count: int
    # Name of the device -> what is kept of it; None when it does not match.
    devices: dict[str, Optional[dict[str, Any]]]


@dataclass
class Survey:
    """Slices and claims of one look at a cluster."""

    selector: Optional[Selector] = None
    keep_devices: bool = False
    cel_errors: int = 0
    first_cel_error: str = ""
    pools: dict[tuple[str, str], list[_Slice]] = field(default_factory=dict)
    holders: dict[DeviceKey, list[Holder]] = field(default_factory=dict)

    def add_slice(self, slice_: Mapping[str, Any]) -> bool:
        """Note a slice in the form of resource.k8s.io/v1; whether it has a device that the expression selects."""
        spec = slice_["spec"]
        driver, pool = str(spec["driver"]), spec.get("pool") or {}
        devices: dict[str, Optional[dict[str, Any]]] = {}
        for device in spec.get("devices") or ():
            devices[str(device["name"])] = self._kept(device, driver) if self._selected(device, driver) else None
        self.pools.setdefault((driver, str(pool.get("name"))), []).append(
            _Slice(
                name=str(slice_["metadata"]["name"]),
                node=str(spec.get("nodeName") or ""),
                generation=int(pool.get("generation") or 0),
                count=int(pool.get("resourceSliceCount") or 0),
                devices=devices,
            )
        )
        return self.selector is None or any(kept is not None for kept in devices.values())

    def _selected(self, device: Mapping[str, Any], driver: str) -> bool:
        if self.selector is None:
            return True
        try:
            return self.selector.matches(device, driver)
        except CelError as error:
            # The scheduler would refuse to go on; for a look at a cluster, such a device just is not one of those.
            self.cel_errors += 1
            self.first_cel_error = self.first_cel_error or error.message
            return False

    def _kept(self, device: Mapping[str, Any], driver: str) -> dict[str, Any]:
        if not self.keep_devices:
            return {}
        kept: dict[str, Any] = {
            "attributes": {
                name: next(iter(value.values()), None) for name, value in (device.get("attributes") or {}).items()
            },
            "capacity": {name: value.get("value") for name, value in (device.get("capacity") or {}).items()},
        }
        for key in ("taints", "consumesCounters"):
            if device.get(key):
                kept[key] = device[key]
        return kept

    def add_claim(self, claim: Mapping[str, Any]) -> None:
        """Note what a claim has been given."""
        status = claim.get("status") or {}
        metadata = claim["metadata"]
        pods = tuple(str(user.get("name")) for user in status.get("reservedFor") or ())
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        for result in results:
            key = (str(result.get("driver")), str(result.get("pool")), str(result.get("device")))
            holder = Holder(
                namespace=str(metadata.get("namespace", "")),
                claim=str(metadata["name"]),
                uid=str(metadata.get("uid", "")),
                request=str(result.get("request", "")),
                admin=bool(result.get("adminAccess")),
                pods=pods,
            )
            self.holders.setdefault(key, []).append(holder)

    # What comes out

    def pool_list(self) -> list[dict[str, Any]]:
        """A pool each, with what keeps the scheduler from using it."""
        return [self._pool(key, slices) for key, slices in sorted(self.pools.items())]

    def _pool(self, key: tuple[str, str], slices: list[_Slice]) -> dict[str, Any]:
        current = _newest(slices)
        names = [name for slice_ in current for name, kept in slice_.devices.items() if kept is not None]
        allocated = sum(1 for name in names if self._taken((*key, name)))
        whole = complete([(slice_.generation, slice_.count) for slice_ in slices])
        twice = (
            sorted({name for slice_ in current for name in slice_.devices if _count(current, name) > 1})
            if len(current) > 1
            else []
        )
        problems = []
        if not whole:
            counts = sorted({slice_.count for slice_ in current})
            problems.append(
                f"generation {current[0].generation} has {len(current)} slices, but they say there should be"
                f" {' or '.join(map(str, counts))}: nothing is allocated from an incomplete pool"
            )
        if twice:
            problems.append(f"devices are there twice: {', '.join(twice[:5])}")
        return {
            "driver": key[0],
            "name": key[1],
            "node": current[0].node,
            "generation": current[0].generation,
            "slices": sorted(slice_.name for slice_ in current),
            "stale_slices": sorted(slice_.name for slice_ in slices if slice_ not in current),
            "complete": whole and not twice,
            "problems": problems,
            "devices": len(names),
            "allocated": allocated,
            "free": len(names) - allocated,
        }

    def _taken(self, key: DeviceKey) -> bool:
        # Administrators look at devices that others use.
        return any(not holder.admin for holder in self.holders.get(key, ()))

    def device_list(self) -> list[dict[str, Any]]:
        """A device each, of the newest generation of its pool."""
        found = []
        for key, slices in sorted(self.pools.items()):
            for slice_ in sorted(_newest(slices), key=lambda entry: entry.name):
                for name, kept in slice_.devices.items():
                    if kept is None:
                        continue
                    holders = self.holders.get((*key, name), ())
                    found.append(
                        {
                            "driver": key[0],
                            "pool": key[1],
                            "node": slice_.node,
                            "slice": slice_.name,
                            "name": name,
                            **kept,
                            "free": not self._taken((*key, name)),
                            "allocated_to": [holder.to_dict() for holder in holders],
                        }
                    )
        return found

    def summary(self, pools: list[dict[str, Any]], filtered: bool) -> dict[str, Any]:
        """Numbers of all, and by driver."""
        drivers: dict[str, dict[str, int]] = {}
        for pool in pools:
            entry = drivers.setdefault(pool["driver"], dict.fromkeys(("pools", "devices", "allocated", "free"), 0))
            entry["pools"] += 1
            for word in ("devices", "allocated", "free"):
                entry[word] += pool[word]
        published = {
            (*key, name) for key, slices in self.pools.items() for slice_ in _newest(slices) for name in slice_.devices
        }
        return {
            "slices": sum(len(slices) for slices in self.pools.values()),
            "pools": len(pools),
            "incomplete_pools": [f"{pool['driver']} {pool['name']}" for pool in pools if not pool["complete"]][:100],
            "nodes": len({pool["node"] for pool in pools if pool["node"]}),
            "devices": sum(pool["devices"] for pool in pools),
            "allocated": sum(pool["allocated"] for pool in pools),
            "free": sum(pool["free"] for pool in pools),
            "drivers": drivers,
            # Allocated to somebody, and not published by anybody: with a filter that cannot be said.
            "lost_devices": []
            if filtered
            else sorted(" ".join(key) for key in self.holders if key not in published)[:100],
        }


def _newest(slices: list[_Slice]) -> list[_Slice]:
    newest = max(slice_.generation for slice_ in slices)
    return [slice_ for slice_ in slices if slice_.generation == newest]


def _count(slices: list[_Slice], name: str) -> int:
    return sum(1 for slice_ in slices if name in slice_.devices)
