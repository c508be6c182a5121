# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""100,000 random and mutated messages against the real server: it answers each, and neither grows nor hangs nor dies."""

from __future__ import annotations

import os
import random
import re
import select
import socket
import struct
import time
from array import array
from pathlib import Path

from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.vfio_client import (
    GIB,
    GPU,
    MIB,
    Client,
    eventually,
    pack,
    running,
    version_payload,
)

MESSAGES = 100_000
SEED = 20261130
# More than one answer of the largest size and the buffers of three connections; a leak of 100 bytes a message shows.
MAX_GROWTH_KIB = 8 * 1024
WARM_UP = 5_000
STALL_S = 10.0

TEMPLATES = [
    (1, version_payload({"max_msg_fds": 16, "max_data_xfer_size": MIB, "write_multiple": True})),
    (2, struct.pack("=IIQQQ", 32, 3, 0, 1 << 30, 1 << 21)),
    (3, struct.pack("=IIQQ", 24, 0, 1 << 30, 1 << 21)),
    (4, struct.pack("=IIII", 16, 0, 0, 0)),
    (5, struct.pack("=IIIIQQ", 32, 0, 1, 0, 0, 0)),
    (6, struct.pack("=IIII", 16, 0, 1, 0)),
    (7, struct.pack("=IIII", 16, 0, 2, 0)),
    (8, struct.pack("=IIIII", 20, 4 | 32, 2, 0, 1)),
    (8, struct.pack("=IIIII", 24, 2 | 32, 2, 0, 4) + b"\1\0\1\1"),
    (8, struct.pack("=IIIII", 20, 1 | 32, 2, 0, 0)),
    (9, struct.pack("=QII", 0, 7, 4096)),
    (9, struct.pack("=QII", 127 * GIB, 1, 5000)),
    (10, struct.pack("=QII", 4, 7, 2) + b"\x06\x04"),
    (10, struct.pack("=QII", 5 * GIB, 1, 64) + bytes(range(64))),
    (13, b""),
    (15, struct.pack("=QQII8sQII8s", 2, 0, 1, 4, b"abcdefgh", 4096, 3, 8, b"abcdefgh")),
    (16, struct.pack("=II", 8, 1 << 16 | 1)),
]
EDGES = [0, 1, 2, 3, 7, 8, 9, 15, 16, 0x7F, 0x80, 0xFF, 0x100, 0xFFF, 0x1000, 0xFFFF, 1 << 20, 1 << 31, (1 << 32) - 1]


