# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""What one PCI function of a virtual device is, read from and written to plain JSON data; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.behaviour import Behaviour, parse_behaviour

MIB = 1 << 20
BAR_REGISTERS = 6
# What a device keeps of writes to its BARs, at most; see regions.PageBudget.
DEFAULT_BACKING_BYTES = 64 * MIB
MAX_BACKING_BYTES = 1024 * MIB
# PCI Express Base Specification: a Resizable BAR capability register knows 1 MiB to 128 TiB.
RESIZABLE_MIN_BYTES = MIB
RESIZABLE_MAX_BYTES = MIB << 27
LINK_GENERATIONS = 6
LINK_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
MSI_VECTORS = (0, 1, 2, 4, 8, 16, 32)
MSIX_MAX_VECTORS = 2048
MSIX_ENTRY_BYTES = 16


class SpecError(FleetError):
    """A device specification that cannot be; the message names the path, the value and what is allowed."""


@dataclass(frozen=True)
class BarSpec:
    """A base address register."""

    index: int
    size_bytes: int
    prefetchable: bool = False
    is_64bit: bool = True
    is_io: bool = False
    resizable_bytes: tuple[int, ...] = ()

    @property
    def registers(self) -> tuple[int, ...]:
        """The register numbers that the BAR takes."""
        return (self.index, self.index + 1) if self.is_64bit else (self.index,)


@dataclass(frozen=True)
class MsixSpec:
    """MSI-X: how many vectors, and where in the BARs the table and the pending bits are."""

    vectors: int
    table_bar: int
    table_offset: int
    pba_bar: int
    pba_offset: int

    @property
    def table_bytes(self) -> int:
        """Size of the vector table."""
        return self.vectors * MSIX_ENTRY_BYTES

    @property
    def pba_bytes(self) -> int:
        """Size of the pending bit array: one bit a vector, in quad words."""
        return (self.vectors + 63) // 64 * 8


@dataclass(frozen=True)
class FunctionSpec:
    """A PCI function: what it shows in its config space, its BARs, and how it behaves."""

    vendor_id: int
    device_id: int
    class_code: int
    subsystem_vendor_id: int = 0
    subsystem_id: int = 0
    revision: int = 0
    bars: tuple[BarSpec, ...] = ()
    multifunction: bool = False
    interrupt_pin: int = 1
    link_generation: int = 1
    link_width: int = 1
    msi_vectors: int = 1
    msix: Optional[MsixSpec] = None
    serial_number: Optional[int] = None
    registers: Mapping[int, int] = field(default_factory=dict, hash=False)
    behaviour: Behaviour = field(default_factory=Behaviour)
    max_backing_bytes: int = DEFAULT_BACKING_BYTES


class _Fields:
    """Takes typed values out of a mapping and says what is left over."""

    def __init__(self, raw: object, path: str) -> None:
        if not isinstance(raw, Mapping):
            raise SpecError(f"{path} is {raw!r}; it takes a mapping.")
        self._raw = dict(raw)
        self._path = path

    def integer(self, name: str, low: int, high: int, default: Optional[int] = None) -> int:
        value = self._raw.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise SpecError(f"{self._path}.{name} is {value!r}; it takes a whole number from {low} to {high:#x}.")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._raw.pop(name, default)
        if not isinstance(value, bool):
            raise SpecError(f"{self._path}.{name} is {value!r}; it takes true or false.")
        return value

    def items(self, name: str) -> list[object]:
        value = self._raw.pop(name, ())
        if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
            raise SpecError(f"{self._path}.{name} is {value!r}; it takes a list.")
        return list(value)

    def other(self, name: str, default: object = None) -> object:
        return self._raw.pop(name, default)

    def end(self) -> None:
        if self._raw:
            raise SpecError(f"{self._path} has unknown keys: {', '.join(sorted(map(str, self._raw)))}.")


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _parse_bar(raw: object, path: str) -> BarSpec:
    fields = _Fields(raw, path)
    index = fields.integer("index", 0, BAR_REGISTERS - 1)
    is_io = fields.flag("is_io", False)
    is_64bit = fields.flag("is_64bit", True) and not is_io
    prefetchable = fields.flag("prefetchable", False)
    size = fields.integer("size_bytes", 1, 1 << 62)
    resizable = fields.items("resizable_bytes")
    fields.end()
    smallest, largest = (4, 256) if is_io else (16, 1 << 62 if is_64bit else 1 << 31)
    if not _power_of_two(size) or not smallest <= size <= largest:
        raise SpecError(
            f"{path}.size_bytes is {size}; this kind of BAR takes a power of two from {smallest} to {largest}."
        )
    if is_64bit and index == BAR_REGISTERS - 1:
        raise SpecError(
            f"{path}.index is {index}; a 64-bit BAR takes two registers, so its index is at most {BAR_REGISTERS - 2}."
        )
    sizes: list[int] = []
    for number, value in enumerate(resizable):
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not _power_of_two(value)
            or not RESIZABLE_MIN_BYTES <= value <= RESIZABLE_MAX_BYTES
        ):
            raise SpecError(
                f"{path}.resizable_bytes[{number}] is {value!r}; it takes a power of two from 1 MiB to 128 TiB in bytes."
            )
        sizes.append(value)
    if sizes and (is_io or not RESIZABLE_MIN_BYTES <= size <= RESIZABLE_MAX_BYTES):
        raise SpecError(f"{path}.resizable_bytes is set, but only a memory BAR of 1 MiB to 128 TiB can be resizable.")
    return BarSpec(index, size, prefetchable, is_64bit, is_io, tuple(sorted(set(sizes))))


