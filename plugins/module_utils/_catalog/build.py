# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short forms in which the catalog writes its boards; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    Bar,
    Board,
    Function,
    GpuFacts,
    NicFacts,
)

MIB = 1 << 20
GIB = 1 << 30

NVIDIA = 0x10DE
AMD = 0x1002
MELLANOX = 0x15B3
AMAZON = 0x1D0F
RED_HAT = 0x1AF4

CLASS_3D = 0x030200
CLASS_DISPLAY = 0x038000
CLASS_ACCELERATOR = 0x120000
CLASS_BRIDGE = 0x068000
CLASS_ETHERNET = 0x020000
CLASS_INFINIBAND = 0x020700


def memory64(index: int, size_bytes: int) -> Bar:
    """A prefetchable 64-bit BAR."""
    return Bar(index=index, size_bytes=size_bytes, prefetchable=True)


def memory32(index: int, size_bytes: int) -> Bar:
    """A 32-bit BAR, not prefetchable."""
    return Bar(index=index, size_bytes=size_bytes, prefetchable=False, is_64bit=False)


def io_ports(index: int, size_bytes: int) -> Bar:
    """An I/O BAR."""
    return Bar(index=index, size_bytes=size_bytes, prefetchable=False, is_64bit=False, is_io=True)


def before_hopper(aperture_bytes: int) -> tuple[Bar, ...]:
    """The registers that NVIDIA boards up to Ada have: BAR0 of 32 bits, the aperture in BAR1, BAR3."""
    return memory32(0, 16 * MIB), memory64(1, aperture_bytes), memory64(3, 32 * MIB)


def since_hopper(registers_bytes: int, aperture_bytes: int) -> tuple[Bar, ...]:
    """The registers of Hopper and later: all of 64 bits, the aperture in BAR2."""
    return memory64(0, registers_bytes), memory64(2, aperture_bytes), memory64(4, 32 * MIB)


def board(
    name: str,
    kind: str,
    vendor: str,
    product: str,
    ids: tuple[int, int],
    class_code: int,
    sources: Mapping[str, str],
    subsystem: Optional[tuple[int, int]] = None,
    revision: Optional[int] = None,
    bars: Sequence[Bar] = (),
    gpu: Optional[GpuFacts] = None,
    nic: Optional[NicFacts] = None,
    qemu_device: Optional[str] = None,
    unknown: Sequence[str] = (),
) -> Board:
    """A board of one function; what is None or empty counts as unknown."""
    missing = {"subsystem_id": subsystem is None, "revision": revision is None, "bars": not bars}
    main = Function(
        number=0,
        name=kind,
        vendor_id=ids[0],
        device_id=ids[1],
        class_code=class_code,
        subsystem_vendor_id=subsystem[0] if subsystem else 0,
        subsystem_id=subsystem[1] if subsystem else 0,
        revision=revision or 0,
        bars=tuple(bars),
    )
    return Board(
        name=name,
        kind=kind,
        vendor=vendor,
        product=product,
        functions=(main,),
        served="qemu" if qemu_device else "vfio-user",
        qemu_device=qemu_device,
        gpu=gpu,
        nic=nic,
        sources=dict(sources),
        unknown=tuple(sorted({*unknown, *(field for field, absent in missing.items() if absent)})),
    )
