# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What software sees of a function: config space, capabilities, BARs, interrupts, resets."""

from __future__ import annotations

import struct

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.device_model import (
    RESET_DEVICE,
    RESET_FUNCTION,
    RESET_POWER,
    AccessError,
    Device,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.spec import parse_spec
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.vfio_client import GIB, GPU, MIB


def device(**changes: object) -> Device:
    return Device(parse_spec({**GPU, **changes}))


def config(dev: Device, layout: str, offset: int) -> int:
    return int(struct.unpack("<" + layout, dev.config_read(offset, struct.calcsize("<" + layout)))[0])


def capabilities(dev: Device) -> dict[int, int]:
    """Standard capabilities as a driver finds them: id -> offset."""
    found, offset = {}, config(dev, "B", 0x34)
    while offset:
        found[config(dev, "B", offset)] = offset
        offset = config(dev, "B", offset + 1)
    return found


def extended_capabilities(dev: Device) -> dict[int, int]:
    found, offset = {}, 0x100
    while offset and config(dev, "I", offset):
        header = config(dev, "I", offset)
        assert header >> 16 & 0xF == 1
        found[header & 0xFFFF] = offset
        offset = header >> 20
    return found


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [
        (0x00, "H", 0x10DE),
        (0x02, "H", 0x2330),
        (0x06, "H", 0x0010),
        (0x08, "I", 0x030200A1),
        (0x0E, "B", 0x00),
        (0x10, "I", 0x0),
        (0x14, "I", 0xC),
        (0x1C, "I", 0xC),
        (0x2C, "H", 0x10DE),
        (0x2E, "H", 0x16C1),
        (0x30, "I", 0x0),
        (0x3D, "B", 0x01),
    ],
)
def test_header(offset: int, layout: str, value: int) -> None:
    assert config(device(), layout, offset) == value


@pytest.mark.parametrize(
    ("changes", "offset", "layout", "value"),
    [
        ({"multifunction": True}, 0x0E, "B", 0x80),
        ({"interrupt_pin": 0}, 0x3D, "B", 0),
        ({"interrupt_pin": 2}, 0x3D, "B", 2),
        ({"bars": [{"index": 5, "size_bytes": 128, "is_io": True}], "msix": None, "registers": {}}, 0x24, "I", 0x1),
    ],
)
def test_header_follows_the_specification(changes: dict[str, object], offset: int, layout: str, value: int) -> None:
    assert config(device(**changes), layout, offset) == value


@pytest.mark.parametrize(
    ("offset", "before", "after"),
    [
        (0x00, "de103023", "de103023"),  # ids
        (0x04, "0000", "4605"),  # command: no I/O without an I/O BAR
        (0x08, "a1000203", "a1000203"),  # revision and class
        (0x0C, "00", "ff"),  # cache line size
        (0x0D, "0000", "0000"),  # latency timer, header type
        (0x10, "00000000", "000000ff"),  # BAR 0: 16 MiB, 32 bits
        (0x14, "0c00000000000000", "0c000000e0ffffff"),  # BAR 1: 128 GiB, 64 bits
        (0x1C, "0c00000000000000", "0c0000feffffffff"),  # BAR 3: 32 MiB, 64 bits
        (0x24, "00000000", "00000000"),  # no BAR
        (0x2C, "de10c116", "de10c116"),  # subsystem
        (0x30, "00000000", "00000000"),  # no ROM
        (0x34, "40", "40"),  # first capability
        (0x3C, "00", "ff"),  # interrupt line
        (0x3D, "01", "01"),  # interrupt pin
        (0xFFC, "00000000", "00000000"),  # nothing there
    ],
)
def test_what_software_can_write(offset: int, before: str, after: str) -> None:
    dev, count = device(), len(before) // 2
    assert dev.config_read(offset, count).hex() == before
    dev.config_write(offset, b"\xff" * count)
    assert dev.config_read(offset, count).hex() == after
    dev.config_write(offset, bytes(count))
    assert dev.config_read(offset, count).hex() == before


def test_writing_all_of_config_space_leaves_what_is_read_only() -> None:
    dev = device()
    before = dev.config_read(0, 4096)
    dev.config_write(0x80, b"")
    # Without the bit that starts a reset, which would undo everything.
    flr = capabilities(dev)[0x10] + 9
    dev.config_write(0, b"\xff" * flr + b"\x7f" + b"\xff" * (4096 - flr - 1))
    assert dev.config_read(0, 4) == before[:4]
    assert extended_capabilities(dev) == {0x15: 0x100}
    assert set(capabilities(dev)) == {0x01, 0x05, 0x10, 0x11}
    dev.reset(RESET_DEVICE)
    assert dev.config_read(0, 4096) == before


