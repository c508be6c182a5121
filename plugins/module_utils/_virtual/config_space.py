# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""The 4096 bytes of PCI config space of one function, with what software may write in them; private to the collection."""

from __future__ import annotations

import struct

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.capabilities import (
    CAP_EXPRESS,
    DEVICE_CONTROL,
    DEVICE_CONTROL_FLR,
    Capability,
    extended_capabilities,
    standard_capabilities,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.spec import BarSpec, FunctionSpec

CONFIG_BYTES = 4096
FIRST_CAPABILITY = 0x40
FIRST_EXTENDED = 0x100
STATUS_CAPABILITIES = 0x0010


class ConfigSpace:
    """Config space with write masks; ``write`` tells whether software asked for a function level reset."""

    def __init__(self, spec: FunctionSpec) -> None:
        self._values = bytearray(CONFIG_BYTES)
        self._writable = bytearray(CONFIG_BYTES)
        self._clearable = bytearray(CONFIG_BYTES)
        self.capability_offsets: dict[int, int] = {}
        self._header(spec)
        self._lay_out_standard(standard_capabilities(spec))
        self._lay_out_extended(extended_capabilities(spec))
        self._flr_byte = self.capability_offsets[CAP_EXPRESS] + DEVICE_CONTROL + 1
        self._initial = bytes(self._values)

    def read(self, offset: int, count: int) -> bytes:
        """The bytes as software sees them."""
        return bytes(self._values[offset : offset + count])

    def write(self, offset: int, data: bytes) -> bool:
        """Apply a write within the masks; True when it starts a function level reset."""
        for position, byte in enumerate(data, offset):
            writable = self._writable[position]
            value = (self._values[position] & ~writable) | (byte & writable)
            self._values[position] = value & ~(byte & self._clearable[position])
        touches_flr = offset <= self._flr_byte < offset + len(data)
        return touches_flr and bool(data[self._flr_byte - offset] & DEVICE_CONTROL_FLR >> 8)

    def reset(self) -> None:
        """Everything as after power-on."""
        self._values[:] = self._initial

    def _header(self, spec: FunctionSpec) -> None:
        struct.pack_into("<HHHH", self._values, 0x00, spec.vendor_id, spec.device_id, 0, STATUS_CAPABILITIES)
        # Command: memory, bus master, parity, SERR, INTx disable; I/O only where there is an I/O BAR.
        struct.pack_into("<H", self._writable, 0x04, 0x0546 | any(bar.is_io for bar in spec.bars))
        struct.pack_into("<H", self._clearable, 0x06, 0xF900)
        struct.pack_into("<I", self._values, 0x08, spec.class_code << 8 | spec.revision)
        self._writable[0x0C] = 0xFF
        self._values[0x0E] = 0x80 if spec.multifunction else 0
        for bar in spec.bars:
            self._bar(bar)
        struct.pack_into("<HH", self._values, 0x2C, spec.subsystem_vendor_id, spec.subsystem_id)
        self._writable[0x3C] = 0xFF
        self._values[0x3D] = spec.interrupt_pin

    def _bar(self, bar: BarSpec) -> None:
        offset = 0x10 + 4 * bar.index
        if bar.is_io:
            struct.pack_into("<I", self._values, offset, 0x1)
            struct.pack_into("<I", self._writable, offset, -bar.size_bytes & 0xFFFFFFFC)
            return
        struct.pack_into("<I", self._values, offset, (0x8 if bar.prefetchable else 0) | (0x4 if bar.is_64bit else 0))
        # Address bits below the size stay zero, which is how software sizes a BAR.
        mask = -bar.size_bytes & 0xFFFFFFFFFFFFFFF0
        struct.pack_into("<I", self._writable, offset, mask & 0xFFFFFFFF)
        if bar.is_64bit:
            struct.pack_into("<I", self._writable, offset + 4, mask >> 32)

    def _place(self, capability: Capability, offset: int) -> None:
        end = offset + len(capability.body)
        self._values[offset:end] = capability.body
        self._writable[offset:end] = capability.writable
        self._clearable[offset:end] = capability.clearable

    def _lay_out_standard(self, capabilities: list[Capability]) -> None:
        offset, link = FIRST_CAPABILITY, 0x34
        for capability in capabilities:
            self._place(capability, offset)
            self._values[offset] = capability.capability_id
            self._values[link] = offset
            self.capability_offsets[capability.capability_id] = offset
            link = offset + 1
            offset += (len(capability.body) + 3) & ~3

    def _lay_out_extended(self, capabilities: list[Capability]) -> None:
        offset = FIRST_EXTENDED
        for number, capability in enumerate(capabilities):
            self._place(capability, offset)
            following = (offset + len(capability.body) + 3) & ~3
            link = following if number + 1 < len(capabilities) else 0
            struct.pack_into("<I", self._values, offset, capability.capability_id | 1 << 16 | link << 20)
            offset = following
