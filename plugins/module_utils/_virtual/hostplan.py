# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a virtual host is to be: its machine, the files it is made from, its size on this computer. Private to the collection."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.check import require_bars
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.dump import machine_to_dict
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hypervisor import AccelChoice, Hypervisor
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.keys import SshKey
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qemu import OWN_MAIN_SLOTS
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.topology import Topology, plan_topology

# Debian with LXD, an inner QEMU and a small VM fit into it.
LEAST_MEMORY_MB = 1024
# Pages that the host has not touched, or has freed, cost nothing; so several hosts share what is here.
MEMORY_SHARE = 0.75


class PlanError(FleetError):
    """The host cannot be made on this computer."""


@dataclass(frozen=True)
class Size:
    cpus: int
    memory_mb: int


@dataclass(frozen=True)
class Image:
    """The system of the host: a raw disk that stays as it is, kernel and initial ramdisk. `key` changes with the content."""

    disk: str
    kernel: str
    initrd: str
    key: str


@dataclass(frozen=True)
class HostPlan:
    name: str
    machine: Machine
    size: Size
    image: Image
    hypervisor: Hypervisor
    accel: AccelChoice
    key: SshKey
    topology: Topology
    sources: str = ""
    nested_guard: bool = True
    kernel_arguments: str = ""
    qemu_arguments: tuple[str, ...] = ()
    wait: str = "login"
    python: str = sys.executable
    guest_images: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """What a running host must have been started with, else it is restarted; also what a diff shows."""
        return {
            "machine": self.machine.name,
            "machine_digest": machine_digest(self.machine),
            "cpus": self.size.cpus,
            "memory_mb": self.size.memory_mb,
            "image": self.image.key,
            "accel": self.accel.name,
            "qemu": " ".join([*self.hypervisor.command, self.hypervisor.version]),
            "ssh_key": self.key.public,
            "kernel_arguments": self.kernel_arguments,
            "qemu_arguments": list(self.qemu_arguments),
        }


def machine_digest(machine: Machine) -> str:
    return hashlib.sha256(json.dumps(machine_to_dict(machine), sort_keys=True).encode()).hexdigest()[:16]


def lay_out(machine: Machine) -> Topology:
    """The machine on QEMU's buses; refuses what no virtual device can be made of."""
    for board in machine.boards():
        require_bars(board)
    return plan_topology(machine, OWN_MAIN_SLOTS)


def fit(machine: Machine, cpus: Optional[int], memory_mb: Optional[int], here: Optional[Size] = None) -> Size:
    """The size of the host: as asked for, else as described but no more than this computer has to spare."""
    here = this_computer() if here is None else here
    if cpus is not None and cpus < 1:
        raise PlanError(f"cpus is {cpus}; at least 1 is needed")
    if memory_mb is not None and memory_mb < LEAST_MEMORY_MB:
        raise PlanError(f"memory_mb is {memory_mb}; at least {LEAST_MEMORY_MB} are needed")
    if memory_mb is not None and memory_mb > here.memory_mb:
        raise PlanError(
            f"memory_mb is {memory_mb}, but this computer has {here.memory_mb} MiB; ask for less or leave it out"
        )
    return Size(
        cpus if cpus is not None else max(1, min(machine.cpus, here.cpus)),
        memory_mb
        if memory_mb is not None
        else max(LEAST_MEMORY_MB, min(machine.memory_mb, int(here.memory_mb * MEMORY_SHARE))),
    )


def this_computer() -> Size:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Size(len(os.sched_getaffinity(0)), pages >> 20)


def given_image(disk: str, kernel: str, initrd: str) -> Image:
    """An image of the user's own; its identity is that of its files."""
    marks = []
    for option, path in (("image.disk", disk), ("image.kernel", kernel), ("image.initrd", initrd)):
        try:
            status = os.stat(path)
        except OSError as error:
            raise PlanError(f"{option} is {path!r}: {error.strerror}; name a readable file", path=path) from error
        marks.append([os.path.abspath(path), status.st_size, status.st_mtime_ns])
    return Image(disk, kernel, initrd, hashlib.sha256(json.dumps(marks).encode()).hexdigest()[:16])
