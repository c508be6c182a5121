# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chooses TCP ports on loopback that nobody listens on. Private to the collection."""

from __future__ import annotations

import socket
from typing import Collection, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a listener could be put on the port right now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As QEMU does it: connections that are still closing do not keep a port, a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(preferred: Optional[int] = None, taken: Collection[int] = ()) -> int:
    """A free port: the preferred one when it is free and not in `taken`, else one that the kernel picks.

    Nothing holds the port afterwards, so whoever uses it must be ready to choose again.
    """
    if preferred is not None and preferred not in taken and is_free(preferred):
        return preferred
    for _attempt in range(64):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((LOOPBACK, 0))
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port
    raise FleetError(f"no free TCP port on {LOOPBACK} that is not among the {len(taken)} already taken")
