# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small complete description that tests change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

_BOARD: dict[str, Any] = {
    "kind": "gpu",
    "vendor": "Vendor",
    "product": "Product",
    "vendor_id": "0x10de",
    "device_id": "0x2330",
    "class_code": "0x030200",
    "bars": {0: "16M", 2: {"size": "128G"}, 4: "32M"},
    "functions": {
        1: {
            "name": "audio",
            "vendor_id": "10de",
            "device_id": "10f0",
            "class_code": "040300",
            "bars": {0: {"size": "16K", "is_64bit": False, "prefetchable": False}},
        }
    },
    "gpu": {"product_name": "A GPU", "memory_mib": 81559},
}
_MACHINE: dict[str, Any] = {
    "name": "small",
    "cpus": 2,
    "memory_mb": 4096,
    "boards": {"mine": _BOARD},
    "roots": {
        "pci0000:40": {"numa_node": 0, "devices": {"gpu0": {"address": "0000:41:00.0", "board": "mine"}}},
        "pci0000:80": {"numa_node": 1, "devices": {"gpu1": {"address": "0000:81:00.0", "board": "mine"}}},
    },
}


@pytest.fixture
def small() -> dict[str, Any]:
    """A description with two GPUs on two roots, free to be changed."""
    return copy.deepcopy(_MACHINE)
