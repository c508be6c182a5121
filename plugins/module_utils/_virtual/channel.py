# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole vfio-user messages over a non-blocking socket, with bounded buffers both ways; private to the collection."""

from __future__ import annotations

import array
import errno
import os
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.vfio_user import (
    HEADER,
    MAX_MSG_FDS,
    MAX_VERSION_BYTES,
    Header,
    Refusal,
    parse_header,
)

READ_CHUNK_BYTES = 65536
# Above this no further request is read, so pending answers never exceed this and one answer more.
MAX_PENDING_BYTES = 1 << 20

_FD_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_MSG_FDS * _FD_BYTES)


class PeerGone(Exception):
    """The other side closed its end, or the connection broke."""


def close_fds(fds: list[int]) -> None:
    """Close and forget file descriptors."""
    while fds:
        os.close(fds.pop())


@dataclass
class Message:
    """A message; whoever handles it owns its file descriptors and takes out of the list what it keeps."""

    header: Header
    payload: bytes
    fds: list[int] = field(default_factory=list)


class Channel:
    """One connection: reads message by message and writes answer by answer, never blocking.

    A header is read on its own. The kernel delivers file descriptors with the first byte that they were sent with, so
    they belong to the header in hand, whatever else waits in the socket; those sent with another byte are dropped.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.max_message_bytes = MAX_VERSION_BYTES
        self._head = bytearray()
        self._header: Optional[Header] = None
        self._body = bytearray()
        self._fds: list[int] = []
        self._outgoing: deque[memoryview] = deque()
        self.pending_bytes = 0

    @property
    def mid_message(self) -> bool:
        """Whether a part of a message has come."""
        return bool(self._head) or self._header is not None

    @property
    def full(self) -> bool:
        """Whether so many answers wait that no more requests are to be read."""
        return self.pending_bytes > MAX_PENDING_BYTES

    def receive(self) -> Optional[Message]:
        """The next whole message, or None when the rest is still to come.

        A fatal Refusal says that the peer does not keep to the protocol, PeerGone that it left.
        """
        if self._header is None and not self._receive_header():
            return None
        header = self._header
        if header is None:
            return None
        missing = header.size - HEADER.size - len(self._body)
        while missing:
            data = self._read(min(missing, READ_CHUNK_BYTES))
            if data is None:
                return None
            self._body += data
            missing -= len(data)
        message = Message(header, bytes(self._body), self._fds)
        self._header, self._body, self._fds = None, bytearray(), []
        return message

    def send(self, data: bytes) -> None:
        """Queue an answer and send what the socket takes."""
        self._outgoing.append(memoryview(data))
        self.pending_bytes += len(data)
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes.

        An answer is one send of its own: QEMU wants a header in one piece, and the kernel splits only what is larger
        than one buffer.
        """
        while self._outgoing:
            data = self._outgoing[0]
            try:
                sent = self.sock.send(data, socket.MSG_NOSIGNAL)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise PeerGone(f"sending failed: {error.strerror}") from error
            self.pending_bytes -= sent
            if sent < len(data):
                self._outgoing[0] = data[sent:]
            else:
                self._outgoing.popleft()

    def close(self) -> None:
        """Close the socket and everything that came with a half-read message."""
        close_fds(self._fds)
        self._outgoing.clear()
        self._body = bytearray()
        self.pending_bytes = 0
        self.sock.close()

    def _receive_header(self) -> bool:
        overrun = False
        while len(self._head) < HEADER.size and not overrun:
            try:
                data, ancillary, flags, _address = self.sock.recvmsg(
                    HEADER.size - len(self._head), _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
                )
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise PeerGone(f"receiving failed: {error.strerror}") from error
            if not data:
                raise PeerGone("it closed the connection")
            self._head += data
            self._keep_fds(ancillary)
            overrun = bool(flags & socket.MSG_CTRUNC) or len(self._fds) > MAX_MSG_FDS
        # Kept also when the message is refused: the refusal is an answer to it.
        if len(self._head) == HEADER.size:
            self._header = parse_header(bytes(self._head))
            self._head.clear()
        if overrun:
            reason = f"more than {MAX_MSG_FDS} file descriptors in a message, or more than this process can open"
            raise Refusal(errno.EINVAL, reason, fatal=True)
        header = self._header
        if header is not None and not HEADER.size <= header.size <= self.max_message_bytes:
            allowed = f"{HEADER.size} to {self.max_message_bytes}"
            raise Refusal(errno.EINVAL, f"it has {header.size} bytes; a message takes {allowed}", fatal=True)
        return header is not None

    @property
    def refused_header(self) -> Optional[Header]:
        """The header of the message that `receive` refused, if it was read."""
        return self._header

    def _read(self, count: int) -> Optional[bytes]:
        try:
            data = self.sock.recv(count)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise PeerGone(f"receiving failed: {error.strerror}") from error
        if not data:
            raise PeerGone("it closed the connection")
        return data

    def _keep_fds(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(data[: len(data) - len(data) % _FD_BYTES])
                self._fds.extend(fds)
