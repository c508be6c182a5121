# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gathers what a virtual host is made of (QEMU, its image, guest images, a key), building what is missing. Private to the collection."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common import build
from ansible_collections.gpulab.fleet.plugins.module_utils._common.concurrency import map_bounded
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import hypervisor
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hostplan import Image, PlanError, given_image
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hypervisor import Hypervisor
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.images import recipe

BUILDS_AT_ONCE = 2

GUEST_FILES = {
    "vm_image": "vm/disk.qcow2",
    "vm_metadata": "vm/metadata.tar.xz",
    "container_image": "container/image.tar.gz",
}


@dataclass(frozen=True)
class PartsRequest:
    """Which parts are wanted, and what the user brings himself."""

    cache_root: str
    sources: str = ""
    qemu_command: tuple[str, ...] = ()
    image: Optional[Mapping[str, str]] = None
    guest_images: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 3600.0


@dataclass(frozen=True)
class Parts:
    hypervisor: Hypervisor
    image: Image
    guest_images: Mapping[str, str]
    built: tuple[str, ...]
    seconds: Mapping[str, float]


def missing(request: PartsRequest) -> list[str]:
    """The kinds that would have to be built; builds nothing."""
    return [kind for kind in _kinds(request) if build.find(_recipe(kind, request), request.cache_root) is None]


def gather(request: PartsRequest, progress: Progress) -> Parts:
    """All parts, built where they are not in the cache."""
    builds = _build(request, progress)
    if request.qemu_command:
        qemu = hypervisor.given(request.qemu_command)
    else:
        qemu = hypervisor.from_tree(builds["qemu"].output("tree")) if "qemu" in builds else _installed()
    guests = builds.get("guest-images")
    return Parts(
        qemu,
        _image(request, builds),
        {} if guests is None else {name: guests.output(file) for name, file in GUEST_FILES.items()},
        tuple(kind for kind, made in builds.items() if made.fresh),
        {kind: round(made.seconds, 1) for kind, made in builds.items()},
    )


def _build(request: PartsRequest, progress: Progress) -> dict[str, build.Built]:
    """Two at once: each spends half of its time waiting for the archive or for the disk."""
    deadline = Deadline(request.timeout_s)

    def one(kind: str) -> build.Built:
        return build.ensure(_recipe(kind, request), request.cache_root, progress, max(deadline.remaining_s(), 1.0))

    outcomes = map_bounded(one, _kinds(request), BUILDS_AT_ONCE)
    builds: dict[str, build.Built] = {}
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
        if outcome.result is not None:
            builds[outcome.item] = outcome.result
    return builds


def _image(request: PartsRequest, builds: Mapping[str, build.Built]) -> Image:
    if request.image is not None:
        return given_image(request.image["disk"], request.image["kernel"], request.image["initrd"])
    made = builds["host-image"]
    return Image(made.output("disk.raw"), made.output("vmlinuz"), made.output("initrd"), made.key)


def _installed() -> Hypervisor:
    found = hypervisor.installed()
    if found is None:
        raise PlanError("the machine's own QEMU, which was new enough a moment ago, is gone; run again")
    return found


def _kinds(request: PartsRequest) -> Sequence[str]:
    kinds = []
    if not request.qemu_command and hypervisor.installed() is None:
        kinds.append("qemu")
    if request.image is None:
        kinds.append("host-image")
    if request.guest_images:
        kinds.append("guest-images")
    return kinds


def _recipe(kind: str, request: PartsRequest) -> build.Recipe:
    if not request.sources:
        raise PlanError(
            f"sources is not set, but {kind} has to be built from its scripts; use the role gpulab.fleet.virtual_gpu_host, "
            "which brings them, or give qemu_command and image"
        )
    return recipe(kind, os.path.abspath(request.sources), request.parameters)
