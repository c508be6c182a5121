# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vfio-user client for tests, written from the protocol's text and independent of the server's codec, and a server to talk to."""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVE = "ansible_collections.gpulab.fleet.plugins.module_utils._virtual.serve"
MIB = 1 << 20
GIB = 1 << 30

GPU: dict[str, Any] = {
    "vendor_id": 0x10DE,
    "device_id": 0x2330,
    "class_code": 0x030200,
    "subsystem_vendor_id": 0x10DE,
    "subsystem_id": 0x16C1,
    "revision": 0xA1,
    "bars": [
        {"index": 0, "size_bytes": 16 * MIB, "is_64bit": False},
        {"index": 1, "size_bytes": 128 * GIB, "prefetchable": True, "resizable_bytes": [256 * MIB, 128 * GIB]},
        {"index": 3, "size_bytes": 32 * MIB, "prefetchable": True},
    ],
    "msi_vectors": 4,
    "msix": {"vectors": 32, "table_bar": 0, "table_offset": 0x100000, "pba_bar": 0, "pba_offset": 0x110000},
    "registers": {"0x0": 0x180000A1},
    "max_backing_bytes": MIB,
}


class ClosedByServer(Exception):
    """The server ended the connection."""


@dataclass
class Reply:
    """What came back: identity, command, flags, error number, payload."""

    message_id: int
    command: int
    flags: int
    error: int
    payload: bytes


def pack(command: int, payload: bytes = b"", message_id: int = 1, flags: int = 0, size: int | None = None) -> bytes:
    """A message; ``size`` lies about its length."""
    return struct.pack("=HHIII", message_id, command, 16 + len(payload) if size is None else size, flags, 0) + payload


def version_payload(capabilities: object = None, major: int = 0, minor: int = 1) -> bytes:
    """The payload of a version message; ``capabilities`` None means none at all."""
    text = b"" if capabilities is None else json.dumps({"capabilities": capabilities}).encode() + b"\0"
    return struct.pack("=HH", major, minor) + text


class Client:
    """One connection, blocking with a limit."""

    def __init__(self, path: str, negotiate: bool = True) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(path)
        self.negotiated: dict[str, Any] = {}
        if negotiate:
            reply = self.ask(1, version_payload({"max_msg_fds": 8, "write_multiple": True}))
            if reply.error:
                raise OSError(reply.error, os.strerror(reply.error))
            self.negotiated = json.loads(reply.payload[4:-1])["capabilities"]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.sock.close()

    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send bytes as they are, descriptors with the first."""
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.sock.sendmsg([data], ancillary)
        if sent < len(data):
            self.sock.sendall(data[sent:])

    def receive(self) -> Reply:
        """The next reply."""
        message_id, command, size, flags, error = struct.unpack("=HHIII", self._exactly(16))
        return Reply(message_id, command, flags, error, self._exactly(size - 16))

    def ask(self, command: int, payload: bytes = b"", fds: Sequence[int] = (), message_id: int = 1) -> Reply:
        """Send a message and wait for its reply."""
        self.send(pack(command, payload, message_id), fds)
        reply = self.receive()
        if (reply.message_id, reply.command, reply.flags & 0xF) != (message_id, command, 1):
            raise ValueError(f"{reply} does not answer command {command}")
        return reply

    def read(self, region: int, offset: int, count: int) -> bytes:
        """Read from a region; OSError with the server's error number."""
        reply = self.ask(9, struct.pack("=QII", offset, region, count))
        if reply.error:
            raise OSError(reply.error, os.strerror(reply.error))
        if reply.payload[:16] != struct.pack("=QII", offset, region, count):
            raise ValueError(f"{reply} is another access")
        return reply.payload[16:]

    def write(self, region: int, offset: int, data: bytes) -> None:
        """Write to a region; OSError with the server's error number."""
        reply = self.ask(10, struct.pack("=QII", offset, region, len(data)) + data)
        if reply.error:
            raise OSError(reply.error, os.strerror(reply.error))

    def closed(self) -> bool:
        """Whether the server ends the connection (within the limit)."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except socket.timeout:
            return False
        return True

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise ClosedByServer
            data += more
        return data


@dataclass
class RunningServer:
    """A server process and where its files are."""

    process: subprocess.Popen[bytes]
    folder: Path

    def socket(self, name: str) -> str:
        """The path of a device's socket."""
        return str(self.folder / f"{name}.sock")

    def log(self) -> str:
        """All of the log."""
        old = self.folder / "log.1"
        return (old.read_text() if old.exists() else "") + (self.folder / "log").read_text()

    def wait_for_log(self, text: str) -> str:
        """The log once it has ``text``."""
        return eventually(lambda: self.log() if text in self.log() else None, f"{text!r} in the log")

    def open_files(self) -> int:
        """How many descriptors the process has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_kib(self) -> int:
        """The resident memory of the process."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("VmRSS:"))


def eventually(probe: Any, what: str, timeout_s: float = 10) -> Any:
    """The first result of ``probe`` that is true."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        result = probe()
        if result:
            return result
        time.sleep(0.01)
    raise AssertionError(f"waited {timeout_s} s for {what}")


def write_config(folder: Path, devices: dict[str, Any], **more: object) -> Path:
    """A configuration file for devices by name."""
    items = [{"name": name, "socket": str(folder / f"{name}.sock"), "spec": spec} for name, spec in devices.items()]
    path = folder / "config.json"
    path.write_text(json.dumps({"devices": items, "log": str(folder / "log"), **more}))
    return path


@contextlib.contextmanager
def running(folder: Path, devices: dict[str, Any]) -> Iterator[RunningServer]:
    """A server of these devices for the length of a block; it must still be alive at the end of it."""
    config = write_config(folder, devices)
    ready = folder / "ready"
    process = subprocess.Popen(
        [sys.executable, "-m", SERVE, "--config", str(config), "--ready-file", str(ready)], stderr=subprocess.PIPE
    )
    try:
        eventually(lambda: ready.exists() or process.poll() is not None, "the server")
        yield RunningServer(process, folder)
        if process.poll() is not None:
            stderr = process.stderr.read() if process.stderr is not None else b""
            raise AssertionError(f"the server died with {process.returncode}: {stderr.decode()}")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stderr is not None:
                process.stderr.close()
