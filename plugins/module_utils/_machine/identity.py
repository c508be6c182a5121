# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells one device from another of its kind (UUID, serial number, MAC address), the same for the same input; private to the collection."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Device, Machine

IDENTITY_KEYS = ("uuid", "serial", "mac", "ipv4")

_SERIAL_DIGITS = 13


def derive_identity(machine_name: str, kind: str, index: int) -> dict[str, str]:
    """The identity of the ``index``-th device of a kind in a machine."""

    def digest(purpose: str) -> bytes:
        return hashlib.sha256(f"gpulab.fleet/{purpose}/{machine_name}/{kind}/{index}".encode()).digest()

    if kind == "gpu":
        return {"uuid": f"GPU-{_uuid(digest('uuid'))}", "serial": _decimal(digest("serial"))}
    if kind == "nic":
        # Locally administered and unicast, so it can meet no real card's address.
        octets = bytes([digest("mac")[0] & 0xFC | 0x02]) + digest("mac")[1:6]
        return {"mac": ":".join(f"{octet:02x}" for octet in octets), "serial": _decimal(digest("serial"))}
    return {"serial": _decimal(digest("serial"))}


def derive_ipv4(machine_name: str, index: int) -> str:
    """The address, with its network, of the ``index``-th network adapter of a machine, if it has an interface.

    Addresses are of 198.18.0.0/15, which RFC 2544 keeps for tests of network gear.
    """
    digest = hashlib.sha256(f"gpulab.fleet/ipv4/{machine_name}/nic/{index}".encode()).digest()
    host = 1 + int.from_bytes(digest[:4], "big") % ((1 << 17) - 2)
    number = (198 << 24 | 18 << 16) + host
    return ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8, 0)) + "/15"


def derive_mig_uuid(machine_name: str, index: int, profile_id: int, start: int) -> str:
    """The UUID of a MIG instance of the ``index``-th GPU of a machine."""
    text = f"gpulab.fleet/mig/{machine_name}/gpu/{index}/{profile_id}/{start}"
    return f"MIG-{_uuid(hashlib.sha256(text.encode()).digest())}"


def derived_identities(machine: Machine) -> dict[str, dict[str, str]]:
    """The identity that each device of a machine gets when its description says nothing, by device name."""
    counts: dict[str, int] = {}
    identities: dict[str, dict[str, str]] = {}
    for _root, device in machine.devices():
        kind = device.board.kind
        index = counts.get(kind, 0)
        counts[kind] = index + 1
        identities[device.name] = derive_identity(machine.name, kind, index)
        if device.network is not None and device.network.interface is not None:
            identities[device.name]["ipv4"] = derive_ipv4(machine.name, index)
    return identities


def with_identities(machine: Machine) -> Machine:
    """The machine with every device's identity complete; what a device has already stays."""
    derived = derived_identities(machine)

    def complete(device: Device) -> Device:
        return replace(device, identity={**derived[device.name], **device.identity})

    roots = tuple(replace(root, devices=tuple(complete(device) for device in root.devices)) for root in machine.roots)
    return replace(machine, roots=roots)


def _uuid(digest: bytes) -> str:
    text = digest[:16].hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _decimal(digest: bytes) -> str:
    return f"{int.from_bytes(digest[:8], 'big') % 10**_SERIAL_DIGITS:0{_SERIAL_DIGITS}d}"