def test_capabilities_do_not_overlap_and_are_aligned() -> None:
    sizes = {0x01: 8, 0x05: 14, 0x10: 0x3C, 0x11: 12}
    places = sorted((offset, offset + sizes[number]) for number, offset in capabilities(device()).items())
    assert all(start % 4 == 0 and start >= 0x40 and end <= 0x100 for start, end in places)
    assert all(end <= start for (_start, end), (start, _end) in zip(places, places[1:]))


@pytest.mark.parametrize(("generation", "width"), [(1, 1), (3, 8), (5, 16)])
def test_express_tells_the_link(generation: int, width: int) -> None:
    dev = device(link_generation=generation, link_width=width)
    express = capabilities(dev)[0x10]
    assert config(dev, "H", express + 2) == 0x0002, "an endpoint, version 2"
    assert config(dev, "I", express + 4) & 1 << 28, "FLR"
    for offset, layout in ((0x0C, "I"), (0x12, "H")):
        link = config(dev, layout, express + offset)
        assert (link & 0xF, link >> 4 & 0x3F) == (generation, width)
    assert config(dev, "I", express + 0x2C) == sum(1 << number for number in range(1, generation + 1))


@pytest.mark.parametrize(("vectors", "exponent"), [(1, 0), (2, 1), (8, 3), (32, 5)])
def test_msi(vectors: int, exponent: int) -> None:
    dev = device(msi_vectors=vectors)
    control = config(dev, "H", capabilities(dev)[0x05] + 2)
    assert control == 0x80 | exponent << 1
    dev.config_write(capabilities(dev)[0x05] + 2, b"\xff\xff")
    assert config(dev, "H", capabilities(dev)[0x05] + 2) == control | 0x71
    assert dev.irq_info(1)[1] == vectors


def test_no_msi_where_there_is_none() -> None:
    dev = device(msi_vectors=0, msix=None)
    assert set(capabilities(dev)) == {0x01, 0x10}
    assert [dev.irq_info(index)[1] for index in range(5)] == [1, 0, 0, 1, 1]


def test_msix() -> None:
    dev = device()
    msix = capabilities(dev)[0x11]
    assert (config(dev, "H", msix + 2), config(dev, "I", msix + 4), config(dev, "I", msix + 8)) == (
        31,
        0x100000,
        0x110000,
    )
    assert dev.irq_info(2)[1] == 32
    masked = struct.pack("<IIII", 0, 0, 0, 1)
    assert dev.region_read(0, 0x100000, 32 * 16 + 4) == masked * 32 + bytes(4)
    dev.region_write(0, 0x100000, struct.pack("<IIII", 0xFEE00000, 0, 33, 0))
    dev.reset(RESET_DEVICE)
    assert dev.region_read(0, 0x100000, 16) == masked


def test_resizable_bar() -> None:
    dev = device()
    rebar = extended_capabilities(dev)[0x15]
    # 256 MiB is bit 4 + 8, 128 GiB bit 4 + 17
    assert config(dev, "I", rebar + 4) == 1 << 12 | 1 << 21
    assert config(dev, "I", rebar + 8) == 1 | 1 << 5 | 17 << 8
    dev.config_write(rebar + 8, struct.pack("<I", 1 | 1 << 5 | 8 << 8))
    assert config(dev, "I", rebar + 8) >> 8 == 17, "the size is told, not changed"


def test_serial_number_is_chained_with_resizable_bar() -> None:
    dev = device(serial_number=0x48B02DFFFE123456)
    found = extended_capabilities(dev)
    assert set(found) == {0x03, 0x15}
    assert config(dev, "Q", found[0x03] + 4) == 0x48B02DFFFE123456


def test_no_extended_capabilities() -> None:
    bars = [{"index": 0, "size_bytes": MIB}]
    assert extended_capabilities(device(bars=bars, msix=None, registers={})) == {}


def test_power_state_keeps_what_was_written() -> None:
    dev = device()
    power = capabilities(dev)[0x01] + 4
    dev.region_write(1, 0, b"kept")
    dev.config_write(power, b"\x03\x00")
    assert config(dev, "H", power) == 0x0B
    dev.config_write(power, b"\x00\x00")
    assert dev.region_read(1, 0, 4) == b"kept"


@pytest.mark.parametrize(
    "write", [(8, b"\x10\xa8"), (9, b"\xa8"), (6, b"\x00\x00\x10\xa8")], ids=["word", "byte", "across"]
)
def test_function_level_reset(write: tuple[int, bytes]) -> None:
    kinds: list[str] = []
    dev = Device(parse_spec(GPU), kinds.append)
    express = capabilities(dev)[0x10]
    before = dev.config_read(0, 4096)
    dev.config_write(0x04, b"\x06\x00")
    dev.region_write(1, 5 * GIB, b"gone")
    dev.config_write(express + write[0], write[1])
    assert kinds == [RESET_FUNCTION]
    assert dev.config_read(0, 4096) == before
    assert dev.region_read(1, 5 * GIB, 4) == bytes(4)


