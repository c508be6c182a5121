# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a cluster as the checks of claims see it: devices by their pools, and who holds them. Private to the collection.

Everything is a plain dictionary, slices in the form of resource.k8s.io/v1. A view may lack pools that nobody in it refers to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, NamedTuple, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pools import generation_of

Object = Mapping[str, Any]
PoolKey = tuple[str, str]
DeviceKey = tuple[str, str, str]

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class Device(NamedTuple):
    """A device of the newest generation of its pool."""

    key: DeviceKey
    node: str
    slice_name: str
    body: Object

    @property
    def words(self) -> str:
        return f"{self.key[2]} of {self.key[1]} ({self.key[0]})"


class Holder(NamedTuple):
    """A claim to which a device is allocated, and the entry that says so."""

    claim: Object
    result: Object

    @property
    def words(self) -> str:
        return f"{claim_name(self.claim)} (request {self.result.get('request')})"


@dataclass
class View:
    """What was seen at one moment."""

    slices: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    classes: list[Object] = field(default_factory=list)
    devices: dict[DeviceKey, Device] = field(init=False)
    # Devices that only older generations have, with the generation.
    stale: dict[DeviceKey, int] = field(init=False)
    pools: dict[PoolKey, list[Object]] = field(init=False)
    holders: dict[DeviceKey, list[Holder]] = field(init=False)
    # Node -> its devices that somebody owns; an administrator who looks at a device does not own it.
    owned_on: dict[str, list[DeviceKey]] = field(init=False)

    def __post_init__(self) -> None:
        self.pools = {}
        for slice_ in self.slices:
            self.pools.setdefault(pool_key(slice_), []).append(slice_)
        self.devices, self.stale = {}, {}
        for key, slices in self.pools.items():
            newest = max(generation_of(slice_) for slice_ in slices)
            for slice_ in slices:
                for device in slice_["spec"].get("devices") or ():
                    name = (*key, str(device["name"]))
                    if generation_of(slice_) == newest:
                        self.devices.setdefault(name, _device(name, slice_, device))
                    else:
                        self.stale[name] = generation_of(slice_)
        self.holders = {}
        for claim in self.claims:
            for result in results_of(claim):
                self.holders.setdefault(result_key(result), []).append(Holder(claim, result))
        self.owned_on = {}
        for held in self.holders:
            owned = self.devices.get(held)
            if owned is not None and self.owners(held):
                self.owned_on.setdefault(owned.node, []).append(held)

    def owners(self, key: DeviceKey) -> list[Holder]:
        """Who has a device, without administrators: for the scheduler these allocate nothing."""
        return [holder for holder in self.holders.get(key, ()) if not holder.result.get("adminAccess")]

    def generation(self, key: PoolKey) -> int:
        return max(generation_of(slice_) for slice_ in self.pools[key])

    def device_class(self, name: str) -> Optional[Object]:
        return next((one for one in self.classes if one["metadata"]["name"] == name), None)

    def on_node(self, node: str) -> list[Device]:
        """Devices that pods of a node can have, in the order in which the scheduler looks at them."""
        found = [device for device in self.devices.values() if device.node in ("", node)]
        return sorted(found, key=lambda device: (device.key[0], device.key[1], device.slice_name))

    def claims_of(self, pod: Object) -> dict[str, Optional[Object]]:
        """The claims of a pod by the names that the pod has for them; None for one that does not exist."""
        found: dict[str, Optional[Object]] = {}
        namespace, uid = pod["metadata"].get("namespace"), pod["metadata"].get("uid")
        mine = [claim for claim in self.claims if claim["metadata"].get("namespace") == namespace]
        generated = {
            str(entry["name"]): entry.get("resourceClaimName")
            for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
            name = str(entry["name"])
            wanted = entry.get("resourceClaimName") or generated.get(name)
            found[name] = next(
                (
                    claim
                    for claim in mine
                    if claim["metadata"]["name"] == wanted
                    or (
                        not entry.get("resourceClaimName")
                        and annotation(claim, POD_CLAIM_ANNOTATION) == name
                        and owner_uid(claim) == uid
                    )
                ),
                None,
            )
        for claim in mine:
            if annotation(claim, EXTENDED_ANNOTATION) == "true" and owner_uid(claim) == uid:
                found["extended resources"] = claim
        return found

    def users_of(self, claim: Object) -> list[Object]:
        """The pods that name a claim."""
        metadata = claim["metadata"]
        same = [pod for pod in self.pods if pod["metadata"].get("namespace") == metadata.get("namespace")]
        return [
            pod
            for pod in same
            if any(
                found is not None and found["metadata"]["name"] == metadata["name"]
                for found in self.claims_of(pod).values()
            )
        ]


def _device(key: DeviceKey, slice_: Object, body: Object) -> Device:
    node = str(body.get("nodeName") or slice_["spec"].get("nodeName") or "")
    return Device(key, node, str(slice_["metadata"]["name"]), body)


def pool_key(slice_: Object) -> PoolKey:
    return str(slice_["spec"]["driver"]), str(slice_["spec"]["pool"]["name"])


def results_of(claim: Object) -> list[Object]:
    """What a claim was given, an entry a device."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def result_key(result: Object) -> DeviceKey:
    return str(result.get("driver")), str(result.get("pool")), str(result.get("device"))


def allocated(claim: Object) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def reserved_for(claim: Object) -> list[Object]:
    return list((claim.get("status") or {}).get("reservedFor") or ())


def annotation(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(name) or "")


def owner_uid(obj: Object) -> str:
    """The uid of the object that controls this one."""
    owners: Iterable[Object] = obj["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("uid")) for owner in owners if owner.get("controller")), "")


def claim_name(claim: Object) -> str:
    metadata = claim["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def subject_of(claim: Object) -> str:
    """A claim's name in reports; a generated one is named by its pod, since its own name is another in each run."""
    metadata = claim["metadata"]
    owner = next((str(one["name"]) for one in metadata.get("ownerReferences") or () if one.get("kind") == "Pod"), "")
    name = annotation(claim, POD_CLAIM_ANNOTATION)
    if owner and annotation(claim, EXTENDED_ANNOTATION) == "true":
        return f"{owner}:extended-resources"
    return f"{owner}:{name}" if owner and name else str(metadata["name"])
