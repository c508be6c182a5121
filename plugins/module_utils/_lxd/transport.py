# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to LXD's REST API over pylxd, every failure turned into one kind of error. Private to the collection."""

from __future__ import annotations

import json
import os
import time
import traceback
from contextlib import ExitStack, contextmanager
from typing import Any, Iterator, Mapping, Optional, Protocol, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

PYLXD_IMPORT_ERROR: Optional[str] = None
try:
    import pylxd
    import pylxd.exceptions
    import requests
    from ws4py.client import WebSocketBaseClient
    from ws4py.exc import HandshakeError

    HAS_PYLXD = True
except ImportError:
    PYLXD_IMPORT_ERROR = traceback.format_exc()
    HAS_PYLXD = False

# Where LXD listens: the snap first, as pylxd and lxc do.
SOCKET_PATHS = ("/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket")
REQUEST_TIMEOUT_S = 30.0
CONNECT_PATIENCE_S = 15.0
_CONNECT_PAUSE_S = 0.5
# What Go says when the time-out of a query is over; LXD hands it on as it is.
_BUSY = "context deadline exceeded"
_BUSY_PAUSES_S = (2.0, 5.0, 10.0)


class LxdError(FleetError):
    """LXD refused a request, or an operation of it failed; `status` is the HTTP or operation code."""

    def __init__(self, message: str, status: int = 0, **details: object) -> None:
        super().__init__(message, **details)
        self.status = status


class LxdUnreachable(LxdError):
    """Nobody answers at LXD's socket: not running, restarting, or no permission."""


class LxdNotFound(LxdError):
    """The object named in the request does not exist."""


class LxdBusy(LxdError):
    """LXD's own database did not answer in time (its limit is 10 s): a host that is overloaded, or emulated. Worth another try."""


class LxdEtagMismatch(LxdError):
    """The object was changed by somebody else since it was read."""


class _Response(Protocol):
    status_code: int
    headers: Mapping[str, str]

    def json(self) -> Any: ...

    def iter_content(self, chunk_size: int) -> Any: ...

    def close(self) -> None: ...


def find_socket(environ: Mapping[str, str] | None = None) -> str:
    """The socket that `lxc` would use on this host; LXD_DIR wins, as it does there."""
    environ = os.environ if environ is None else environ
    folder = environ.get("LXD_DIR")
    if folder:
        return os.path.join(folder, "unix.socket")
    for path in SOCKET_PATHS:
        if os.path.exists(path):
            return path
    return SOCKET_PATHS[-1]


