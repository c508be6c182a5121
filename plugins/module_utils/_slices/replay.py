# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captured slices: what belongs to their cluster taken out, and the rest given to another node; private to the collection."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.convert import (
    canonical,
    convert,
    plain_copy,
    wrap_devices,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.limits import describe
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.naming import generate_name
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.pool_rules import newest_slices
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.render import make_metadata
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.shape import check_shape
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import V1, V1BETA1, api_version_for

_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.IGNORECASE)
_MAC_ATTRIBUTES = ("mac", "dra.net/mac")
_IPV4 = re.compile(r"((?:[0-9]{1,3}\.){3}[0-9]{1,3})/([0-9]{1,2})")
_IPV4_ATTRIBUTES = ("ipv4", "dra.net/ipv4")
_INDEXED = re.compile(r"[0-9a-f]{5,}-")
_NAMED_BY_UUID = re.compile(r"(?:gpu|mig)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Annotations that tools leave for themselves.
_TOOLS = ("kubectl.kubernetes.io/last-applied-configuration", "kwok.x-k8s.io/")


def normalise(slices: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The slices as resource.k8s.io/v1 without what their cluster gave them, sorted; older generations of a pool are gone."""
    pools: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number, item in enumerate(slices):
        check_shape(item, describe(item, number))
        clean = canonical(convert(item, V1))
        pool = clean["spec"]["pool"]
        clean["metadata"] = _metadata(clean.get("metadata") or {})
        for device in clean["spec"].get("devices") or []:
            for taint in device.get("taints") or []:
                taint.pop("timeAdded", None)
        pools.setdefault((clean["spec"]["driver"], pool["name"]), []).append(clean)
    result: list[dict[str, Any]] = []
    for _key, members in sorted(pools.items()):
        current = [dict(item) for item in newest_slices(members)]
        for item in current:
            item["spec"]["pool"]["generation"] = 1
        result.extend(sorted(current, key=_order))
    return result


class Recording:
    """The captured slices of one node, ready to be given to many."""

    def __init__(self, slices: Iterable[Mapping[str, Any]]) -> None:
        self._slices = normalise(slices)
        self.node = _source_node(self._slices)
        _check_complete(self._slices)

    def on(self, node: str, node_uid: Optional[str], kubernetes: str = "1.37") -> list[dict[str, Any]]:
        """The slices as they would be on another node: with its names, and UUIDs and addresses of its own."""
        api_version = api_version_for(kubernetes)
        places: dict[tuple[str, str], int] = {}
        result = []
        for captured in self._slices:
            spec = plain_copy(captured["spec"])
            key = (spec["driver"], spec["pool"]["name"])
            index = places.get(key, 0)
            places[key] = index + 1
            prefix = generate_name(spec["driver"], node, index, _is_indexed(captured["metadata"], spec["driver"]))
            spec["nodeName"] = node
            spec["pool"]["name"] = _pool_name(key[1], self.node, node)
            for device in spec.get("devices") or []:
                _give_identity(device, node)
            # Two pools of one driver on one node have the same prefix, so the pool tells their names apart.
            place = str(index) if spec["pool"]["name"] == node else f"{spec['pool']['name']}/{index}"
            kept = {
                name: captured["metadata"][name] for name in ("annotations", "labels") if name in captured["metadata"]
            }
            metadata = {**plain_copy(kept), **make_metadata(prefix, place, node, node_uid)}
            if api_version == V1BETA1 and "devices" in spec:
                spec["devices"] = wrap_devices(spec["devices"])
            result.append({"apiVersion": api_version, "kind": "ResourceSlice", "metadata": metadata, "spec": spec})
        return result


def replay(
    slices: Sequence[Mapping[str, Any]], *, node: str, node_uid: Optional[str], kubernetes: str = "1.37"
) -> list[dict[str, Any]]:
    """The captured slices of one node as they would be on another; for many nodes, make one Recording."""
    return Recording(slices).on(node, node_uid, kubernetes)


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {name: metadata[name] for name in ("generateName", "labels", "name") if metadata.get(name)}
    annotations = {
        name: text for name, text in (metadata.get("annotations") or {}).items() if not str(name).startswith(_TOOLS)
    }
    return {**kept, "annotations": annotations} if annotations else kept


def _order(item: Mapping[str, Any]) -> str:
    """Helpers since Kubernetes 1.36 begin the name with the slice's place in the pool, which the allocator follows."""
    return str(item["metadata"].get("name") or "")


def _source_node(slices: Sequence[Mapping[str, Any]]) -> str:
    nodes = {item["spec"].get("nodeName") for item in slices}
    if len(nodes) > 1:
        named = ", ".join(sorted(str(name) for name in nodes if name)[:5])
        raise SliceError(
            f"replay: the slices are of {len(nodes)} nodes ({named}); give those of one node, which then become those of many"
        )
    (node,) = nodes or {None}
    if not isinstance(node, str) or not node:
        raise SliceError("replay: the slices belong to no node (spec.nodeName), so they cannot be given to another")
    return node


def _check_complete(slices: Sequence[Mapping[str, Any]]) -> None:
    counts: dict[tuple[str, str], int] = {}
    for item in slices:
        key = (item["spec"]["driver"], item["spec"]["pool"]["name"])
        counts[key] = counts.get(key, 0) + 1
    for item in slices:
        driver, name = item["spec"]["driver"], item["spec"]["pool"]["name"]
        if item["spec"]["pool"]["resourceSliceCount"] != counts[driver, name]:
            raise SliceError(
                f"replay: pool {name} of {driver} says it has {item['spec']['pool']['resourceSliceCount']} slices, but "
                f"{counts[driver, name]} are here; capture all of them"
            )


def _is_indexed(metadata: Mapping[str, Any], driver: str) -> bool:
    """Whether the helper that made the name puts the slice's place first, before the driver."""
    name = str(metadata.get("generateName") or metadata.get("name") or "")
    place = _INDEXED.match(name)
    return place is not None and name[place.end() :].startswith(f"{driver}-")


def _pool_name(pool: str, source: str, node: str) -> str:
    """A name for the pool on another node; where the node's name is no part of it, it comes to be."""
    return pool.replace(source, node) if source in pool else f"{node}/{pool}"


def _give_identity(device: dict[str, Any], node: str) -> None:
    if _NAMED_BY_UUID.fullmatch(device["name"]):
        # Some drivers name devices by their UUID in lower case.
        device["name"] = _uuid(device["name"], node).lower()
    for name, value in (device.get("attributes") or {}).items():
        text = value.get("string")
        if not isinstance(text, str):
            continue
        if _UUID.fullmatch(text):
            value["string"] = _uuid(text, node)
        elif name in _MAC_ATTRIBUTES and _MAC.fullmatch(text):
            value["string"] = _mac(text, node)
        elif name in _IPV4_ATTRIBUTES:
            value["string"] = _IPV4.sub(lambda found: _ipv4(found.group(1), int(found.group(2)), node), text)


def _digest(purpose: str, text: str, node: str) -> bytes:
    return hashlib.sha256(f"gpulab.fleet/replay/{purpose}/{node}/{text.lower()}".encode()).digest()


def _uuid(text: str, node: str) -> str:
    """Another UUID for the same thing on another node, so that what named its parent names it still."""
    digits = _digest("uuid", text, node)[:16].hex()
    return f"{text[:4]}{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _mac(text: str, node: str) -> str:
    octets = _digest("mac", text, node)[:6]
    return ":".join(f"{octet:02x}" for octet in bytes([octets[0] & 0xFC | 0x02]) + octets[1:])


def _ipv4(address: str, length: int, node: str) -> str:
    """Another address of the same network; an address that has its network to itself stays."""
    parts = [int(part) for part in address.split(".")]
    if length > 30 or max(parts) > 255:
        return f"{address}/{length}"
    number = int.from_bytes(bytes(parts), "big")
    hosts = (1 << (32 - length)) - 2
    host = 1 + int.from_bytes(_digest("ipv4", address, node)[:8], "big") % hosts
    network = number >> (32 - length) << (32 - length)
    return ".".join(str(octet) for octet in (network + host).to_bytes(4, "big")) + f"/{length}"
