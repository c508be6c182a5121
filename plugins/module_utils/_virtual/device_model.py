# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""A PCI function that behaves: config space, BARs, interrupts, resets; knows no transport and is private to the collection.

Region and interrupt numbers are those of VFIO's PCI devices (``linux/vfio.h``), which is the vocabulary of every
transport that could carry this model.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.config_space import CONFIG_BYTES, ConfigSpace
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.regions import PageBudget, SparseRegion
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.spec import MSIX_ENTRY_BYTES, FunctionSpec

BAR_REGIONS = 6
REGION_CONFIG = 7
NUM_REGIONS = 9
REGION_READ = 1
REGION_WRITE = 2

IRQ_INTX = 0
IRQ_MSI = 1
IRQ_MSIX = 2
NUM_IRQS = 5
IRQ_EVENTFD = 1
IRQ_MASKABLE = 2
IRQ_AUTOMASKED = 4
IRQ_NORESIZE = 8

# Kinds of reset. After RESET_POWER a device is as new; after the others its behaviour may show.
RESET_POWER = "power"
RESET_DEVICE = "device"
RESET_FUNCTION = "flr"


class AccessError(Exception):
    """An access to a region that is not there, or beyond its end."""


class Device:
    """One PCI function.

    ``on_reset`` is told the kind of each reset that the function goes through, those that a guest starts by a write to
    config space included.
    """

    def __init__(self, spec: FunctionSpec, on_reset: Optional[Callable[[str], None]] = None) -> None:
        self.spec = spec
        self._on_reset = on_reset
        self._config = ConfigSpace(spec)
        self._budget = PageBudget(spec.max_backing_bytes)
        self._bars = {bar.index: SparseRegion(bar.size_bytes, self._budget) for bar in spec.bars}
        self._registers = {offset: struct.pack("<I", value) for offset, value in spec.registers.items()}
        self._fell_off_bus = False
        self._initialise()

    def take_dropped_writes(self) -> int:
        """How many writes to BARs went beyond what a device keeps, since the last time this was asked."""
        dropped, self._budget.dropped_writes = self._budget.dropped_writes, 0
        return dropped

    @property
    def backing_pages(self) -> int:
        """Pages of BAR contents that are kept now."""
        return self._budget.pages

    def region_info(self, index: int) -> tuple[int, int]:
        """Flags and size of a region; a region that the function lacks has size 0 and no flags."""
        if not 0 <= index < NUM_REGIONS:
            raise AccessError(f"there is no region {index}; a PCI device has {NUM_REGIONS}")
        if index == REGION_CONFIG:
            return REGION_READ | REGION_WRITE, CONFIG_BYTES
        bar = self._bars.get(index)
        return (0, 0) if bar is None else (REGION_READ | REGION_WRITE, bar.size_bytes)

    def irq_info(self, index: int) -> tuple[int, int]:
        """Flags and count of an interrupt type, with the flags that the kernel's vfio-pci gives."""
        if not 0 <= index < NUM_IRQS:
            raise AccessError(f"there is no interrupt type {index}; a PCI device has {NUM_IRQS}")
        if index == IRQ_INTX:
            return IRQ_EVENTFD | IRQ_MASKABLE | IRQ_AUTOMASKED, 1 if self.spec.interrupt_pin else 0
        if index == IRQ_MSI:
            return IRQ_EVENTFD | IRQ_NORESIZE, self.spec.msi_vectors
        if index == IRQ_MSIX:
            return IRQ_EVENTFD | IRQ_NORESIZE, self.spec.msix.vectors if self.spec.msix is not None else 0
        # The device can report errors and ask to be given back; QEMU warns of a device that cannot.
        return IRQ_EVENTFD, 1

    def read_delay_s(self, index: int) -> float:
        """How long an answer to a read of this region is to be held back."""
        return self.spec.behaviour.stall_config_reads_s if index == REGION_CONFIG else 0.0

    def region_read(self, index: int, offset: int, count: int) -> bytes:
        """``count`` bytes of a region."""
        self._check(index, offset, count)
        if index == REGION_CONFIG:
            return self.config_read(offset, count)
        data = self._bars[index].read(offset, count)
        if index == 0 and self._registers:
            return self._with_registers(data, offset)
        return data

    def region_write(self, index: int, offset: int, data: bytes) -> None:
        """Write into a region."""
        self._check(index, offset, len(data))
        if index == REGION_CONFIG:
            self.config_write(offset, data)
        else:
            self._bars[index].write(offset, data)

    def config_read(self, offset: int, count: int) -> bytes:
        """``count`` bytes of config space; all ones from a device that is no longer on its bus."""
        self._check(REGION_CONFIG, offset, count)
        return b"\xff" * count if self._fell_off_bus else self._config.read(offset, count)

    def config_write(self, offset: int, data: bytes) -> None:
        """Write to config space, which may reset the function."""
        self._check(REGION_CONFIG, offset, len(data))
        if not self._fell_off_bus and self._config.write(offset, data):
            self.reset(RESET_FUNCTION)

    def reset(self, kind: str) -> None:
        """Forget everything that software wrote."""
        self._initialise()
        self._fell_off_bus = kind != RESET_POWER and self.spec.behaviour.config_ff_after_reset
        if self._on_reset is not None:
            self._on_reset(kind)

    def _initialise(self) -> None:
        self._config.reset()
        for bar in self._bars.values():
            bar.clear()
        msix = self.spec.msix
        if msix is not None:
            # Every vector is masked after a reset.
            masked = bytes(MSIX_ENTRY_BYTES - 4) + b"\x01\x00\x00\x00"
            self._bars[msix.table_bar].write(msix.table_offset, masked * msix.vectors)

    def _check(self, index: int, offset: int, count: int) -> None:
        size = self.region_info(index)[1]
        if offset < 0 or count < 0 or offset + count > size:
            raise AccessError(f"{count} bytes at {offset:#x} are not within region {index}, which has {size} bytes")

    def _with_registers(self, data: bytes, offset: int) -> bytes:
        shown = bytearray(data)
        for register, value in self._registers.items():
            start, end = max(register, offset), min(register + 4, offset + len(data))
            if start < end:
                shown[start - offset : end - offset] = value[start - register : end - register]
        return bytes(shown)
