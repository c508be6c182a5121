# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of virtual hosts share: small machines, and the command of the stand-in for QEMU."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    Bar,
    Board,
    Device,
    DeviceServer,
    Function,
    Machine,
    PcieRoot,
)

FAKE_QEMU = Path(__file__).with_name("fake_qemu.py")

MAIN = Function(
    0, "VGA", 0x10DE, 0x2330, 0x030200, 0x10DE, 0x16C1, 0xA1, (Bar(0, 16 << 20, True), Bar(2, 1 << 37, True))
)
AUDIO = Function(1, "audio", 0x10DE, 0x10F7, 0x040300, 0x10DE, 0x16C1, 0xA1, (Bar(0, 16 << 10, False, False),))
GPU = Board("test-gpu", "gpu", "NVIDIA", "Test", (MAIN,))
GPU_WITH_AUDIO = Board("test-gpu-audio", "gpu", "NVIDIA", "Test", (MAIN, AUDIO))
DISPLAY = Board(
    "test-display",
    "display",
    "QEMU",
    "Test",
    (Function(0, "display", 0x1AF4, 0x1050, 0x038000),),
    "qemu",
    "virtio-gpu-pci",
)


def device(name: str, address: str, board: Board = GPU, server: DeviceServer | None = None) -> Device:
    return Device(name, address, board, server)


def machine(
    *roots: PcieRoot, numa_nodes: int = 1, phys_bits: int = 46, memory_mb: int = 2048, cpus: int = 2
) -> Machine:
    return Machine("test-machine", cpus, memory_mb, numa_nodes, phys_bits, roots)


def pair() -> Machine:
    return machine(
        PcieRoot("pci0000:40", 0, (device("gpu0", "0000:41:00.0"),)),
        PcieRoot("pci0000:80", 0, (device("gpu1", "0000:81:00.0"),)),
    )


def fake_qemu(mode: str = "good") -> list[str]:
    return [sys.executable, str(FAKE_QEMU), mode]
