# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Listening unix sockets that only their owner can use, made and removed with care; private to the collection."""

from __future__ import annotations

import errno
import os
import socket
import stat

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# sockaddr_un.sun_path has 108 bytes with the terminating NUL.
MAX_PATH_BYTES = 107
BACKLOG = 16


class ListenError(FleetError):
    """A socket that cannot be offered; the message names its path."""


def bind_socket(path: str) -> socket.socket:
    """A non-blocking listening socket at ``path`` with mode 0600; what a dead server left there is replaced."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ListenError(
            f"The socket path {path!r} is longer than the {MAX_PATH_BYTES} bytes that a unix socket takes; use a shorter folder."
        )
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode must hold from the first moment; chmod after bind would leave a gap.
    former_umask = os.umask(0o177)
    try:
        sock.bind(path)
    except OSError as error:
        sock.close()
        raise ListenError(f"The socket {path!r} cannot be made: {error.strerror}.") from error
    finally:
        os.umask(former_umask)
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def remove_socket(path: str, sock: socket.socket) -> None:
    """Close a listening socket and remove its file."""
    sock.close()
    try:
        os.unlink(path)
    except OSError:
        # Its folder may be gone already; there is nothing left to remove then.
        return


def _remove_stale(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        if error.errno == errno.ENOENT:
            return
        raise ListenError(f"The socket {path!r} cannot be made: {error.strerror}.") from error
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"{path!r} exists and is no socket; remove it or name another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            pass
        except OSError as error:
            raise ListenError(f"The socket {path!r} exists and cannot be tried: {error}.") from error
        else:
            raise ListenError(f"Another process listens on the socket {path!r}; stop it or name another path.")
    try:
        os.unlink(path)
    except OSError as error:
        raise ListenError(f"The stale socket {path!r} cannot be removed: {error.strerror}.") from error