class Transport:
    """One connection to LXD's API, for one project."""

    def __init__(self, client: Any, socket_path: str) -> None:
        self._client = client
        self.socket_path = socket_path
        self.host_info: dict[str, Any] = client.host_info

    @classmethod
    def open(
        cls, socket_path: str | None = None, project: str | None = None, patience_s: float = CONNECT_PATIENCE_S
    ) -> Transport:
        """Connect, with patience for an LXD that is restarting; LxdUnreachable says which socket was tried and what to do."""
        path = socket_path or find_socket()
        if not HAS_PYLXD:
            raise LxdError(
                "the Python library pylxd is not installed for the interpreter that runs the module",
                exception=PYLXD_IMPORT_ERROR,
            )
        if not os.path.exists(path):
            raise LxdUnreachable(
                f"there is no LXD socket at {path}; install and start LXD on this host, or name its socket with the option lxd_socket",
                lxd_socket=path,
            )
        if not os.access(path, os.W_OK):
            raise LxdUnreachable(
                f"this user may not use LXD's socket {path}; run the task as root (become: true), or as a member of LXD's group",
                lxd_socket=path,
            )
        deadline = Deadline(patience_s)
        while True:
            try:
                return cls._connect(path, project)
            except LxdUnreachable:
                if deadline.expired():
                    raise
                time.sleep(min(_CONNECT_PAUSE_S, deadline.remaining_s()))

    @classmethod
    def _connect(cls, path: str, project: str | None) -> Transport:
        try:
            return cls(pylxd.Client(endpoint=path, project=project, timeout=REQUEST_TIMEOUT_S), path)
        except (pylxd.exceptions.ClientConnectionFailed, requests.exceptions.RequestException) as error:
            message = (
                f"LXD does not answer at {path}: {error}; see whether its service runs and whether this user may use it"
            )
            raise LxdUnreachable(message, lxd_socket=path) from error
        except pylxd.exceptions.LXDAPIException as error:
            raise LxdError(f"LXD at {path} refused the first request: {error}", lxd_socket=path) from error

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        data: object = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> tuple[Any, Mapping[str, str]]:
        """One call below /1.0: what LXD answered as `metadata` (for an operation: the operation), and the answer's headers."""
        arguments: dict[str, Any] = {"timeout": timeout_s, "params": dict(params or {}), "headers": dict(headers or {})}
        if body is not None:
            arguments["json"] = body
        if data is not None:
            arguments["data"] = data
        response = self._send(method, path, arguments)
        try:
            answer = response.json()
        except ValueError as error:
            raise LxdError(f"LXD answered {method} {path} with something that is not JSON: {error}") from error
        return answer.get("metadata"), response.headers

    def read_text(self, path: str, limit_bytes: int, timeout_s: float = REQUEST_TIMEOUT_S) -> str:
        """A text that LXD hands out as it is (logs); only its last `limit_bytes`."""
        return self.read_bytes(path, limit_bytes, timeout_s).decode("utf-8", errors="replace")

    def read_bytes(
        self,
        path: str,
        limit_bytes: int,
        timeout_s: float = REQUEST_TIMEOUT_S,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        """A file that LXD hands out as it is; only its last `limit_bytes`."""
        arguments = {"timeout": timeout_s, "params": dict(params or {}), "stream": True, "is_api": False}
        response = self._send("get", path, arguments)
        kept = b""
        try:
            for chunk in response.iter_content(chunk_size=65536):
                kept = (kept + chunk)[-limit_bytes:]
        except requests.exceptions.RequestException as error:
            raise LxdUnreachable(f"LXD stopped answering in the middle of {path}: {error}") from error
        finally:
            response.close()
        return kept

    @contextmanager
    def websockets(self, path: str, secrets: Sequence[str], timeout_s: float = REQUEST_TIMEOUT_S) -> Iterator[None]:
        """Stay connected with websockets below /1.0 whose content is of no interest; each is opened within `timeout_s`."""
        with ExitStack() as opened:
            for secret in secrets:
                socket = WebSocketBaseClient(self._client.websocket_url, exclude_headers=["Origin"])
                opened.callback(socket.close_connection)
                socket.resource = f"/1.0/{path}?secret={secret}"
                socket.sock.settimeout(timeout_s)
                try:
                    socket.connect()
                except (OSError, HandshakeError) as error:
                    raise LxdUnreachable(
                        f"LXD does not open the websocket {path}: {error}", lxd_socket=self.socket_path
                    ) from error
            yield

    def _send(self, method: str, path: str, arguments: dict[str, Any]) -> _Response:
        node = self._client.api
        for part in path.strip("/").split("/"):
            node = node[part]
        # Reading again does no harm; whoever writes decides himself.
        pauses_s = iter(_BUSY_PAUSES_S if method == "get" else ())
        while True:
            try:
                return self._send_once(node, method, arguments)
            except LxdBusy:
                pause_s = next(pauses_s, None)
                if pause_s is None:
                    raise
                time.sleep(pause_s)

    def _send_once(self, node: Any, method: str, arguments: dict[str, Any]) -> _Response:
        try:
            return getattr(node, method)(**arguments)  # type: ignore[no-any-return]
        except pylxd.exceptions.LXDAPIException as error:
            raise _translate(error) from error
        except requests.exceptions.RequestException as error:
            raise LxdUnreachable(
                f"LXD does not answer at {self.socket_path}: {error}", lxd_socket=self.socket_path
            ) from error


def failure(text: str, status: int, **details: object) -> LxdError:
    """The error for what LXD said of a request or an operation."""
    if _BUSY in text:
        return LxdBusy(text, status=status, **details)
    kind = {404: LxdNotFound, 412: LxdEtagMismatch}.get(status, LxdError)
    return kind(text, status=status, **details)


def _translate(error: Any) -> LxdError:
    status = int(error.response.status_code)
    try:
        text = str(error)
    except (KeyError, json.JSONDecodeError):
        text = f"HTTP status {status}"
    return failure(text, status)
