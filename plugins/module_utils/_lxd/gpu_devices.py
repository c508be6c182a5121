# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""LXD devices for GPUs, and which GPUs an instance's devices stand for; knows LXD's view of cards only. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import (
    VIRTUAL_MACHINE,
    Has,
    nvidia_runtime,
    uses_cdi,
)

Device = Mapping[str, str]

_CDI_NVIDIA = "nvidia.com/gpu="


class GpuUnusable(FleetError):
    """A GPU that this kind of instance cannot have; `details["reason"]` is for programs."""


@dataclass(frozen=True)
class GpuDevice:
    """One GPU for one instance: the LXD device, and configuration keys that it brings along."""

    address: str
    device: Device
    config: Mapping[str, str]


def gpu_devices(addresses: Sequence[str], kind: str, resources: Mapping[str, Any], has: Has) -> tuple[GpuDevice, ...]:
    """The devices that pass the GPUs at these addresses, in the order given."""
    cards = {str(card.get("pci_address", "")).lower(): card for card in (resources.get("gpu") or {}).get("cards") or ()}
    make = _for_vm if kind == VIRTUAL_MACHINE else _for_container
    return tuple(make(address, cards.get(address.lower()), has) for address in addresses)


def _for_vm(address: str, card: Optional[Mapping[str, Any]], has: Has) -> GpuDevice:
    if card is not None:
        return GpuDevice(address, {"type": "gpu", "gputype": "physical", "pci": address}, {})
    # LXD takes display class 03 and DRM nodes for GPUs (lxd/resources/gpu.go): an accelerator of class 12 without a
    # driver, or an NVSwitch, is none to it and goes in as a plain PCI device.
    if not has("pci_device_type"):
        raise GpuUnusable(
            f"LXD does not take {address} for a GPU and, without its API extension pci_device_type, passes no plain PCI devices; use a newer LXD",
            reason="gpu_unknown_to_lxd",
            address=address,
        )
    return GpuDevice(address, {"type": "pci", "address": address}, {})


def _for_container(address: str, card: Optional[Mapping[str, Any]], has: Has) -> GpuDevice:
    card = card or {}
    nvidia = card.get("nvidia") or {}
    driver = str(card.get("driver") or "")
    plain = {"type": "gpu", "gputype": "physical", "pci": address}
    if nvidia:
        if not uses_cdi(has):
            return GpuDevice(address, plain, nvidia_runtime(has))
        uuid = str(nvidia.get("uuid") or "")
        if not uuid:
            raise GpuUnusable(
                f"LXD knows no UUID for the NVIDIA GPU at {address}, which its CDI name needs; see whether nvidia-smi -L works on the host",
                reason="gpu_unusable_in_container",
                address=address,
                driver=driver or None,
            )
        return GpuDevice(address, {"type": "gpu", "gputype": "physical", "id": _CDI_NVIDIA + uuid}, {})
    if card.get("drm"):
        return GpuDevice(address, plain, {})
    raise GpuUnusable(
        f"the GPU at {address} cannot be passed to a container: its host driver is {driver or 'none'}, which gives it neither a DRM node"
        " nor NVIDIA's device files; load its driver on the host, or pass it to a VM",
        reason="gpu_unusable_in_container",
        address=address,
        driver=driver or None,
    )


def device_address(device: Device) -> Optional[str]:
    """The PCI address that a gpu or pci device names; None for any other device."""
    if device.get("type") == "gpu":
        return device.get("pci", "").lower() or None
    if device.get("type") == "pci":
        return device.get("address", "").lower() or None
    return None


def is_gpu_device(name: str, device: Device) -> bool:
    """A device that the option `gpus` rules over: GPUs of every kind; plain PCI devices only under the names it gives."""
    return device.get("type") == "gpu" or (device.get("type") == "pci" and re.fullmatch(r"gpu[0-9]+", name) is not None)


def addresses_of(devices: Mapping[str, Device], resources: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """All PCI addresses that the devices of an instance stand for, sorted; `resources` tell those of CDI names."""
    cards = ((resources or {}).get("gpu") or {}).get("cards") or ()
    by_cdi_name = {_CDI_NVIDIA + str((card.get("nvidia") or {}).get("uuid")): card.get("pci_address") for card in cards}
    found = {device_address(device) or by_cdi_name.get(device.get("id", "")) for device in devices.values()}
    return tuple(sorted(address for address in found if address))


def has_cdi_names(devices: Mapping[str, Device]) -> bool:
    """Whether LXD's resources are needed to tell the addresses of all GPUs."""
    return any(device.get("id", "").startswith(_CDI_NVIDIA) for device in devices.values())


def takes(device: Device, address: str) -> bool:
    """Whether the device stands for this GPU: by its address, or as a gpu device without any selector, which is all GPUs."""
    named = device_address(device)
    if named is not None:
        return named == address.lower()
    return device.get("type") == "gpu" and not any(device.get(key) for key in ("id", "vendorid", "productid", "mdev"))


def same_gpu(device: Device, wanted: GpuDevice) -> bool:
    """Whether an existing device already passes the wanted GPU, whatever it is called."""
    if wanted.device.get("id"):
        return device.get("type") == "gpu" and device.get("id") == wanted.device["id"]
    return device_address(device) == wanted.address.lower()


def free_name(taken: Sequence[str]) -> str:
    """The first of gpu0, gpu1, … that no device has."""
    number = 0
    while f"gpu{number}" in taken:
        number += 1
    return f"gpu{number}"
