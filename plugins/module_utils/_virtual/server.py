# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event loop that serves many devices to vfio-user clients, one socket a device; private to the collection.

A device has one client at a time: the first that settles the version. When it leaves, or vanishes, the device is as
new and the next one may come.
"""

from __future__ import annotations

import errno
import select
import selectors
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import vfio_user as protocol
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.alarms import Alarms
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.channel import Channel, Message, PeerGone, close_fds
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.device_model import RESET_POWER, Device
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.listener import bind_socket, remove_socket
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.session import Session
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.spec import FunctionSpec
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.vfio_user import Header, Refusal

# So that one busy client does not keep the others waiting.
MESSAGES_A_TURN = 64
# Connections of a device that have not settled the version; they are few and short-lived.
MAX_WAITING = 8
NEGOTIATION_TIMEOUT_S = 10.0
# How long a socket is left alone after accepting failed for want of descriptors or memory.
ACCEPT_PAUSE_S = 1.0
# Refused messages of a connection that are logged one by one; the others are counted.
MAX_LOGGED_REFUSALS = 20


class Endpoint:
    """A device, the socket that offers it, and who is connected."""

    def __init__(self, name: str, path: str, spec: FunctionSpec, log: Callable[[str], None]) -> None:
        self.name = name
        self.path = path
        self.device = Device(spec, self._on_reset)
        self.log = log
        self.listener: Optional[socket.socket] = None
        self.owner: Optional[Connection] = None
        self.connections: set[Connection] = set()

    def _on_reset(self, kind: str) -> None:
        # A reset at power-on is part of the line that says who left.
        if kind != RESET_POWER:
            self.log(f"{self.name}: reset ({kind})")


class Connection:
    """One accepted connection to a device."""

    def __init__(self, endpoint: Endpoint, sock: socket.socket) -> None:
        self.endpoint = endpoint
        self.channel = Channel(sock)
        self.session = Session(endpoint.device)
        self.peer_pid = _peer_pid(sock)
        self.messages = 0
        self.refusals = 0
        self.held = False
        self.closed = False
        self.watched = 0


class Server:
    """Serves endpoints until told to stop."""

    def __init__(self, endpoints: Iterable[Endpoint], log: Callable[[str], None]) -> None:
        self._endpoints = list(endpoints)
        self._log = log
        self._selector = selectors.DefaultSelector()
        self._alarms = Alarms()

    def listen(self) -> None:
        """Open all sockets, or none: a ListenError names the one that could not be opened."""
        for endpoint in self._endpoints:
            endpoint.listener = bind_socket(endpoint.path)
            self._selector.register(endpoint.listener, selectors.EVENT_READ, endpoint)

    def run(self, stop_fd: int) -> None:
        """Serve until something can be read from ``stop_fd``."""
        self._selector.register(stop_fd, selectors.EVENT_READ, None)
        while True:
            for key, events in self._selector.select(self._alarms.timeout_s()):
                if isinstance(key.data, Endpoint):
                    self._accept(key.data)
                elif isinstance(key.data, Connection):
                    self._attend(key.data, events)
                else:
                    return
            self._alarms.run_due()

    def close(self) -> None:
        """Close everything and remove the sockets."""
        for endpoint in self._endpoints:
            for connection in list(endpoint.connections):
                self._disconnect(connection, "the server stops")
            if endpoint.listener is not None:
                remove_socket(endpoint.path, endpoint.listener)
                endpoint.listener = None
        self._selector.close()

    def _accept(self, endpoint: Endpoint) -> None:
        listener = endpoint.listener
        if listener is None:
            return
        try:
            sock, _address = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._log(f"{endpoint.name}: accepting failed: {error.strerror}")
            self._selector.unregister(listener)
            self._alarms.set(endpoint, ACCEPT_PAUSE_S, lambda: self._resume_accepting(endpoint))
            return
        sock.setblocking(False)
        if sum(not other.session.negotiated for other in endpoint.connections) >= MAX_WAITING:
            self._log(f"{endpoint.name}: refused a connection, {MAX_WAITING} others have not settled the version yet")
            sock.close()
            return
        connection = Connection(endpoint, sock)
        endpoint.connections.add(connection)
        self._alarms.set(
            connection,
            NEGOTIATION_TIMEOUT_S,
            lambda: self._disconnect(connection, f"no version within {NEGOTIATION_TIMEOUT_S:g} s"),
        )
        self._watch(connection)

    def _resume_accepting(self, endpoint: Endpoint) -> None:
        if endpoint.listener is not None:
            self._selector.register(endpoint.listener, selectors.EVENT_READ, endpoint)

    def _attend(self, connection: Connection, events: int) -> None:
        if connection.closed:
            return
        channel = connection.channel
        try:
            if events & selectors.EVENT_WRITE:
                channel.flush()
            if events & selectors.EVENT_READ:
                self._serve(connection)
        except PeerGone as error:
            self._disconnect(connection, f"{error}{' in mid message' if channel.mid_message else ''}")
        except Refusal as refusal:
            header = channel.refused_header
            self._note_refusal(connection, header, refusal)
            self._part(connection, header, refusal)
        else:
            self._watch(connection)

    def _serve(self, connection: Connection) -> None:
        for _turn in range(MESSAGES_A_TURN):
            if connection.closed or connection.held or connection.channel.full:
                return
            message = connection.channel.receive()
            if message is None:
                return
            self._answer(connection, message)

    def _answer(self, connection: Connection, message: Message) -> None:
        header = message.header
        connection.messages += 1
        try:
            if header.command == protocol.VERSION and not connection.session.negotiated:
                self._claim(connection, message)
            payload = connection.session.handle(message)
        except Refusal as refusal:
            self._note_refusal(connection, header, refusal)
            if refusal.fatal:
                self._part(connection, header, refusal)
            elif header.wants_reply:
                connection.channel.send(protocol.pack_error(header, refusal.errno_value))
            return
        if connection.session.negotiated and connection.endpoint.owner is not connection:
            self._own(connection)
        if not header.wants_reply:
            return
        reply = protocol.pack_reply(header, payload)
        if connection.session.reply_delay_s:
            connection.held = True
            self._alarms.set(connection, connection.session.reply_delay_s, lambda: self._release(connection, reply))
        else:
            connection.channel.send(reply)

    def _claim(self, connection: Connection, message: Message) -> None:
        """Refuse a second client. One that is gone, though its last messages wait to be read, is no client any more."""
        owner = connection.endpoint.owner
        if owner is not None and _hung_up(owner.channel.sock):
            self._disconnect(owner, "it closed the connection, another client came")
            owner = None
        if owner is not None:
            close_fds(message.fds)
            raise Refusal(errno.EBUSY, f"the device has a client already (pid {owner.peer_pid})", fatal=True)

    def _own(self, connection: Connection) -> None:
        connection.endpoint.owner = connection
        connection.channel.max_message_bytes = protocol.MAX_MESSAGE_BYTES
        self._alarms.cancel(connection)
        self._log(f"{connection.endpoint.name}: connected, pid {connection.peer_pid}")

    def _release(self, connection: Connection, reply: bytes) -> None:
        connection.held = False
        try:
            connection.channel.send(reply)
        except PeerGone as error:
            self._disconnect(connection, str(error))
        else:
            self._watch(connection)

    def _part(self, connection: Connection, header: Optional[Header], refusal: Refusal) -> None:
        """Say why, if the peer still reads, and close."""
        if header is not None and header.wants_reply:
            try:
                connection.channel.send(protocol.pack_error(header, refusal.errno_value))
            except PeerGone:
                # It hears the reason no more; what follows is the same.
                pass
        self._disconnect(connection, "its message was refused")

    def _note_refusal(self, connection: Connection, header: Optional[Header], refusal: Refusal) -> None:
        connection.refusals += 1
        if connection.refusals <= MAX_LOGGED_REFUSALS:
            what = "a message" if header is None else header.command_name
            last = "; further refusals are counted only" if connection.refusals == MAX_LOGGED_REFUSALS else ""
            self._log(
                f"{connection.endpoint.name}: refused {what} of pid {connection.peer_pid}: {refusal.reason}{last}"
            )

    def _watch(self, connection: Connection) -> None:
        """Ask for the events that the connection can do something with."""
        if connection.closed:
            return
        channel = connection.channel
        wanted = 0 if connection.held or channel.full else selectors.EVENT_READ
        if channel.pending_bytes:
            wanted |= selectors.EVENT_WRITE
        if wanted == connection.watched:
            return
        if not connection.watched:
            self._selector.register(channel.sock, wanted, connection)
        elif not wanted:
            self._selector.unregister(channel.sock)
        else:
            self._selector.modify(channel.sock, wanted, connection)
        connection.watched = wanted

    def _disconnect(self, connection: Connection, reason: str) -> None:
        if connection.closed:
            return
        connection.closed = True
        if connection.watched:
            self._selector.unregister(connection.channel.sock)
        self._alarms.cancel(connection)
        connection.session.close()
        connection.channel.close()
        endpoint = connection.endpoint
        endpoint.connections.discard(connection)
        counts = f"{connection.messages} messages, {connection.refusals} refused"
        if endpoint.owner is connection:
            endpoint.owner = None
            dropped = endpoint.device.take_dropped_writes()
            lost = f", {dropped} BAR writes beyond what is kept were dropped" if dropped else ""
            endpoint.device.reset(RESET_POWER)
            self._log(
                f"{endpoint.name}: disconnected, pid {connection.peer_pid}: {reason} ({counts}{lost}); the device is as new"
            )
        else:
            self._log(
                f"{endpoint.name}: disconnected before the version was settled, pid {connection.peer_pid}: {reason} ({counts})"
            )


def _peer_pid(sock: socket.socket) -> int:
    layout = struct.Struct("=iII")
    pid: int = layout.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, layout.size))[0]
    return pid


def _hung_up(sock: socket.socket) -> bool:
    poller = select.poll()
    poller.register(sock, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _fd, event in poller.poll(0))
