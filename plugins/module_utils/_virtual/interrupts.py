# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event file descriptors that a client set for a device's interrupts; private to the collection."""

from __future__ import annotations

import os
import select
import struct

_ONE = struct.pack("=Q", 1)


class Interrupts:
    """At most one file descriptor a vector; owns what it keeps and closes what it replaces."""

    def __init__(self) -> None:
        self._fds: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._fds)

    def assign(self, index: int, vector: int, fd: int) -> None:
        """Keep ``fd`` for a vector."""
        self.release(index, vector)
        self._fds[index, vector] = fd

    def release(self, index: int, vector: int) -> None:
        """Forget the file descriptor of a vector, if it has one."""
        fd = self._fds.pop((index, vector), None)
        if fd is not None:
            os.close(fd)

    def release_type(self, index: int) -> None:
        """Forget all of an interrupt type."""
        for kind, vector in [key for key in self._fds if key[0] == index]:
            self.release(kind, vector)

    def release_all(self) -> None:
        """Forget all."""
        while self._fds:
            os.close(self._fds.popitem()[1])

    def trigger(self, index: int, vector: int) -> bool:
        """Signal a vector; False when nobody listens or the listener cannot take it now.

        The descriptor is the peer's: it may be anything, so it is asked first whether writing would block.
        """
        fd = self._fds.get((index, vector))
        if fd is None:
            return False
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        if not any(event & select.POLLOUT for _fd, event in poller.poll(0)):
            return False
        try:
            os.write(fd, _ONE)
        except OSError:
            return False
        return True
