# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of LXD's configuration keys where releases differ, chosen by API extension. Private to the collection."""

from __future__ import annotations

from typing import Callable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

Has = Callable[[str], bool]

VIRTUAL_MACHINE = "virtual-machine"
CONTAINER = "container"

# Set at creation only, so that instances of other people are told apart for ever.
OWNER_KEY = "user.gpulab.fleet"

_CLOUD_INIT = {"user_data": "user-data", "vendor_data": "vendor-data", "network_config": "network-config"}


def secure_boot(enabled: bool, has: Has) -> dict[str, str]:
    """LXD with instance_boot_mode (6.7) has boot.mode in place of security.secureboot and refuses the old key."""
    if has("instance_boot_mode"):
        return {"boot.mode": "uefi-secureboot" if enabled else "uefi-nosecureboot"}
    return {"security.secureboot": "true" if enabled else "false"}


def cloud_init(documents: Mapping[str, Optional[str]], has: Has) -> dict[str, Optional[str]]:
    """Keys `cloud-init.*`, which images read; before that extension LXD knew them as `user.*`. None removes a key."""
    prefix = "cloud-init." if has("cloud_init") else "user."
    return {prefix + _CLOUD_INIT[name]: text for name, text in documents.items() if name in _CLOUD_INIT}


def limits(ram_mb: Optional[int], cpus: Optional[str], hugepages: Optional[bool]) -> dict[str, str]:
    """Sizes; what is None stays LXD's own default. MiB, where LXD's MB would be 10**6 bytes."""
    keys: dict[str, str] = {}
    if ram_mb is not None:
        keys["limits.memory"] = f"{ram_mb}MiB"
    if cpus is not None:
        keys["limits.cpu"] = cpus
    if hugepages is not None:
        keys["limits.memory.hugepages"] = "true" if hugepages else "false"
    return keys


def uses_cdi(has: Has) -> bool:
    """LXD with gpu_mig_cdi (after 6.9) has no nvidia.* keys any more; NVIDIA's files come by a CDI id on the device."""
    return has("gpu_mig_cdi")


def nvidia_runtime(has: Has) -> dict[str, str]:
    """What makes NVIDIA's libraries and tools appear in a container, where it is not the device itself that asks for them."""
    if uses_cdi(has):
        return {}
    if not has("nvidia_runtime"):
        raise FleetError(
            "this LXD knows neither nvidia.runtime nor CDI, so no NVIDIA GPU works in its containers; use a newer LXD"
        )
    keys = {"nvidia.runtime": "true"}
    if has("nvidia_runtime_config"):
        keys["nvidia.driver.capabilities"] = "all"
    return keys