def mutate(rng: random.Random, payload: bytes) -> bytes:
    """A payload near a valid one, or none of the kind."""
    data = bytearray(payload)
    for _change in range(rng.choice((0, 1, 1, 2, 5))):
        kind = rng.randrange(5)
        if kind == 0 and data:
            data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == 1 and len(data) >= 4:
            struct.pack_into("=I", data, rng.randrange(len(data) // 4) * 4, rng.choice(EDGES))
        elif kind == 2:
            del data[rng.randrange(len(data) + 1) :]
        elif kind == 3:
            data += rng.randbytes(rng.choice((1, 4, 16, 300)))
        elif len(data) >= 8:
            struct.pack_into("=Q", data, rng.randrange(len(data) // 8) * 8, rng.getrandbits(64))
    return bytes(data)


def message(rng: random.Random, message_id: int) -> tuple[bytes, bool]:
    """A message with an honest size, and whether it is to be answered."""
    command, payload = rng.choice(TEMPLATES)
    kind = rng.random()
    if kind < 0.05:
        command, payload = rng.getrandbits(16), rng.randbytes(rng.randrange(200))
    elif kind < 0.9:
        payload = mutate(rng, payload)
    flags = rng.choice((0, 0, 0, 0, 0, 0, 0x10, 0x20, 0x1, rng.getrandbits(32)))
    return pack(command, payload, message_id, flags), flags & 0xF != 1 and not flags & 0x10


def last_words(rng: random.Random) -> bytes:
    """Bytes after which the stream has no sense."""
    kind = rng.randrange(4)
    if kind == 0:
        return pack(rng.randrange(20), b"", 0, 0, size=rng.choice((0, 15, MIB + 33, (1 << 32) - 1)))
    if kind == 1:
        # A valid size, or not: whatever comes.
        return rng.randbytes(rng.randrange(1, 400))
    command, payload = rng.choice(TEMPLATES)
    whole = pack(command, payload)
    return whole[: rng.randrange(1, len(whole) + 1)] if kind == 2 else pack(command, payload, size=len(whole) + 70000)


class Peer:
    """A client that sends without waiting and holds the answers against what is due."""

    def __init__(self, path: str, negotiate: bool) -> None:
        self.client = Client(path, negotiate)
        self.client.sock.setblocking(False)
        self.due: list[int] = []
        self.sent = 0
        self.buffer = bytearray()

    def send(self, data: bytes, fds: list[int]) -> bool:
        """Send all of it, reading meanwhile; False when the server ended the connection."""
        end = time.monotonic() + STALL_S
        while data:
            readable, writable, _errors = select.select([self.client.sock], [self.client.sock], [], STALL_S)
            assert readable or writable, "the server neither reads nor answers"
            assert time.monotonic() < end, "the server does not take what is sent"
            if readable and not self.read():
                return False
            if writable:
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
                try:
                    sent = self.client.sock.sendmsg([data], ancillary)
                except BlockingIOError:
                    continue
                except (BrokenPipeError, ConnectionResetError):
                    return False
                data, fds = data[sent:], []
        return True

    def settle(self) -> None:
        """Wait for all answers that are due."""
        while self.due:
            readable, _writable, _errors = select.select([self.client.sock], [], [], STALL_S)
            assert readable, f"{len(self.due)} messages get no answer"
            assert self.read(), "the server ended a connection that it should keep"

    def read(self) -> bool:
        try:
            data = self.client.sock.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self.buffer += data
        while len(self.buffer) >= 16:
            message_id, _command, size, flags, error = struct.unpack_from("=HHIII", self.buffer)
            assert flags & ~0x20 == 1, f"no reply: flags {flags:#x}"
            assert (size == 16 and error) if flags & 0x20 else (size >= 16 and not error)
            if len(self.buffer) < size:
                break
            assert self.due, "an answer to nothing"
            assert message_id == self.due.pop(0), "an answer out of order"
            del self.buffer[:size]
        return bool(data)


def test_100000_messages(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    devices = {f"gpu{number}": {**GPU, "max_backing_bytes": MIB} for number in range(3)}
    handed_over = [os.eventfd(0, os.EFD_NONBLOCK), os.open(os.devnull, os.O_RDWR), os.memfd_create("fuzz")]
    started = time.monotonic()
    with running(tmp_path, devices) as server:
        files = server.open_files()
        idle = Client(server.socket("gpu0"), negotiate=False)
        peers: dict[str, Peer] = {}
        memory, answered, peak = 0, 0, 0
        while answered < MESSAGES:
            path = server.socket(rng.choice(list(devices)))
            if path not in peers:
                peers[path] = Peer(path, negotiate=rng.random() < 0.95)
                if not peers[path].client.negotiated:
                    # Nothing but a version is allowed: one message ends this connection.
                    peers.pop(path).client.sock.sendall(message(rng, 0)[0] + last_words(rng))
                    continue
            peer = peers[path]
            for _number in range(rng.randrange(1, 120)):
                message_id = rng.getrandbits(16)
                data, wants_answer = message(rng, message_id)
                fds = rng.sample(handed_over, rng.randrange(1, 4)) if rng.random() < 0.05 else []
                if wants_answer:
                    peer.due.append(message_id)
                assert peer.send(data, fds), "the server ended a connection that it should keep"
                peer.sent += 1
            if rng.random() < 0.8:
                peer.settle()
                answered += peer.sent
                peer.sent = 0
            if rng.random() < 0.3:
                peer.due += [0] if peer.send(last_words(rng), []) else []
                peer.client.sock.close()
                del peers[path]
            if not memory and answered >= WARM_UP:
                memory = server.memory_kib()
            peak = max(peak, server.memory_kib())
        for peer in peers.values():
            peer.settle()
            peer.client.sock.close()

        for name in devices:
            with Client(server.socket(name)) as client:
                assert client.read(7, 0, 4) == bytes.fromhex("de103023")
                assert client.read(1, 127 * GIB, 64) == bytes(64)
        assert idle.closed(), "a connection without a version may not stay"
        idle.sock.close()
        eventually(lambda: server.open_files() == files, "all descriptors to be closed")
        log = server.log()
        counted = sum(map(int, re.findall(r"\((\d+) messages", log)))
        growth = server.memory_kib() - memory
        print(
            f"{answered} messages in {time.monotonic() - started:.1f} s; memory after {WARM_UP}: {memory} KiB, "
            f"highest {peak} KiB, at the end {growth:+} KiB; log {len(log)} bytes, {counted} messages counted in it"
        )
        assert counted >= MESSAGES
        assert growth < MAX_GROWTH_KIB
        assert peak - memory < 2 * MAX_GROWTH_KIB
        assert len(log) < 9 * MIB
    for fd in handed_over:
        os.close(fd)
