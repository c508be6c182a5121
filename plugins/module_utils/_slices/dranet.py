# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""dra.net: network adapters as DRANET publishes them; private to the collection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import locate
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.identity import (
    derive_identity,
    derive_ipv4,
    derived_identities,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Device, Function, Machine, PcieRoot
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import Release
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.settings import DriverSettings
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.template import DeviceTemplate, Value

_CLASS_NETWORK = 0x02
_SUBCLASS_INFINIBAND = 0x0207
_DEFAULT_MTU = 1500

Attributes = dict[str, tuple[str, Value]]


@dataclass(frozen=True)
class _Nic:
    """A network function of an adapter, with the adapter's number among the machine's."""

    root: PcieRoot
    device: Device
    function: Function
    index: int
    address: str
    alone: bool

    @property
    def infiniband(self) -> bool:
        return self.function.class_code >> 8 == _SUBCLASS_INFINIBAND


def dranet_devices(machine: Machine, _release: Release, settings: DriverSettings) -> list[DeviceTemplate]:
    """The devices of a node by name; the adapter with the default route is none of them."""
    for option in settings.options:
        raise SliceError(f"options: {option!r} is no option of {settings.driver}, which has none")
    derived = derived_identities(machine)
    numbers: dict[str, int] = {}
    devices = []
    for nic in _nics(machine):
        rdma = _rdma_device(nic, numbers)
        network = nic.device.network
        if network is not None and network.uplink:
            continue
        attributes = _pci(nic)
        attributes["dra.net/rdma"] = ("bool", rdma is not None)
        if network is not None and network.interface is not None and nic.function.number == 0:
            attributes.update(_interface(nic, derived[nic.device.name]))
        elif rdma is not None:
            attributes["dra.net/rdmaDevice"] = ("string", rdma)
        devices.append(DeviceTemplate("pci-" + nic.address.replace(":", "-").replace(".", "-"), attributes))
    return sorted(devices, key=lambda device: device.name)


def _nics(machine: Machine) -> Iterator[_Nic]:
    index = 0
    for root, device in machine.devices():
        if device.board.kind != "nic":
            continue
        functions = [item for item in device.board.functions if item.class_code >> 16 == _CLASS_NETWORK]
        for function in functions:
            address = str(replace(locate(device.address, device.name), function=function.number))
            yield _Nic(root, device, function, index, address, len(functions) == 1)
        index += 1


def _pci(nic: _Nic) -> Attributes:
    board = nic.device.board
    attributes: Attributes = {
        "dra.net/pciAddress": ("string", nic.address),
        "dra.net/pciVendor": ("string", board.vendor),
        "dra.net/pciDevice": ("string", board.product),
        "resource.kubernetes.io/pcieRoot": ("string", nic.root.name),
    }
    if nic.function.subsystem_id and "subsystem_id" not in board.unknown:
        attributes["dra.net/pciSubsystem"] = ("string", f"{nic.function.subsystem_id:04x}")
    if nic.root.numa_node is not None:
        attributes["dra.net/numaNode"] = ("int", nic.root.numa_node)
    return attributes


def _interface(nic: _Nic, derived: dict[str, str]) -> Attributes:
    """The network interface of an adapter, up and without filters, as on a node without pods."""
    network, identity = nic.device.network, nic.device.identity
    if network is None or network.interface is None:
        return {}
    mac, ipv4 = identity.get("mac"), identity.get("ipv4")
    attributes: Attributes = {
        "dra.net/ifName": ("string", network.interface),
        "dra.net/mac": ("string", mac if mac and mac != derived.get("mac") else partial(_mac, nic.index)),
        "dra.net/mtu": ("int", network.mtu or _DEFAULT_MTU),
        "dra.net/encapsulation": ("string", "infiniband" if nic.infiniband else "ether"),
        "dra.net/alias": ("string", ""),
        "dra.net/state": ("string", "up"),
        "dra.net/type": ("string", "ipoib" if nic.infiniband else "device"),
        "dra.net/ebpf": ("bool", False),
        "dra.net/sriov": ("bool", False),
        "dra.net/virtual": ("bool", False),
    }
    # An empty address in the description is an interface without one.
    if ipv4 != "":
        own = ipv4 is not None and ipv4 != derived.get("ipv4")
        attributes["dra.net/ipv4"] = ("string", ipv4 if own and ipv4 else partial(_ipv4, nic.index))
    return attributes


def _rdma_device(nic: _Nic, numbers: dict[str, int]) -> Optional[str]:
    """The name of the RDMA device; None when there is none. Drivers number theirs in the order of the bus."""
    facts, network = nic.device.board.nic, nic.device.network
    has = facts.rdma if facts is not None and facts.rdma is not None else nic.infiniband
    if not has:
        return None
    prefix = facts.rdma_prefix if facts is not None else None
    number = numbers.get(prefix or "", 0)
    numbers[prefix or ""] = number + 1
    if network is not None and network.rdma_device is not None and nic.function.number == 0:
        return network.rdma_device
    if prefix is not None:
        return f"{prefix}_{number}"
    # linux-rdma/rdma-core, kernel-boot/rdma_rename.c: by the place on the bus.
    place = locate(nic.address, nic.device.name)
    domain = f"P{place.domain}" if place.domain else ""
    function = "" if nic.alone else f"f{place.function}"
    return f"rdma{domain}p{place.bus}s{place.device}{function}"


def _mac(index: int, node: str) -> str:
    return derive_identity(node, "nic", index)["mac"]


def _ipv4(index: int, node: str) -> str:
    return derive_ipv4(node, index)
