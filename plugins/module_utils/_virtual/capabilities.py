# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""The PCI capabilities of a function, as bytes with the masks of what software may write; private to the collection.

Layouts are those of the PCI Express Base Specification; the names in comments are Linux' (``pci_regs.h``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.spec import MIB, BarSpec, FunctionSpec, MsixSpec

CAP_PM = 0x01
CAP_MSI = 0x05
CAP_EXPRESS = 0x10
CAP_MSIX = 0x11
EXT_CAP_SERIAL = 0x0003
EXT_CAP_RESIZABLE_BAR = 0x0015

# Offsets within the PCI Express capability
DEVICE_CONTROL = 0x08
DEVICE_CONTROL_FLR = 0x8000
EXPRESS_BYTES = 0x3C


@dataclass(frozen=True)
class Capability:
    """A capability without its place: the header's link to the next one is filled in by whoever lays it out.

    ``writable`` has a bit for each that software may set, ``clearable`` one for each that writing 1 clears.
    """

    capability_id: int
    body: bytes
    writable: bytes
    clearable: bytes


class _Builder:
    """A block of registers that grows masks with its values."""

    def __init__(self, length: int) -> None:
        self.body = bytearray(length)
        self.writable = bytearray(length)
        self.clearable = bytearray(length)

    def word(self, offset: int, value: int, writable: int = 0, clearable: int = 0) -> None:
        for block, bits in ((self.body, value), (self.writable, writable), (self.clearable, clearable)):
            struct.pack_into("<H", block, offset, bits)

    def dword(self, offset: int, value: int, writable: int = 0) -> None:
        struct.pack_into("<I", self.body, offset, value)
        struct.pack_into("<I", self.writable, offset, writable)

    def build(self, capability_id: int) -> Capability:
        return Capability(capability_id, bytes(self.body), bytes(self.writable), bytes(self.clearable))


def power_management() -> Capability:
    """Power management 1.2 without PME; D3hot keeps the state, as PCI Express GPUs do (NoSoftRst+)."""
    block = _Builder(8)
    block.word(2, 0x0003)
    block.word(4, 0x0008, writable=0x0003)
    return block.build(CAP_PM)


def msi(vectors: int) -> Capability:
    """MSI with 64-bit addresses and without masks, for a power of two of vectors."""
    block = _Builder(14)
    block.word(2, 0x0080 | (vectors.bit_length() - 1) << 1, writable=0x0071)
    block.dword(4, 0, writable=0xFFFFFFFC)
    block.dword(8, 0, writable=0xFFFFFFFF)
    block.word(12, 0, writable=0xFFFF)
    return block.build(CAP_MSI)


def msix(spec: MsixSpec) -> Capability:
    """MSI-X with its table and pending bits in the BARs that the specification names."""
    block = _Builder(12)
    block.word(2, spec.vectors - 1, writable=0xC000)
    block.dword(4, spec.table_offset | spec.table_bar)
    block.dword(8, spec.pba_offset | spec.pba_bar)
    return block.build(CAP_MSIX)


def express(link_generation: int, link_width: int) -> Capability:
    """A PCI Express endpoint, version 2, that can be reset by function (FLR)."""
    block = _Builder(EXPRESS_BYTES)
    block.word(0x02, 0x0002)
    block.dword(0x04, 0x10008001)  # DEVCAP: 256 byte payload, role-based errors, FLR
    # FLR (bit 15) reads as zero and is acted on by config_space.
    block.word(DEVICE_CONTROL, 0x2810, writable=0x7FFF)
    block.word(0x0A, 0, clearable=0x000F)
    link = link_generation | link_width << 4
    block.dword(0x0C, link)
    block.word(0x10, 0, writable=0x01CB)
    block.word(0x12, link | 0x1000)  # LNKSTA: common reference clock
    block.dword(0x24, 0x00000010)  # DEVCAP2: completion time-out can be disabled
    block.word(0x28, 0, writable=0x001F)
    block.dword(0x2C, ((1 << link_generation) - 1) << 1)
    block.word(0x30, link_generation, writable=0x000F)
    return block.build(CAP_EXPRESS)


def serial_number(value: int) -> Capability:
    """Device Serial Number extended capability."""
    block = _Builder(12)
    block.dword(4, value & 0xFFFFFFFF)
    block.dword(8, value >> 32)
    return block.build(EXT_CAP_SERIAL)


def resizable_bars(bars: tuple[BarSpec, ...]) -> Capability:
    """Resizable BAR extended capability.

    The size is told, not changed: a vfio-user client asks for the regions' sizes once, and QEMU shows its guest the
    present size alone.
    """
    block = _Builder(4 + 8 * len(bars))
    for number, bar in enumerate(bars):
        supported = 0
        for size in (*bar.resizable_bytes, bar.size_bytes):
            supported |= 1 << (_size_exponent(size) + 4)
        block.dword(4 + 8 * number, supported)
        count = len(bars) << 5 if number == 0 else 0
        block.dword(8 + 8 * number, bar.index | count | _size_exponent(bar.size_bytes) << 8)
    return block.build(EXT_CAP_RESIZABLE_BAR)


def _size_exponent(size_bytes: int) -> int:
    return (size_bytes // MIB).bit_length() - 1


def standard_capabilities(spec: FunctionSpec) -> list[Capability]:
    """What the function has in the first 256 bytes, in order."""
    found = [power_management()]
    if spec.msi_vectors:
        found.append(msi(spec.msi_vectors))
    found.append(express(spec.link_generation, spec.link_width))
    if spec.msix is not None:
        found.append(msix(spec.msix))
    return found


def extended_capabilities(spec: FunctionSpec) -> list[Capability]:
    """What the function has beyond the first 256 bytes, in order."""
    found = []
    if spec.serial_number is not None:
        found.append(serial_number(spec.serial_number))
    resizable = tuple(bar for bar in spec.bars if bar.resizable_bytes)
    if resizable:
        found.append(resizable_bars(resizable))
    return found
