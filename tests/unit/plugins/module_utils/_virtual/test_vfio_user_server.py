# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device server over its sockets, with a client that was written from the protocol's text."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import select
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.vfio_client import (
    GIB,
    GPU,
    MIB,
    Client,
    ClosedByServer,
    RunningServer,
    eventually,
    pack,
    running,
    version_payload,
)

AUDIO = {"vendor_id": 0x10DE, "device_id": 0x10F8, "class_code": 0x040300, "bars": [{"index": 0, "size_bytes": 16384}]}
VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, REGION_INFO, IO_FDS, IRQ_INFO, SET_IRQS = 1, 2, 3, 4, 5, 6, 7, 8
READ, WRITE, RESET, WRITE_MULTI = 9, 10, 13, 15
NO_REPLY = 0x10
NONE, BOOL, EVENTFD, MASK, UNMASK, TRIGGER = 1, 2, 4, 8, 16, 32


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    devices = {
        "gpu0": GPU,
        "gpu1": GPU,
        "audio": AUDIO,
        "lost": {**GPU, "behaviour": {"config_ff_after_reset": True}},
        "slow": {**GPU, "behaviour": {"stall_config_reads_s": 1.0}},
    }
    with running(tmp_path_factory.mktemp("s"), devices) as found:
        yield found


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with Client(server.socket("gpu0")) as found:
        yield found


@contextlib.contextmanager
def eventfds(count: int) -> Iterator[list[int]]:
    # os.eventfd is as new as Python 3.10; so are the tests.
    fds = [os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _number in range(count)]
    try:
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


def signalled(fds: list[int]) -> list[bool]:
    return [bool(select.select([fd], [], [], 0)[0]) and os.eventfd_read(fd) > 0 for fd in fds]


def irqs(flags: int, index: int, start: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("=IIIII", 20 + len(data), flags, index, start, count) + data


def access(offset: int, region: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("=QII", offset, region, count) + data


def dma_map(address: int, size: int, flags: int = 3, argsz: int = 32) -> bytes:
    return struct.pack("=IIQQQ", argsz, flags, 0, address, size)


def test_only_the_owner_can_use_a_socket(server: RunningServer) -> None:
    for name in ("gpu0", "audio"):
        mode = os.stat(server.socket(name)).st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize(
    ("payload", "minor", "capabilities"),
    [
        (version_payload(), 1, {"max_msg_fds", "max_data_xfer_size"}),
        (version_payload({}), 1, {"max_msg_fds", "max_data_xfer_size"}),
        (version_payload({}, minor=0), 0, {"max_msg_fds", "max_data_xfer_size"}),
        (version_payload({}, minor=9), 1, {"max_msg_fds", "max_data_xfer_size"}),
        (version_payload({"write_multiple": True}), 1, {"max_msg_fds", "max_data_xfer_size", "write_multiple"}),
        (version_payload({"write_multiple": "yes"}), 1, {"max_msg_fds", "max_data_xfer_size"}),
        # What QEMU 11.1 proposes
        (
            version_payload(
                {
                    "migration": {"pgsize": 4096, "max_bitmap_size": 268435456},
                    "max_msg_fds": 16,
                    "max_data_xfer_size": MIB,
                    "pgsizes": 4096,
                    "max_dma_maps": 65535,
                },
                minor=0,
            ),
            0,
            {"max_msg_fds", "max_data_xfer_size"},
        ),
    ],
)
def test_version(server: RunningServer, payload: bytes, minor: int, capabilities: set[str]) -> None:
    with Client(server.socket("gpu0"), negotiate=False) as client:
        reply = client.ask(VERSION, payload, message_id=0xBEEF)
        assert (reply.flags, reply.error, reply.payload[:4]) == (1, 0, struct.pack("=HH", 0, minor))
        assert reply.payload.endswith(b"\0")
    with Client(server.socket("gpu0")) as client:
        assert client.negotiated == {"max_msg_fds": 16, "max_data_xfer_size": MIB, "write_multiple": True}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\0",
        version_payload(major=1),
        version_payload() + b"{}",
        version_payload() + b"{\0",
        version_payload() + b"[]\0",
        version_payload() + b"\xff\xfe\0",
        version_payload() + b"[" * 9000 + b"\0",
        version_payload() + b'{"capabilities":[]}\0',
        version_payload({"max_data_xfer_size": "1"}),
        version_payload({"max_data_xfer_size": -1}),
        version_payload({"max_msg_fds": True}),
        version_payload() + b'{"capabilities":{"max_data_xfer_size":1e999}}\0',
        version_payload() + b'{"capabilities":{"max_data_xfer_size":' + b"9" * 9000 + b".5}}\0",
    ],
)
def test_a_version_that_cannot_be_is_answered_and_ends_the_connection(server: RunningServer, payload: bytes) -> None:
    with Client(server.socket("gpu0"), negotiate=False) as client:
        client.send(pack(VERSION, payload, message_id=5))
        reply = client.receive()
        assert (reply.message_id, reply.command, reply.flags, reply.error) == (5, VERSION, 0x21, errno.EINVAL)
        assert client.closed()