def test_device_control_without_the_reset_bit_resets_nothing() -> None:
    kinds: list[str] = []
    dev = Device(parse_spec(GPU), kinds.append)
    express = capabilities(dev)[0x10]
    dev.config_write(express + 8, b"\x5f\x28")
    assert kinds == []
    assert config(dev, "H", express + 8) == 0x285F


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (0, (3, 16 * MIB)),
        (1, (3, 128 * GIB)),
        (2, (0, 0)),
        (3, (3, 32 * MIB)),
        (6, (0, 0)),
        (7, (3, 4096)),
        (8, (0, 0)),
    ],
)
def test_region_info(index: int, expected: tuple[int, int]) -> None:
    assert device().region_info(index) == expected


@pytest.mark.parametrize(
    ("index", "offset", "count"),
    [
        (0, 16 * MIB, 1),
        (0, 16 * MIB - 1, 2),
        (2, 0, 1),
        (6, 0, 4),
        (7, 4094, 4),
        (9, 0, 1),
        (1 << 31, 0, 1),
        (1, (1 << 64) - 1, 8),
    ],
)
def test_an_access_outside_a_region_is_an_error(index: int, offset: int, count: int) -> None:
    dev = device()
    with pytest.raises(AccessError):
        dev.region_read(index, offset, count)
    with pytest.raises(AccessError):
        dev.region_write(index, offset, bytes(count))


@pytest.mark.parametrize("index", [-1, 5, 1 << 31])
def test_no_such_interrupt(index: int) -> None:
    with pytest.raises(AccessError):
        device().irq_info(index)


def test_bars_keep_what_is_written_across_pages() -> None:
    dev = device()
    data = bytes(range(256)) * 40
    dev.region_write(1, 128 * GIB - 20000, data)
    assert dev.region_read(1, 128 * GIB - 20001, len(data) + 2) == b"\0" + data + b"\0"
    assert dev.region_read(3, 0, 64) == bytes(64), "another BAR is another memory"


def test_zeros_take_no_memory_but_erase() -> None:
    dev = device(msix=None)
    dev.region_write(1, 0, bytes(MIB))
    assert dev.backing_pages == 0
    dev.region_write(1, 4090, b"x" * 12)
    assert dev.backing_pages == 2
    dev.region_write(1, 0, bytes(8192))
    assert dev.region_read(1, 4090, 12) == bytes(12)


def test_memory_of_a_device_is_limited() -> None:
    dev = device(msix=None, max_backing_bytes=3 * 4096)
    for page in range(5):
        dev.region_write(1, page * GIB, b"x")
    assert dev.backing_pages == 3
    assert [dev.region_read(1, page * GIB, 1) for page in range(5)] == [b"x"] * 3 + [b"\0"] * 2
    dev.region_write(1, 0, b"y")
    assert dev.region_read(1, 0, 1) == b"y", "a page that is there stays writable"
    assert (dev.take_dropped_writes(), dev.take_dropped_writes()) == (2, 0)
    dev.reset(RESET_DEVICE)
    assert dev.backing_pages == 0
    dev.region_write(1, 4 * GIB, b"z")
    assert dev.region_read(1, 4 * GIB, 1) == b"z"


@pytest.mark.parametrize(
    ("offset", "count", "expected"),
    [
        (0, 4, "a1000018"),
        (0, 8, "a100001800000000"),
        (2, 2, "0018"),
        (1, 1, "00"),
        (3, 4, "18000000"),
        (4, 4, "00000000"),
    ],
)
def test_registers_show_their_value_and_cannot_be_written(offset: int, count: int, expected: str) -> None:
    dev = device()
    dev.region_write(0, 0, bytes(4))
    assert dev.region_read(0, offset, count).hex() == expected


def test_registers_are_those_of_bar_0() -> None:
    assert device().region_read(1, 0, 4) == bytes(4)


def test_config_reads_as_ones_after_a_reset_if_told_so() -> None:
    dev = device(behaviour={"config_ff_after_reset": True})
    assert config(dev, "H", 0) == 0x10DE
    dev.reset(RESET_FUNCTION)
    assert dev.config_read(0, 8) == b"\xff" * 8
    dev.config_write(0x04, b"\x06\x00")
    dev.reset(RESET_DEVICE)
    assert dev.config_read(0, 2) == b"\xff" * 2
    dev.reset(RESET_POWER)
    assert config(dev, "H", 0) == 0x10DE
    assert config(dev, "H", 4) == 0


def test_only_config_reads_stall() -> None:
    dev = device(behaviour={"stall_config_reads_s": 1.5})
    assert [dev.read_delay_s(index) for index in (0, 1, 7)] == [0, 0, 1.5]
    assert device().read_delay_s(7) == 0