def _parse_bars(raw: list[object], path: str) -> tuple[BarSpec, ...]:
    bars: list[BarSpec] = []
    taken: dict[int, int] = {}
    for number, item in enumerate(raw):
        bar = _parse_bar(item, f"{path}[{number}]")
        for register in bar.registers:
            if register in taken:
                raise SpecError(
                    f"{path}[{number}] takes register {register}, which {path}[{taken[register]}] has already."
                )
            taken[register] = number
        bars.append(bar)
    return tuple(sorted(bars, key=lambda bar: bar.index))


def _parse_msix(raw: object, bars: tuple[BarSpec, ...], path: str) -> MsixSpec:
    fields = _Fields(raw, path)
    msix = MsixSpec(
        vectors=fields.integer("vectors", 1, MSIX_MAX_VECTORS),
        table_bar=fields.integer("table_bar", 0, BAR_REGISTERS - 1),
        table_offset=fields.integer("table_offset", 0, 0xFFFFFFF8),
        pba_bar=fields.integer("pba_bar", 0, BAR_REGISTERS - 1),
        pba_offset=fields.integer("pba_offset", 0, 0xFFFFFFF8),
    )
    fields.end()
    sizes = {bar.index: bar.size_bytes for bar in bars if not bar.is_io}
    for what, bar, offset, length in (
        ("table", msix.table_bar, msix.table_offset, msix.table_bytes),
        ("pba", msix.pba_bar, msix.pba_offset, msix.pba_bytes),
    ):
        if offset % 8:
            raise SpecError(f"{path}.{what}_offset is {offset:#x}; it takes a multiple of 8.")
        if offset + length > sizes.get(bar, 0):
            raise SpecError(
                f"{path}: the {what} of {length} bytes at {offset:#x} does not fit in memory BAR {bar} ({sizes.get(bar, 0)} bytes)."
            )
    if (
        msix.table_bar == msix.pba_bar
        and msix.table_offset < msix.pba_offset + msix.pba_bytes
        and msix.pba_offset < msix.table_offset + msix.table_bytes
    ):
        raise SpecError(f"{path}: the table and the pending bits overlap in BAR {msix.table_bar}.")
    return msix


def _parse_registers(raw: object, bars: tuple[BarSpec, ...], path: str) -> dict[int, int]:
    if not isinstance(raw, Mapping):
        raise SpecError(f"{path} is {raw!r}; it takes a mapping of offsets in BAR 0 to 32-bit values.")
    size = next((bar.size_bytes for bar in bars if bar.index == 0), 0)
    registers: dict[int, int] = {}
    for key, value in raw.items():
        # JSON has only strings as keys.
        try:
            offset = int(key, 0) if isinstance(key, str) else int(key)
        except ValueError:
            offset = -1
        if offset < 0 or offset % 4 or offset + 4 > size:
            raise SpecError(
                f"{path} has {key!r}; it takes offsets that are multiples of 4 within BAR 0 ({size} bytes)."
            )
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 0xFFFFFFFF:
            raise SpecError(f"{path}[{key}] is {value!r}; it takes a 32-bit number.")
        registers[offset] = value
    return registers


def _one_of(value: int, allowed: tuple[int, ...], path: str) -> int:
    if value not in allowed:
        raise SpecError(f"{path} is {value}; it takes one of {', '.join(map(str, allowed))}.")
    return value


def parse_spec(raw: object, path: str = "spec") -> FunctionSpec:
    """The function that plain data describes; SpecError names the path of what is wrong."""
    fields = _Fields(raw, path)
    bars = _parse_bars(fields.items("bars"), f"{path}.bars")
    msix = fields.other("msix")
    serial = fields.other("serial_number")
    if serial is not None and (isinstance(serial, bool) or not isinstance(serial, int) or not 0 <= serial < 1 << 64):
        raise SpecError(f"{path}.serial_number is {serial!r}; it takes a 64-bit number.")
    spec = FunctionSpec(
        vendor_id=fields.integer("vendor_id", 0, 0xFFFE),
        device_id=fields.integer("device_id", 0, 0xFFFF),
        class_code=fields.integer("class_code", 0, 0xFFFFFF),
        subsystem_vendor_id=fields.integer("subsystem_vendor_id", 0, 0xFFFF, 0),
        subsystem_id=fields.integer("subsystem_id", 0, 0xFFFF, 0),
        revision=fields.integer("revision", 0, 0xFF, 0),
        bars=bars,
        multifunction=fields.flag("multifunction", False),
        interrupt_pin=fields.integer("interrupt_pin", 0, 4, 1),
        link_generation=fields.integer("link_generation", 1, LINK_GENERATIONS, 1),
        link_width=_one_of(fields.integer("link_width", 1, 32, 1), LINK_WIDTHS, f"{path}.link_width"),
        msi_vectors=_one_of(fields.integer("msi_vectors", 0, 32, 1), MSI_VECTORS, f"{path}.msi_vectors"),
        msix=None if msix is None else _parse_msix(msix, bars, f"{path}.msix"),
        serial_number=serial,
        registers=_parse_registers(fields.other("registers", {}), bars, f"{path}.registers"),
        behaviour=parse_behaviour(fields.other("behaviour", {}), f"{path}.behaviour"),
        max_backing_bytes=fields.integer("max_backing_bytes", 0, MAX_BACKING_BYTES, DEFAULT_BACKING_BYTES),
    )
    fields.end()
    return spec