def test_nothing_works_before_the_version(server: RunningServer) -> None:
    with Client(server.socket("gpu0"), negotiate=False) as client:
        client.send(pack(GET_INFO, struct.pack("=IIII", 16, 0, 0, 0)))
        assert client.receive().error == errno.EINVAL
        assert client.closed()


def test_the_version_is_settled_once(client: Client) -> None:
    assert client.ask(VERSION, version_payload({})).error == errno.EINVAL
    assert client.read(7, 0, 2) == b"\xde\x10"


def test_the_smaller_transfer_size_holds(server: RunningServer) -> None:
    with Client(server.socket("gpu0"), negotiate=False) as client:
        client.ask(VERSION, version_payload({"max_data_xfer_size": 4096}))
        assert len(client.read(1, 0, 4096)) == 4096
        with pytest.raises(OSError, match="Invalid"):
            client.read(1, 0, 4097)


def test_device_info(client: Client) -> None:
    reply = client.ask(GET_INFO, struct.pack("=IIII", 16, 0, 0, 0))
    assert struct.unpack("=IIII", reply.payload) == (16, 3, 9, 5)


@pytest.mark.parametrize(
    ("index", "flags", "size"),
    [(0, 3, 16 * MIB), (1, 3, 128 * GIB), (2, 0, 0), (3, 3, 32 * MIB), (6, 0, 0), (7, 3, 4096), (8, 0, 0)],
)
def test_region_info(client: Client, index: int, flags: int, size: int) -> None:
    reply = client.ask(REGION_INFO, struct.pack("=IIIIQQ", 32, 0, index, 0, 0, 0))
    assert struct.unpack("=IIIIQQ", reply.payload) == (32, flags, index, 0, size, 0)


@pytest.mark.parametrize(("index", "flags", "count"), [(0, 7, 1), (1, 9, 4), (2, 9, 32), (3, 1, 1), (4, 1, 1)])
def test_irq_info(client: Client, index: int, flags: int, count: int) -> None:
    reply = client.ask(IRQ_INFO, struct.pack("=IIII", 16, 0, index, 0))
    assert struct.unpack("=IIII", reply.payload) == (16, flags, index, count)


def test_no_file_descriptors_for_region_io(client: Client) -> None:
    reply = client.ask(IO_FDS, struct.pack("=IIII", 1024, 0, 1, 0))
    assert struct.unpack("=IIII", reply.payload) == (16, 0, 1, 0)


