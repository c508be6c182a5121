# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AMD's boards, each figure with its source; private to the collection."""

from __future__ import annotations

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog import sources
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.build import (
    AMD,
    CLASS_ACCELERATOR,
    CLASS_DISPLAY,
    GIB,
    MIB,
    board,
    io_ports,
    memory32,
    memory64,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board, GpuFacts

_VENDOR = "Advanced Micro Devices, Inc. [AMD/ATI]"
# The facts of an AMD GPU that the catalog tells or lists as unknown.
FACTS = ("architecture", "memory_mib", "gfx_target")

GPUS: tuple[Board, ...] = (
    board(
        name="amd-mi210", kind="gpu", vendor=_VENDOR, product="Aldebaran/MI200 [Instinct MI210]",
        ids=(AMD, 0x740F), class_code=CLASS_DISPLAY, subsystem=(AMD, 0x0C34), revision=0x02,
        bars=(memory64(0, 64 * GIB), memory64(2, 2 * MIB), io_ports(4, 256), memory32(5, MIB // 2)),
        gpu=GpuFacts(product_name="AMD Instinct MI210", architecture="CDNA2", memory_mib=65520, gfx_target="gfx90a"),
        sources={
            "device_id": sources.PCI_IDS, "subsystem_id": sources.DMESG_MI210, "class_code": sources.DMESG_MI210,
            "revision": sources.DMESG_MI210, "bars": sources.DMESG_MI210,
            "gpu.product_name": "rocminfo in https://github.com/ROCm/legacy-rocm-build/issues/2595",
            "gpu.architecture": sources.ROCM_GPU_SPECS, "gpu.gfx_target": sources.ROCM_GPU_SPECS,
            "gpu.memory_mib": sources.DMESG_MI210,
        },
    ),
    board(
        name="amd-mi300x", kind="gpu", vendor=_VENDOR, product="Aqua Vanjaram [Instinct MI300X]",
        ids=(AMD, 0x74A1), class_code=CLASS_ACCELERATOR, subsystem=(AMD, 0x74A1), revision=0x00,
        gpu=GpuFacts(product_name="AMD Instinct MI300X", architecture="CDNA3", memory_mib=196592, gfx_target="gfx942"),
        sources={
            "device_id": sources.PCI_IDS, "subsystem_id": sources.LSPCI_MI300X, "class_code": sources.LSPCI_MI300X,
            "revision": sources.DMESG_MI300X,
            "gpu.product_name": sources.PCI_IDS, "gpu.memory_mib": sources.MEMORY_MI300X,
            "gpu.architecture": sources.ROCM_GPU_SPECS, "gpu.gfx_target": sources.ROCM_GPU_SPECS,
        },
    ),
    board(
        name="amd-mi325x", kind="gpu", vendor=_VENDOR, product="Aqua Vanjaram [Instinct MI325X]",
        ids=(AMD, 0x74A5), class_code=CLASS_ACCELERATOR,
        gpu=GpuFacts(product_name="AMD Instinct MI325X", architecture="CDNA3", gfx_target="gfx942"),
        sources={
            "device_id": sources.PCI_IDS, "class_code": sources.LSPCI_MI325X, "gpu.product_name": sources.PCI_IDS,
            "gpu.architecture": sources.ROCM_GPU_SPECS, "gpu.gfx_target": sources.ROCM_GPU_SPECS,
        },
        unknown=("gpu.memory_mib",),
    ),
)  # fmt: skip

BOARDS = {item.name: item for item in GPUS}
