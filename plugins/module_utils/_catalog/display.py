# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Display adapters that QEMU has device models for; private to the collection."""

from __future__ import annotations

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog import sources
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.build import (
    CLASS_DISPLAY,
    RED_HAT,
    board,
    memory32,
    memory64,
)

VIRTIO_GPU = board(
    name="virtio-gpu",
    kind="display",
    vendor="Red Hat, Inc.",
    product="Virtio 1.0 GPU",
    ids=(RED_HAT, 0x1050),
    class_code=CLASS_DISPLAY,
    subsystem=(RED_HAT, 0x1100),
    revision=0x01,
    bars=(memory32(1, 4096), memory64(4, 16384)),
    qemu_device="virtio-gpu-pci",
    sources={
        "device_id": sources.PCI_IDS,
        "subsystem_id": sources.QEMU_VIRTIO_GPU,
        "class_code": sources.QEMU_VIRTIO_GPU,
        "revision": "virtio 1.0 specification, 4.1.2.1: the revision id of a device that is not transitional is 1 or more",
        "bars": sources.QEMU_VIRTIO_GPU,
    },
)

BOARDS = {VIRTIO_GPU.name: VIRTIO_GPU}
