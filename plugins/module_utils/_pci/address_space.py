# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How QEMU's q35 machine lays out the guest's physical address space. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
FOUR_GIB = 4 * GIB

# hw/pci-host/q35.c: the size of the 64-bit PCI hole when nobody sets it.
DEFAULT_HOLE64_BYTES = 32 * GIB
# hw/i386/pc_q35.c: with this much memory or more, only 2 GiB of it stay below 4 GiB, otherwise up to 2.75 GiB.
_LOW_MEMORY_SPLIT_BYTES = 0xB0000000
_LOW_MEMORY_BYTES = 0x80000000
# hw/i386/pc.c: HyperTransport's range of AMD CPUs; memory above 4 GiB moves to 1 TiB when the hole would reach it.
_AMD_HT_START = 0xFD00000000
_AMD_ABOVE_1TIB = TIB
VENDOR_AMD = "AuthenticAMD"

# Four-level page tables end at 46 bits in OVMF and in older guest kernels.
FOUR_LEVEL_BITS = 46


@dataclass(frozen=True)
class AddressSpace:
    """A guest's memory and address width; answers where the 64-bit hole begins and whether one of a size fits."""

    ram_bytes: int
    phys_bits: int
    vendor: str
    la57: bool = False
    hotplug_bytes: int = 0

    @property
    def limit_bytes(self) -> int:
        """What QEMU accepts: it exits when the hole ends above."""
        return 1 << self.phys_bits

    @property
    def usable_bits(self) -> int:
        """What firmware and guest can be counted on to reach."""
        return self.phys_bits if self.la57 else min(self.phys_bits, FOUR_LEVEL_BITS)

    def hole_start(self, hole64_bytes: int) -> int:
        """The end of memory, where a hole of that size begins."""
        low_bytes = _LOW_MEMORY_BYTES if self.ram_bytes >= _LOW_MEMORY_SPLIT_BYTES else _LOW_MEMORY_SPLIT_BYTES
        high_bytes = max(0, self.ram_bytes - low_bytes) + self.hotplug_bytes
        start = round_up(FOUR_GIB + high_bytes, GIB)
        if self.vendor == VENDOR_AMD and start + hole64_bytes > _AMD_HT_START:
            start = round_up(_AMD_ABOVE_1TIB + high_bytes, GIB)
        return start

    def accepts(self, hole64_bytes: int) -> bool:
        """Whether QEMU starts with such a hole."""
        return self.hole_start(hole64_bytes) + hole64_bytes <= self.limit_bytes

    def reaches(self, hole64_bytes: int) -> bool:
        """Whether QEMU starts, and firmware and guest reach the end of the hole."""
        return self.hole_start(hole64_bytes) + hole64_bytes <= 1 << self.usable_bits


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def next_power_of_two(value: int) -> int:
    return 1 if value <= 1 else 1 << (value - 1).bit_length()


def show_size(size_bytes: int) -> str:
    """A size in the largest binary unit that keeps it whole, as in 1.5 TiB, 128 GiB or 4 KiB."""
    for unit_bytes, unit in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit_bytes and size_bytes * 2 % unit_bytes == 0:
            return f"{size_bytes / unit_bytes:g} {unit}"
    return f"{size_bytes} bytes"
