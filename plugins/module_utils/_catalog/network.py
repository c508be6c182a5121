# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network adapters that stand next to GPUs, each figure with its source; private to the collection."""

from __future__ import annotations

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog import sources
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.build import (
    AMAZON,
    CLASS_ETHERNET,
    CLASS_INFINIBAND,
    MELLANOX,
    MIB,
    board,
    memory64,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board


def _efa(generation: int, device_id: int) -> Board:
    return board(
        name=f"amazon-efa-v{generation}",
        kind="nic",
        vendor="Amazon.com, Inc.",
        product="Elastic Fabric Adapter (EFA)",
        ids=(AMAZON, device_id),
        class_code=CLASS_ETHERNET,
        sources={"device_id": f"{sources.PCI_IDS}; {sources.EFA_GENERATIONS}", "class_code": sources.LSPCI_P4D},
    )


NICS: tuple[Board, ...] = (
    board(
        name="nvidia-connectx-6", kind="nic", vendor="Mellanox Technologies", product="MT28908 Family [ConnectX-6]",
        ids=(MELLANOX, 0x101B), class_code=CLASS_INFINIBAND, bars=(memory64(0, 32 * MIB),),
        sources={
            "device_id": sources.PCI_IDS, "class_code": sources.DMESG_CONNECTX6, "bars": sources.DMESG_CONNECTX6,
        },
    ),
    board(
        name="nvidia-connectx-7", kind="nic", vendor="Mellanox Technologies", product="MT2910 Family [ConnectX-7]",
        ids=(MELLANOX, 0x1021), class_code=CLASS_INFINIBAND,
        sources={"device_id": sources.PCI_IDS, "class_code": sources.MLX5_CLASS},
    ),
    _efa(1, 0xEFA0),
    _efa(2, 0xEFA1),
    _efa(3, 0xEFA2),
)  # fmt: skip

BOARDS = {item.name: item for item in NICS}
