# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of the vfio-user protocol as bytes: numbers, layouts, packing and parsing; private to the collection.

Layouts are those of QEMU's ``docs/interop/vfio-user.rst``; what the text leaves open follows its client
(``hw/vfio-user``) and libvfio-user.
"""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 1
DMA_MAP = 2
DMA_UNMAP = 3
DEVICE_GET_INFO = 4
DEVICE_GET_REGION_INFO = 5
DEVICE_GET_REGION_IO_FDS = 6
DEVICE_GET_IRQ_INFO = 7
DEVICE_SET_IRQS = 8
REGION_READ = 9
REGION_WRITE = 10
DMA_READ = 11
DMA_WRITE = 12
DEVICE_RESET = 13
REGION_WRITE_MULTI = 15
DEVICE_FEATURE = 16
MIG_DATA_READ = 17
MIG_DATA_WRITE = 18

COMMAND_NAMES: Mapping[int, str] = {
    VERSION: "VERSION",
    DMA_MAP: "DMA_MAP",
    DMA_UNMAP: "DMA_UNMAP",
    DEVICE_GET_INFO: "DEVICE_GET_INFO",
    DEVICE_GET_REGION_INFO: "DEVICE_GET_REGION_INFO",
    DEVICE_GET_REGION_IO_FDS: "DEVICE_GET_REGION_IO_FDS",
    DEVICE_GET_IRQ_INFO: "DEVICE_GET_IRQ_INFO",
    DEVICE_SET_IRQS: "DEVICE_SET_IRQS",
    REGION_READ: "REGION_READ",
    REGION_WRITE: "REGION_WRITE",
    DMA_READ: "DMA_READ",
    DMA_WRITE: "DMA_WRITE",
    DEVICE_RESET: "DEVICE_RESET",
    REGION_WRITE_MULTI: "REGION_WRITE_MULTI",
    DEVICE_FEATURE: "DEVICE_FEATURE",
    MIG_DATA_READ: "MIG_DATA_READ",
    MIG_DATA_WRITE: "MIG_DATA_WRITE",
}

FLAG_TYPE = 0x0F
TYPE_COMMAND = 0x0
TYPE_REPLY = 0x1
FLAG_NO_REPLY = 0x10
FLAG_ERROR = 0x20

MAJOR = 0
MINOR = 1

# QEMU refuses a server that takes more than 16 file descriptors in a message.
MAX_MSG_FDS = 16
MAX_DATA_XFER_BYTES = 1 << 20
# A message carries the header, the header of an access, and the data.
MAX_MESSAGE_BYTES = MAX_DATA_XFER_BYTES + 32
# Before the version is settled a message carries a few capabilities, nothing more.
MAX_VERSION_BYTES = 16384

DEVICE_FLAG_RESET = 1
DEVICE_FLAG_PCI = 2

DMA_UNMAP_GET_DIRTY_BITMAP = 1
DMA_UNMAP_ALL = 2
# readable, writeable; and what libvfio-user adds: by mmap, by file I/O
DMA_MAP_FLAGS = 0x0F

IRQ_DATA_NONE = 0x01
IRQ_DATA_BOOL = 0x02
IRQ_DATA_EVENTFD = 0x04
IRQ_DATA_MASK = 0x07
IRQ_ACTION_MASK = 0x08
IRQ_ACTION_UNMASK = 0x10
IRQ_ACTION_TRIGGER = 0x20
IRQ_ACTIONS = (IRQ_ACTION_MASK, IRQ_ACTION_UNMASK, IRQ_ACTION_TRIGGER)

# All numbers are in the byte order of the host.
HEADER = struct.Struct("=HHIII")
VERSION_HEAD = struct.Struct("=HH")
DMA_MAP_BODY = struct.Struct("=IIQQQ")
DMA_UNMAP_BODY = struct.Struct("=IIQQ")
DEVICE_INFO_BODY = struct.Struct("=IIII")
REGION_INFO_BODY = struct.Struct("=IIIIQQ")
REGION_IO_FDS_BODY = struct.Struct("=IIII")
IRQ_INFO_BODY = struct.Struct("=IIII")
IRQ_SET_HEAD = struct.Struct("=IIIII")
ACCESS_HEAD = struct.Struct("=QII")
WRITE_MULTI_HEAD = struct.Struct("=Q")
WRITE_MULTI_ENTRY = struct.Struct("=QII8s")
WRITE_MULTI_DATA_BYTES = 8


class Refusal(Exception):
    """A message that is answered with an error; ``fatal`` when the connection has no sense after it."""

    def __init__(self, errno_value: int, reason: str, fatal: bool = False) -> None:
        super().__init__(reason)
        self.errno_value = errno_value
        self.reason = reason
        self.fatal = fatal


@dataclass(frozen=True)
class Header:
    """What precedes each message."""

    message_id: int
    command: int
    size: int
    flags: int

    @property
    def is_command(self) -> bool:
        """Whether this asks for something, rather than answers."""
        return self.flags & FLAG_TYPE == TYPE_COMMAND

    @property
    def is_reply(self) -> bool:
        """Whether this answers something."""
        return self.flags & FLAG_TYPE == TYPE_REPLY

    @property
    def wants_reply(self) -> bool:
        """Whether the sender waits for an answer."""
        return not self.is_reply and not self.flags & FLAG_NO_REPLY

    @property
    def command_name(self) -> str:
        """The command for a log."""
        return COMMAND_NAMES.get(self.command, f"command {self.command}")


@dataclass(frozen=True)
class ClientCapabilities:
    """What a client said of itself in its version message."""

    minor: int = 0
    max_data_xfer_bytes: int = MAX_DATA_XFER_BYTES
    write_multiple: bool = False


def parse_header(data: bytes) -> Header:
    """The header in exactly 16 bytes."""
    message_id, command, size, flags, _error = HEADER.unpack(data)
    return Header(message_id, command, size, flags)


def pack_reply(header: Header, payload: bytes = b"") -> bytes:
    """An answer that says: done."""
    return HEADER.pack(header.message_id, header.command, HEADER.size + len(payload), TYPE_REPLY, 0) + payload


def pack_error(header: Header, errno_value: int) -> bytes:
    """An answer that says: not done; it has no payload by definition."""
    return HEADER.pack(header.message_id, header.command, HEADER.size, TYPE_REPLY | FLAG_ERROR, errno_value)


def unpack(layout: struct.Struct, payload: bytes, what: str) -> tuple[int, ...]:
    """The numbers at the start of a payload; a payload that is too short is refused."""
    if len(payload) < layout.size:
        raise Refusal(errno.EINVAL, f"{what} takes {layout.size} bytes, {len(payload)} came")
    return layout.unpack_from(payload)


def parse_version(payload: bytes) -> ClientCapabilities:
    """The client's version and capabilities; everything that is wrong with them is fatal."""
    if len(payload) < VERSION_HEAD.size:
        raise Refusal(errno.EINVAL, f"a version takes {VERSION_HEAD.size} bytes, {len(payload)} came", fatal=True)
    major, minor = VERSION_HEAD.unpack_from(payload)
    if major != MAJOR:
        raise Refusal(
            errno.EINVAL, f"the client speaks version {major}.{minor}, this server {MAJOR}.{MINOR}", fatal=True
        )
    text = payload[VERSION_HEAD.size :]
    if not text:
        return ClientCapabilities(minor=minor)
    if not text.endswith(b"\0"):
        raise Refusal(errno.EINVAL, "the capabilities do not end with a NUL", fatal=True)
    try:
        data = json.loads(text[:-1].decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refusal(errno.EINVAL, "the capabilities are not JSON", fatal=True) from None
    capabilities = data.get("capabilities", {}) if isinstance(data, dict) else None
    if not isinstance(capabilities, dict):
        raise Refusal(errno.EINVAL, "the capabilities are not a JSON object", fatal=True)
    _natural(capabilities, "max_msg_fds", 1)
    return ClientCapabilities(
        minor=minor,
        max_data_xfer_bytes=min(_natural(capabilities, "max_data_xfer_size", MAX_DATA_XFER_BYTES), MAX_DATA_XFER_BYTES),
        write_multiple=capabilities.get("write_multiple") is True,
    )


def _natural(capabilities: Mapping[str, object], name: str, default: int) -> int:
    value = capabilities.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refusal(errno.EINVAL, f"the capability {name} is not a natural number", fatal=True)
    return value


def pack_version(client: ClientCapabilities) -> bytes:
    """The payload of the answer to a client's version message."""
    capabilities: dict[str, object] = {"max_msg_fds": MAX_MSG_FDS, "max_data_xfer_size": MAX_DATA_XFER_BYTES}
    if client.write_multiple:
        capabilities["write_multiple"] = True
    text = json.dumps({"capabilities": capabilities}).encode("utf-8") + b"\0"
    return VERSION_HEAD.pack(MAJOR, min(client.minor, MINOR)) + text
