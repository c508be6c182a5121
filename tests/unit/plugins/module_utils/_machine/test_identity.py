# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identities: the same for the same input, different for different devices, and never over what is given."""

from __future__ import annotations

import re

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.dump import machine_to_dict
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.identity import derive_identity


def test_forms() -> None:
    gpu = derive_identity("node", "gpu", 0)
    nic = derive_identity("node", "nic", 0)
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", gpu["uuid"])
    assert re.fullmatch(r"[0-9]{13}", gpu["serial"])
    assert re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", nic["mac"])
    first = int(nic["mac"][:2], 16)
    assert first & 0x03 == 0x02, "locally administered and unicast"


def test_same_bytes_for_ever() -> None:
    # These values are part of the interface: whoever stored them compares against them.
    assert derive_identity("lab-h100", "gpu", 0) == {
        "uuid": "GPU-46aeb523-3212-4c42-551d-b5a355570a48",
        "serial": "8691710958390",
    }


def test_all_different() -> None:
    seen = [
        value
        for name in ("a", "b")
        for kind in ("gpu", "nic", "nvswitch")
        for index in range(16)
        for value in derive_identity(name, kind, index).values()
    ]
    assert len(seen) == len(set(seen))


def test_loading_completes_and_keeps() -> None:
    machine = load(
        {"from": "lab-h100-pair", "roots": {"pci0000:40": {"devices": {"gpu0": {"identity": {"uuid": "GPU-mine"}}}}}}
    )
    first, second = (device.identity for _root, device in machine.devices())
    assert first["uuid"] == "GPU-mine"
    assert first["serial"] == derive_identity("lab-h100-pair", "gpu", 0)["serial"]
    assert second == derive_identity("lab-h100-pair", "gpu", 1)


def test_derived_machine_gets_its_own() -> None:
    base = machine_to_dict(load("lab-h100"))
    (_root, original), *_others = load("lab-h100").devices()
    (_root, other), *_others = load({**base, "name": "another"}).devices()
    assert other.identity == derive_identity("another", "gpu", 0)
    assert other.identity != original.identity
