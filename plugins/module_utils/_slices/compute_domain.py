# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""compute-domain.nvidia.com: one IMEX channel and one daemon, on machines with a fabric and without; private to the collection."""

from __future__ import annotations

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import Release
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.settings import DriverSettings
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.template import DeviceTemplate


def compute_domain_devices(_machine: Machine, _release: Release, _settings: DriverSettings) -> list[DeviceTemplate]:
    """The devices of a node; only channel 0 of the 2048 is published, by every release."""
    return [DeviceTemplate(f"{kind}-0", {"id": ("int", 0), "type": ("string", kind)}) for kind in ("channel", "daemon")]
