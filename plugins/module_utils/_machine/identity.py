# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells one device from another of its kind (UUID, serial number, MAC address), the same for the same input; private to the collection."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Device, Machine

IDENTITY_KEYS = ("uuid", "serial", "mac")

_SERIAL_DIGITS = 13


def derive_identity(machine_name: str, kind: str, index: int) -> dict[str, str]:
    """The identity of the ``index``-th device of a kind in a machine."""

    def digest(purpose: str) -> bytes:
        return hashlib.sha256(f"gpulab.fleet/{purpose}/{machine_name}/{kind}/{index}".encode()).digest()

    if kind == "gpu":
        text = digest("uuid")[:16].hex()
        uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return {"uuid": f"GPU-{uuid}", "serial": _decimal(digest("serial"))}
    if kind == "nic":
        # Locally administered and unicast, so it can meet no real card's address.
        octets = bytes([digest("mac")[0] & 0xFC | 0x02]) + digest("mac")[1:6]
        return {"mac": ":".join(f"{octet:02x}" for octet in octets), "serial": _decimal(digest("serial"))}
    return {"serial": _decimal(digest("serial"))}


def derived_identities(machine: Machine) -> dict[str, dict[str, str]]:
    """The identity that each device of a machine gets when its description says nothing, by device name."""
    counts: dict[str, int] = {}
    identities: dict[str, dict[str, str]] = {}
    for _root, device in machine.devices():
        kind = device.board.kind
        index = counts.get(kind, 0)
        counts[kind] = index + 1
        identities[device.name] = derive_identity(machine.name, kind, index)
    return identities


def with_identities(machine: Machine) -> Machine:
    """The machine with every device's identity complete; what a device has already stays."""
    derived = derived_identities(machine)

    def complete(device: Device) -> Device:
        return replace(device, identity={**derived[device.name], **device.identity})

    roots = tuple(replace(root, devices=tuple(complete(device) for device in root.devices)) for root in machine.roots)
    return replace(machine, roots=roots)


def _decimal(digest: bytes) -> str:
    return f"{int.from_bytes(digest[:8], 'big') % 10**_SERIAL_DIGITS:0{_SERIAL_DIGITS}d}"