def test_region_io(client: Client) -> None:
    assert client.read(7, 0, 4) == bytes.fromhex("de103023")
    assert client.read(0, 0, 4) == bytes.fromhex("a1000018"), "a register of the specification"
    client.write(1, 100 * GIB, b"across the socket")
    assert client.read(1, 100 * GIB - 1, 19) == b"\0across the socket\0"
    assert client.read(1, 0, 0) == b""
    big = os.urandom(MIB // 2)
    client.write(3, MIB, big)
    assert client.read(3, MIB, MIB) == big + bytes(MIB // 2)


def test_write_multiple(client: Client) -> None:
    entries = b"".join(struct.pack("=QII8s", 16 * n, 1, n, b"abcdefgh") for n in range(1, 9))
    reply = client.ask(WRITE_MULTI, struct.pack("=Q", 8) + entries)
    assert reply.payload == struct.pack("=Q", 8)
    assert client.read(1, 16 * 3, 8) == b"abc\0\0\0\0\0"
    assert client.read(1, 16 * 8, 8) == b"abcdefgh"


def test_no_reply_is_wanted(client: Client) -> None:
    client.send(pack(WRITE, access(64, 1, 4, b"post"), message_id=7, flags=NO_REPLY))
    client.send(pack(77, b"", message_id=8, flags=NO_REPLY))
    client.send(pack(WRITE, access(0, 2, 4, b"fail"), message_id=9, flags=NO_REPLY))
    assert client.ask(READ, access(64, 1, 4), message_id=10).payload[16:] == b"post"


def test_messages_are_answered_in_order(client: Client) -> None:
    client.send(b"".join(pack(READ, access(0, 7, 4), message_id=number) for number in range(500)))
    assert [client.receive().message_id for _number in range(500)] == list(range(500))


def test_a_message_in_single_bytes(client: Client) -> None:
    for byte in pack(READ, access(0, 7, 4), message_id=3):
        client.send(bytes([byte]))
    assert client.receive().payload[16:] == bytes.fromhex("de103023")


def test_dma_maps_close_their_descriptors(server: RunningServer, client: Client) -> None:
    before = server.open_files()
    with eventfds(1) as fds:
        for number in range(2000):
            assert client.ask(DMA_MAP, dma_map(number << 21, 1 << 21), fds=fds).error == 0
    assert server.open_files() == before
    unmap = struct.pack("=IIQQ", 24, 0, 0, 1 << 21)
    assert client.ask(DMA_UNMAP, unmap).payload == unmap
    everything = struct.pack("=IIQQ", 24, 2, 0, 0)
    assert client.ask(DMA_UNMAP, everything).payload == everything


def test_interrupts_are_triggered(client: Client) -> None:
    with eventfds(4) as fds:
        assert client.ask(SET_IRQS, irqs(EVENTFD | TRIGGER, 2, 10, 4), fds=fds).error == 0
        assert client.ask(SET_IRQS, irqs(NONE | TRIGGER, 2, 11, 2)).error == 0
        assert signalled(fds) == [False, True, True, False]
        assert client.ask(SET_IRQS, irqs(BOOL | TRIGGER, 2, 10, 4, b"\1\0\0\1")).error == 0
        assert signalled(fds) == [True, False, False, True]
        assert client.ask(SET_IRQS, irqs(NONE | TRIGGER, 1, 0, 4)).error == 0
        assert signalled(fds) == [False] * 4, "another type"
        assert client.ask(SET_IRQS, irqs(EVENTFD | TRIGGER, 2, 10, 1)).error == 0
        assert client.ask(SET_IRQS, irqs(NONE | TRIGGER, 2, 10, 2)).error == 0
        assert signalled(fds) == [False, True, False, False], "one was taken back"
        assert client.ask(SET_IRQS, irqs(NONE | TRIGGER, 2, 0, 0)).error == 0
        assert client.ask(SET_IRQS, irqs(NONE | TRIGGER, 2, 0, 32)).error == 0
        assert signalled(fds) == [False] * 4, "all were taken back"


def test_interrupts_are_replaced_and_given_back(server: RunningServer, client: Client) -> None:
    before = server.open_files()
    with eventfds(16) as fds:
        for _round in range(50):
            assert client.ask(SET_IRQS, irqs(EVENTFD | TRIGGER, 2, 0, 16), fds=fds).error == 0
            assert client.ask(SET_IRQS, irqs(EVENTFD | TRIGGER, 0, 0, 1), fds=fds[:1]).error == 0
            assert client.ask(SET_IRQS, irqs(EVENTFD | UNMASK, 0, 0, 1), fds=fds[:1]).error == 0
        assert server.open_files() == before + 17
    client.sock.close()
    eventually(lambda: server.open_files() == before - 1, "the descriptors to be closed")


def test_a_full_or_deaf_listener_does_not_stop_the_server(client: Client) -> None:
    reading, writing = os.pipe()
    full = os.eventfd(0)
    os.eventfd_write(full, (1 << 64) - 2)
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    try:
        assert client.ask(SET_IRQS, irqs(EVENTFD | TRIGGER, 1, 0, 3), fds=[writing, full, reading]).error == 0
        assert client.ask(SET_IRQS, irqs(NONE | TRIGGER, 1, 0, 3)).error == 0
        os.close(reading)
        reading = -1
        assert client.ask(SET_IRQS, irqs(NONE | TRIGGER, 1, 0, 3)).error == 0
    finally:
        for fd in (reading, writing, full):
            if fd >= 0:
                os.close(fd)


def test_reset(server: RunningServer, client: Client) -> None:
    client.write(7, 4, b"\x06\x00")
    client.write(1, 0, b"data")
    assert client.ask(RESET).payload == b""
    assert client.read(7, 4, 2) == bytes(2)
    assert client.read(1, 0, 4) == bytes(4)
    client.write(7, capability(client, 0x10) + 8, b"\x10\xa8")
    assert "gpu0: reset (device)" in server.log()
    server.wait_for_log("gpu0: reset (flr)")


def capability(client: Client, wanted: int) -> int:
    offset = client.read(7, 0x34, 1)[0]
    while client.read(7, offset, 1)[0] != wanted:
        offset = client.read(7, offset + 1, 1)[0]
    return offset


MALFORMED = {
    "unknown command": (pack(99, b"x"), errno.ENOTSUP),
    "command 0": (pack(0), errno.ENOTSUP),
    "DMA read is the server's": (pack(11, bytes(16)), errno.ENOTSUP),
    "device feature": (pack(16, struct.pack("=II", 8, 1 << 16 | 1)), errno.ENOTSUP),
    "migration data": (pack(17, bytes(8)), errno.ENOTSUP),
    "a type that is none": (pack(READ, access(0, 7, 4), flags=0x7), errno.EINVAL),
    "map: short": (pack(DMA_MAP, bytes(31)), errno.EINVAL),
    "map: argsz": (pack(DMA_MAP, dma_map(0, 4096, argsz=16)), errno.EINVAL),
    "map: flags": (pack(DMA_MAP, dma_map(0, 4096, flags=0x13)), errno.EINVAL),
    "map: empty": (pack(DMA_MAP, dma_map(0, 0)), errno.EINVAL),
    "map: beyond the end": (pack(DMA_MAP, dma_map((1 << 64) - 4096, 8192)), errno.EINVAL),
    "unmap: short": (pack(DMA_UNMAP, bytes(8)), errno.EINVAL),
    "unmap: dirty bitmap": (pack(DMA_UNMAP, struct.pack("=IIQQ", 24, 1, 0, 4096)), errno.ENOTSUP),
    "unmap: flags": (pack(DMA_UNMAP, struct.pack("=IIQQ", 24, 4, 0, 4096)), errno.EINVAL),
    "info: short": (pack(GET_INFO), errno.EINVAL),
    "info: argsz": (pack(GET_INFO, struct.pack("=IIII", 15, 0, 0, 0)), errno.EINVAL),
    "region info: short": (pack(REGION_INFO, bytes(16)), errno.EINVAL),
    "region info: argsz": (pack(REGION_INFO, struct.pack("=IIIIQQ", 31, 0, 0, 0, 0, 0)), errno.EINVAL),
    "region info: index": (pack(REGION_INFO, struct.pack("=IIIIQQ", 32, 0, 9, 0, 0, 0)), errno.EINVAL),
    "region io: index": (pack(IO_FDS, struct.pack("=IIII", 16, 0, 9, 0)), errno.EINVAL),
    "region io: count": (pack(IO_FDS, struct.pack("=IIII", 16, 0, 0, 1)), errno.EINVAL),
    "irq info: short": (pack(IRQ_INFO, bytes(4)), errno.EINVAL),
    "irq info: index": (pack(IRQ_INFO, struct.pack("=IIII", 16, 0, 5, 0)), errno.EINVAL),
    "irqs: short": (pack(SET_IRQS, bytes(19)), errno.EINVAL),
    "irqs: argsz": (pack(SET_IRQS, struct.pack("=IIIII", 4, NONE | TRIGGER, 1, 0, 0)), errno.EINVAL),
    "irqs: no action": (pack(SET_IRQS, irqs(NONE, 1, 0, 1)), errno.EINVAL),
    "irqs: two actions": (pack(SET_IRQS, irqs(NONE | TRIGGER | MASK, 1, 0, 1)), errno.EINVAL),
    "irqs: two kinds of data": (pack(SET_IRQS, irqs(NONE | BOOL | TRIGGER, 1, 0, 1, b"\1")), errno.EINVAL),
    "irqs: index": (pack(SET_IRQS, irqs(NONE | TRIGGER, 5, 0, 1)), errno.EINVAL),
    "irqs: count": (pack(SET_IRQS, irqs(NONE | TRIGGER, 1, 0, 5)), errno.EINVAL),
    "irqs: start and count": (pack(SET_IRQS, irqs(NONE | TRIGGER, 1, 0xFFFFFFFF, 2)), errno.EINVAL),
    "irqs: too few booleans": (pack(SET_IRQS, irqs(BOOL | TRIGGER, 1, 0, 4, b"\1")), errno.EINVAL),
    "irqs: nothing to mask": (pack(SET_IRQS, irqs(NONE | MASK, 0, 0, 0)), errno.EINVAL),
    "read: short": (pack(READ, bytes(15)), errno.EINVAL),
    "read: region": (pack(READ, access(0, 9, 4)), errno.EINVAL),
    "read: a region of no size": (pack(READ, access(0, 2, 4)), errno.EINVAL),
    "read: the end": (pack(READ, access(4093, 7, 4)), errno.EINVAL),
    "read: offset overflow": (pack(READ, access((1 << 64) - 1, 1, 8)), errno.EINVAL),
    "read: too much": (pack(READ, access(0, 1, MIB + 1)), errno.EINVAL),
    "write: no data": (pack(WRITE, access(0, 1, 4)), errno.EINVAL),
    "write: too little data": (pack(WRITE, access(0, 1, 4, b"abc")), errno.EINVAL),
    "write: too much data": (pack(WRITE, access(0, 1, 4, b"abcde")), errno.EINVAL),
    "write: the end": (pack(WRITE, access(16 * MIB, 0, 1, b"a")), errno.EINVAL),
    "write many: short": (pack(WRITE_MULTI, bytes(4)), errno.EINVAL),
    "write many: count": (pack(WRITE_MULTI, struct.pack("=Q", 2) + bytes(24)), errno.EINVAL),
    "write many: a huge count": (pack(WRITE_MULTI, struct.pack("=Q", (1 << 64) - 1) + bytes(24)), errno.EINVAL),
    "write many: length": (pack(WRITE_MULTI, struct.pack("=QQII8s", 1, 0, 1, 9, b"")), errno.EINVAL),
    "write many: region": (pack(WRITE_MULTI, struct.pack("=QQII8s", 1, 0, 2, 8, b"")), errno.EINVAL),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_message_is_answered_with_an_error(client: Client, name: str) -> None:
    message, expected = MALFORMED[name]
    client.send(message)
    reply = client.receive()
    assert (reply.flags, reply.error, reply.payload) == (0x21, expected, b"")
    assert client.read(7, 0, 2) == b"\xde\x10", "the connection goes on"


@pytest.mark.parametrize(("flags", "count"), [(NONE | TRIGGER, 1), (EVENTFD | TRIGGER, 2), (BOOL | TRIGGER, 1)])
def test_descriptors_that_do_not_fit_are_refused_and_closed(
    server: RunningServer, client: Client, flags: int, count: int
) -> None:
    before = server.open_files()
    with eventfds(1) as fds:
        assert client.ask(SET_IRQS, irqs(flags, 1, 0, count), fds=fds).error == errno.EINVAL
        assert client.ask(GET_INFO, struct.pack("=IIII", 16, 0, 0, 0), fds=fds).error == 0
    assert server.open_files() == before


def test_replies_from_a_client_are_ignored(client: Client) -> None:
    client.send(pack(READ, access(0, 7, 4), message_id=5, flags=0x1))
    assert client.ask(READ, access(0, 7, 2), message_id=6).payload[16:] == b"\xde\x10"


@pytest.mark.parametrize("size", [0, 15, MIB + 33, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_message_of_a_wrong_size_ends_the_connection(server: RunningServer, client: Client, size: int) -> None:
    client.send(pack(READ, b"", message_id=4, size=size))
    reply = client.receive()
    assert (reply.message_id, reply.error) == (4, errno.EINVAL)
    assert client.closed()
    with Client(server.socket("gpu0")) as other:
        assert other.read(7, 0, 2) == b"\xde\x10"


def test_the_largest_message_is_taken(client: Client) -> None:
    client.write(1, 0, b"\1" * MIB)
    assert client.read(1, 4096, 4) == b"\1" * 4


def test_before_the_version_messages_are_small(server: RunningServer) -> None:
    with Client(server.socket("gpu0"), negotiate=False) as client:
        client.send(pack(VERSION, b"", size=20000))
        assert client.receive().error == errno.EINVAL
        assert client.closed()


def test_too_many_descriptors_end_the_connection(server: RunningServer, client: Client) -> None:
    before = server.open_files()
    with eventfds(17) as fds:
        client.send(pack(GET_INFO, struct.pack("=IIII", 16, 0, 0, 0)), fds)
        assert client.receive().error == errno.EINVAL
        assert client.closed()
    with Client(server.socket("gpu0")) as other:
        assert other.read(7, 0, 2) == b"\xde\x10"
    eventually(lambda: server.open_files() == before - 1, "the descriptors to be closed")


def test_descriptors_amid_a_message_are_dropped(server: RunningServer, client: Client) -> None:
    before = server.open_files()
    message = pack(DMA_MAP, dma_map(0, 4096))
    with eventfds(3) as fds:
        client.send(message[:8], fds[:1])
        client.send(message[8:20], fds[1:2])
        client.send(message[20:], fds[2:])
        assert client.receive().error == 0
    assert server.open_files() == before


@pytest.mark.parametrize("part", [0, 1, 15, 16, 20, 47])
def test_a_client_that_vanishes_leaves_a_new_device(server: RunningServer, part: int) -> None:
    before = server.open_files()
    with Client(server.socket("gpu0")) as client, eventfds(2) as fds:
        client.write(7, 4, b"\x06\x00")
        client.write(1, 8192, b"secret")
        client.ask(SET_IRQS, irqs(EVENTFD | TRIGGER, 1, 0, 2), fds=fds)
        if part:
            client.send(pack(DMA_MAP, dma_map(0, 4096))[:part], fds[:1])
    with Client(server.socket("gpu0")) as client:
        assert client.read(7, 4, 2) == bytes(2)
        assert client.read(1, 8192, 6) == bytes(6)
        eventually(lambda: server.open_files() == before + 1, "the descriptors to be closed")


def test_a_client_may_leave_with_answers_unread(server: RunningServer) -> None:
    for _round in range(20):
        with Client(server.socket("gpu0")) as client:
            client.send(b"".join(pack(READ, access(0, 1, 65536), message_id=number) for number in range(50)))
    with Client(server.socket("gpu0")) as client:
        assert client.read(7, 0, 2) == b"\xde\x10"


def test_a_second_client_hears_that_the_device_is_taken(server: RunningServer, client: Client) -> None:
    client.write(1, 0, b"mine")
    with Client(server.socket("gpu0"), negotiate=False) as second:
        second.send(pack(VERSION, version_payload({})))
        assert second.receive().error == errno.EBUSY
        assert second.closed()
    assert client.read(1, 0, 4) == b"mine"
    assert f"the device has a client already (pid {os.getpid()})" in server.log()
    client.sock.close()
    with Client(server.socket("gpu0")) as third:
        assert third.read(1, 0, 4) == bytes(4)


def test_connections_without_a_version_are_few(server: RunningServer) -> None:
    waiting = [Client(server.socket("gpu1"), negotiate=False) for _number in range(9)]
    try:
        assert waiting[8].closed()
        with Client(server.socket("gpu0")) as other:
            assert other.read(7, 0, 2) == b"\xde\x10"
    finally:
        for one in waiting:
            one.sock.close()
    eventually(lambda: _negotiates(server.socket("gpu1")), "the device to be free again")


def _negotiates(path: str) -> bool:
    try:
        with Client(path):
            return True
    except (OSError, ClosedByServer):
        return False


def test_devices_do_not_share_anything(server: RunningServer) -> None:
    with (
        Client(server.socket("gpu0")) as one,
        Client(server.socket("gpu1")) as two,
        Client(server.socket("audio")) as three,
    ):
        one.write(1, 0, b"one")
        two.write(1, 0, b"two")
        assert (one.read(1, 0, 3), two.read(1, 0, 3)) == (b"one", b"two")
        assert three.read(7, 0, 4) == bytes.fromhex("de10f810")
        one.ask(RESET)
        assert two.read(1, 0, 3) == b"two"


def test_a_client_that_reads_nothing_is_not_served_without_limit(server: RunningServer, client: Client) -> None:
    before = server.memory_kib()
    client.sock.setblocking(False)
    request = pack(READ, access(0, 1, MIB), flags=0) * 64
    sent = 0
    end = time.monotonic() + 1
    while time.monotonic() < end and sent < 64 * len(request):
        try:
            sent += client.sock.send(request)
        except BlockingIOError:
            time.sleep(0.01)
    # Answers of up to 130 GiB were asked for.
    assert server.memory_kib() - before < 16 * 1024
    with Client(server.socket("gpu1")) as other:
        assert other.read(7, 0, 2) == b"\xde\x10"
    client.sock.setblocking(True)
    client.sock.settimeout(10)
    assert len(client.receive().payload) == MIB + 16, "and goes on when it reads"


def test_config_reads_as_ones_after_reset_until_the_client_leaves(server: RunningServer) -> None:
    with Client(server.socket("lost")) as client:
        assert client.read(7, 0, 2) == b"\xde\x10"
        client.ask(RESET)
        assert client.read(7, 0, 4) == b"\xff" * 4
    with Client(server.socket("lost")) as client:
        assert client.read(7, 0, 2) == b"\xde\x10"


def test_a_stalled_read_holds_up_only_its_client(server: RunningServer) -> None:
    with Client(server.socket("slow")) as slow, Client(server.socket("gpu1")) as other:
        start = time.monotonic()
        slow.send(pack(READ, access(0, 7, 2), message_id=1) + pack(READ, access(0, 1, 2), message_id=2))
        assert other.read(7, 0, 2) == b"\xde\x10"
        assert not select.select([slow.sock], [], [], 0)[0]
        assert [slow.receive().message_id, slow.receive().message_id] == [1, 2]
        assert time.monotonic() - start >= 1.0


def test_a_client_may_leave_during_a_stall(server: RunningServer) -> None:
    with Client(server.socket("slow")) as slow:
        slow.send(pack(READ, access(0, 7, 2)))
        server.wait_for_log("slow: connected")
    with Client(server.socket("slow")) as slow:
        assert slow.read(7, 0, 2) == b"\xde\x10"


def test_a_stopped_process_is_no_trouble_when_it_is_killed(server: RunningServer) -> None:
    path = server.socket("audio")
    child = os.fork()
    if not child:
        try:
            holder = Client(path)
            holder.send(pack(READ, access(0, 0, 4)) * 100)
            os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    with pytest.raises(OSError, match="busy"):
        Client(path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with Client(path) as client:
        assert client.read(7, 0, 2) == b"\xde\x10"


def test_what_happens_is_logged(server: RunningServer, tmp_path: Path) -> None:
    with Client(server.socket("gpu1")) as client:
        for number in range(100):
            client.ask(200 + number % 2)
        client.write(7, 4, b"\0")
    log = server.wait_for_log(
        f"gpu1: disconnected, pid {os.getpid()}: it closed the connection (102 messages, 100 refused)"
    )
    assert log.count("gpu1: refused command 20") == 20
    assert log.count("further refusals are counted only") == 1
    assert "gpu1: connected, pid" in log
    assert all(line[:4].isdigit() and line[10] == "T" and line[23] == "Z" for line in log.splitlines())


def test_descriptors_come_with_their_own_message(client: Client) -> None:
    """Messages that wait in the socket together keep their descriptors apart."""
    with eventfds(2) as fds:
        first = pack(SET_IRQS, irqs(EVENTFD | TRIGGER, 1, 0, 1), message_id=1)
        plain = pack(READ, access(0, 7, 2), message_id=2)
        second = pack(SET_IRQS, irqs(EVENTFD | TRIGGER, 1, 1, 1), message_id=3)
        for message, fd in ((plain, None), (first, fds[0]), (plain, None), (second, fds[1]), (plain, None)):
            ancillary = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
            client.sock.sendmsg([message], ancillary)
        assert [client.receive().error for _number in range(5)] == [0] * 5
        client.ask(SET_IRQS, irqs(NONE | TRIGGER, 1, 1, 1))
        assert signalled(fds) == [False, True]
