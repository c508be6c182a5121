# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes an empty qcow2 overlay over a raw image, for machines that have no qemu-img. Private to the collection."""

from __future__ import annotations

import os
import struct

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# Layout and constants: QEMU's docs/interop/qcow2.txt, version 3.
CLUSTER_BITS = 16
CLUSTER_BYTES = 1 << CLUSTER_BITS
HEADER_BYTES = 104
BACKING_FORMAT_EXTENSION = 0xE2792ACA
MAX_BACKING_NAME_BYTES = 1023
# One L1 entry points to a cluster of L2 entries (8 bytes each), each of which is one cluster of the disk.
BYTES_PER_L1_ENTRY = CLUSTER_BYTES // 8 * CLUSTER_BYTES
MAX_DISK_BYTES = CLUSTER_BYTES // 8 * BYTES_PER_L1_ENTRY


def overlay_header(backing: str, size_bytes: int, backing_format: str = "raw") -> bytes:
    """Four clusters: header, refcount table, refcount block and L1 table. Everything else is read from `backing`."""
    name = os.fsencode(backing)
    if len(name) > MAX_BACKING_NAME_BYTES:
        raise FleetError(
            f"the path of the image is longer than {MAX_BACKING_NAME_BYTES} bytes, which qcow2 cannot name: {backing}"
        )
    if not 0 < size_bytes <= MAX_DISK_BYTES:
        raise FleetError(
            f"the image {backing} has {size_bytes} bytes; between 1 byte and {MAX_DISK_BYTES >> 40} TiB are possible"
        )
    kind = backing_format.encode()
    extensions = (
        struct.pack(">II", BACKING_FORMAT_EXTENSION, len(kind))
        + kind.ljust(-(-len(kind) // 8) * 8, b"\0")
        + struct.pack(">II", 0, 0)
    )
    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        b"QFI\xfb",
        3,
        HEADER_BYTES + len(extensions),
        len(name),
        CLUSTER_BITS,
        size_bytes,
        0,  # not encrypted
        -(-size_bytes // BYTES_PER_L1_ENTRY),
        3 * CLUSTER_BYTES,  # L1 table
        1 * CLUSTER_BYTES,  # refcount table
        1,
        0,  # no snapshots
        0,
        0,
        0,
        0,
        4,  # reference counts of 2^4 bits
        HEADER_BYTES,
    )
    first = (header + extensions + name).ljust(CLUSTER_BYTES, b"\0")
    refcount_table = struct.pack(">Q", 2 * CLUSTER_BYTES).ljust(CLUSTER_BYTES, b"\0")
    refcount_block = struct.pack(">4H", 1, 1, 1, 1).ljust(CLUSTER_BYTES, b"\0")
    return first + refcount_table + refcount_block + b"\0" * CLUSTER_BYTES


def create_overlay(path: str, backing: str) -> None:
    """A new overlay over the raw image `backing`, which stays as it is."""
    try:
        size_bytes = os.stat(backing).st_size
    except OSError as error:
        raise FleetError(f"the image of the host cannot be read: {error}", image=backing) from error
    # QEMU rounds to sectors itself, but an overlay must not be smaller than what it covers.
    content = overlay_header(os.path.abspath(backing), -(-size_bytes // 512) * 512)
    with open(path, "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(content)
