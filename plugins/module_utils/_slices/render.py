# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's slices on a node: what does not depend on the node is worked out once; private to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.compute_domain import compute_domain_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.convert import wrap_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.dranet import dranet_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.gpu import gpu_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.naming import generate_name, slice_name
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import (
    COMPUTE_DOMAIN,
    DRANET,
    GPU,
    Release,
    check_mode,
    find_release,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.settings import DriverSettings
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.template import DeviceTemplate
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import V1BETA1, api_version_for

Publish = Callable[[Machine, Release, DriverSettings], list[DeviceTemplate]]

_PUBLISHERS: Mapping[str, Publish] = {
    GPU: gpu_devices,
    COMPUTE_DOMAIN: compute_domain_devices,
    DRANET: dranet_devices,
}
# A fleet has few kinds of machines, and each is asked for once a node.
_REMEMBERED = 16


@dataclass(frozen=True)
class _Pool:
    """The pool of one driver on any node; its slices are lists of devices."""

    driver: str
    indexed_names: bool
    slices: tuple[tuple[DeviceTemplate, ...], ...]


def render_node(
    machine: Machine,
    *,
    node: str,
    node_uid: Optional[str],
    drivers: Sequence[DriverSettings],
    kubernetes: str = "1.37",
    generation: int = 1,
) -> list[dict[str, Any]]:
    """The slices of a node as its drivers would publish them, pool by pool in the order of ``drivers``.

    A driver that finds nothing on the machine has no slice. Without ``node_uid`` the slices have no owner.
    """
    api_version = api_version_for(kubernetes)
    slices: list[dict[str, Any]] = []
    for pool in _pools(machine, tuple(drivers)):
        for index, templates in enumerate(pool.slices):
            devices = [template.render(node) for template in templates]
            metadata = make_metadata(
                generate_name(pool.driver, node, index, pool.indexed_names), str(index), node, node_uid
            )
            slices.append(
                {
                    "apiVersion": api_version,
                    "kind": "ResourceSlice",
                    "metadata": metadata,
                    "spec": {
                        "devices": wrap_devices(devices) if api_version == V1BETA1 else devices,
                        "driver": pool.driver,
                        "nodeName": node,
                        "pool": {"generation": generation, "name": node, "resourceSliceCount": len(pool.slices)},
                    },
                }
            )
    return slices


def make_metadata(prefix: str, place: str, node: str, node_uid: Optional[str]) -> dict[str, Any]:
    """The metadata of a slice that a node owns."""
    metadata: dict[str, Any] = {"generateName": prefix, "name": slice_name(prefix, place)}
    if node_uid is not None:
        owner = {"apiVersion": "v1", "controller": True, "kind": "Node", "name": node, "uid": node_uid}
        metadata["ownerReferences"] = [owner]
    return metadata


_cache: list[tuple[Machine, tuple[DriverSettings, ...], tuple[_Pool, ...]]] = []


def _pools(machine: Machine, drivers: tuple[DriverSettings, ...]) -> tuple[_Pool, ...]:
    """The pools of a machine. Machines are frozen, so the same object has the same pools."""
    for known, settings, pools in _cache:
        if known is machine and settings == drivers:
            return pools
    pools = _compile(machine, drivers)
    _cache.insert(0, (machine, drivers, pools))
    del _cache[_REMEMBERED:]
    return pools


def _compile(machine: Machine, drivers: tuple[DriverSettings, ...]) -> tuple[_Pool, ...]:
    seen: set[str] = set()
    pools = []
    for settings in drivers:
        release = find_release(settings.driver, settings.release)
        check_mode(settings.driver, settings.mode)
        if settings.driver in seen:
            raise SliceError(f"drivers: {settings.driver} is there twice; a node runs each driver once")
        seen.add(settings.driver)
        devices = tuple(_PUBLISHERS[settings.driver](machine, release, settings))
        if devices:
            pools.append(_Pool(settings.driver, release.indexed_names, (devices,)))
    return tuple(pools)
