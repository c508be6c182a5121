# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network adapters that stand next to GPUs, each figure with its source; private to the collection."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

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
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board, NicFacts

_MLX5 = NicFacts(rdma=True, rdma_prefix="mlx5")


def _efa(generation: int, device_id: int, subsystem_id: Optional[int] = None) -> Board:
    return board(
        name=f"amazon-efa-v{generation}",
        kind="nic",
        vendor="Amazon.com, Inc.",
        product="Elastic Fabric Adapter (EFA)",
        ids=(AMAZON, device_id),
        class_code=CLASS_ETHERNET,
        subsystem=(AMAZON, subsystem_id) if subsystem_id else None,
        nic=NicFacts(rdma=True),
        sources={
            "device_id": f"{sources.PCI_IDS}; {sources.EFA_GENERATIONS}",
            "class_code": sources.LSPCI_P4D,
            "nic.rdma": sources.DRANET_P4D if subsystem_id else sources.EFA_DRIVER,
            **({"subsystem_id": sources.DRANET_P4D} if subsystem_id else {}),
        },
    )


def _two_ports(one: Board) -> Board:
    """An adapter whose second port is a function of its own."""
    return replace(one, functions=(one.main, replace(one.main, number=1, name="port1")))


NICS: tuple[Board, ...] = (
    board(
        name="nvidia-connectx-6", kind="nic", vendor="Mellanox Technologies", product="MT28908 Family [ConnectX-6]",
        ids=(MELLANOX, 0x101B), class_code=CLASS_INFINIBAND, bars=(memory64(0, 32 * MIB),), nic=_MLX5,
        sources={
            "device_id": sources.PCI_IDS, "class_code": sources.DMESG_CONNECTX6, "bars": sources.DMESG_CONNECTX6,
            "nic.rdma": sources.MLX5_RDMA,
        },
    ),
    board(
        name="nvidia-connectx-7", kind="nic", vendor="Mellanox Technologies", product="MT2910 Family [ConnectX-7]",
        ids=(MELLANOX, 0x1021), class_code=CLASS_INFINIBAND, nic=_MLX5,
        sources={"device_id": sources.PCI_IDS, "class_code": sources.MLX5_CLASS, "nic.rdma": sources.MLX5_RDMA},
    ),
    _two_ports(board(
        name="nvidia-connectx-8", kind="nic", vendor="Mellanox Technologies", product="CX8 Family [ConnectX-8]",
        ids=(MELLANOX, 0x1023), class_code=CLASS_ETHERNET, nic=_MLX5,
        sources={
            "device_id": sources.PCI_IDS, "class_code": f"no IPoIB, two functions: {sources.DRANET_GB200}",
            "nic.rdma": sources.DRANET_GB200,
        },
    )),
    board(
        name="amazon-ena", kind="nic", vendor="Amazon.com, Inc.", product="Elastic Network Adapter (ENA)",
        ids=(AMAZON, 0xEC20), class_code=CLASS_ETHERNET, subsystem=(AMAZON, 0xEC20), nic=NicFacts(rdma=False),
        sources={
            "device_id": sources.PCI_IDS, "class_code": sources.LSPCI_P4D,
            "subsystem_id": sources.DRANET_P4D, "nic.rdma": sources.DRANET_P4D,
        },
    ),
    _efa(1, 0xEFA0, 0xEFA0),
    _efa(2, 0xEFA1),
    _efa(3, 0xEFA2),
)  # fmt: skip

BOARDS = {item.name: item for item in NICS}
