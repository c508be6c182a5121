# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a PCI function: open files and memory maps of processes, and users inside the kernel. Private to the collection."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Collection, Iterable, Iterator, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.kernel_files import (
    link_name,
    list_names,
    read_number,
    read_text,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.nodes import address_of_resource, nodes_by_path
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import devices_folder

SCAN_LIMIT_S = 10.0
# A process may have a million files and maps; looking at more than these tells nothing new.
FILES_LIMIT = 65536
MAPS_LIMIT_BYTES = 8 * 1024 * 1024

_DELETED = " (deleted)"
_LXC = re.compile(r"/lxc\.(?:payload|monitor)\.([^/]+)")
_OCI = re.compile(r"(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_UNIT = re.compile(r"[^/]+\.(?:service|scope)")
# LXD starts QEMU as `-name INSTANCE`; libvirt writes guest=INSTANCE,….
_QEMU_NAME = re.compile(r"(?:guest=)?([^,]+)")


@dataclass(frozen=True)
class Holder:
    """One process and the file by which it holds one or more functions."""

    pid: int
    command: str
    path: str
    how: str
    addresses: tuple[str, ...]
    container: Optional[str] = None
    unit: Optional[str] = None
    vm: Optional[str] = None

    def __str__(self) -> str:
        where = f"VM {self.vm}" if self.vm else f"container {self.container}" if self.container else self.unit
        verb = "maps" if self.how == "map" else "has open"
        return f"{self.command} (pid {self.pid}{', ' + where if where else ''}) {verb} {self.path}"

    def to_dict(self) -> dict[str, object]:
        return {
            "pid": self.pid,
            "command": self.command,
            "path": self.path,
            "how": self.how,
            "addresses": list(self.addresses),
            "container": self.container,
            "unit": self.unit,
            "vm": self.vm,
        }


@dataclass(frozen=True)
class Scan:
    """What a search found; it is not complete when its time was up or a process was closed to us."""

    holders: tuple[Holder, ...]
    complete: bool
    unreadable: int = 0


@dataclass(frozen=True)
class KernelUser:
    """A user inside the kernel: the driver's reference count with the modules on top of it, or a framebuffer."""

    address: str
    what: str
    count: int = 0
    used_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.what} (count {self.count}{', used by ' + ', '.join(self.used_by) if self.used_by else ''})"

    def to_dict(self) -> dict[str, object]:
        return {"address": self.address, "what": self.what, "count": self.count, "used_by": list(self.used_by)}


@dataclass
class _Search:
    nodes: Mapping[str, tuple[str, ...]]
    addresses: Collection[str]
    found: dict[tuple[int, str, str], tuple[str, ...]] = field(default_factory=dict)

    def look(self, pid: int, path: str, how: str) -> None:
        owners = self.nodes.get(path)
        if owners is None and path.startswith("/sys/"):
            address = address_of_resource(path)
            owners = (address,) if address in self.addresses and address is not None else None
        if owners is not None:
            self.found.setdefault((pid, path, how), owners)


def find_holders(
    addresses: Collection[str], procfs: str = "/proc", sysfs: str = "/sys", deadline: Optional[Deadline] = None
) -> list[Holder]:
    """The processes that hold one of the functions, in the order of their pids."""
    return list(scan_holders(addresses, procfs, sysfs, deadline).holders)


def scan_holders(
    addresses: Collection[str], procfs: str = "/proc", sysfs: str = "/sys", deadline: Optional[Deadline] = None
) -> Scan:
    """As find_holders, and it says whether every process was looked at."""
    if not addresses:
        return Scan((), True)
    limit = deadline or Deadline(SCAN_LIMIT_S)
    search = _Search(nodes_by_path(addresses, procfs, sysfs), frozenset(addresses))
    complete = True
    unreadable = 0
    for pid in _pids(procfs):
        if limit.expired():
            complete = False
            break
        folder = os.path.join(procfs, str(pid))
        try:
            for path in _open_files(folder):
                search.look(pid, path, "open")
            for path in _mapped_files(folder):
                search.look(pid, path, "map")
        except PermissionError:
            unreadable += 1
        except OSError:
            # It ended meanwhile, and so holds nothing any more.
            continue
    holders = tuple(_describe(procfs, pid, path, how, owners) for (pid, path, how), owners in search.found.items())
    return Scan(holders, complete and not unreadable, unreadable)


def kernel_users(addresses: Iterable[str], sysfs: str = "/sys") -> list[KernelUser]:
    """Hints at users inside the kernel, which no process list shows.

    A driver that waits for its own count to drop before it lets a device go (NVIDIA's does, without a limit) waits for these, too.
    """
    users = []
    for address in addresses:
        folder = os.path.join(devices_folder(sysfs), address)
        module = link_name(os.path.join(folder, "driver"), "module")
        if module is not None:
            path = os.path.join(sysfs, "module", module)
            count = read_number(path, "refcnt") or 0
            used_by = tuple(list_names(path, "holders"))
            if count or used_by:
                users.append(KernelUser(address, f"module {module}", count, used_by))
        users += [KernelUser(address, f"framebuffer {name}", 1) for name in list_names(folder, "graphics")]
    return users


def parse_cgroup(text: str) -> tuple[Optional[str], Optional[str]]:
    """Container and systemd unit by the content of /proc/PID/cgroup, of either version."""
    container: Optional[str] = None
    unit: Optional[str] = None
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        lxc, oci = _LXC.search(path), _OCI.search(path)
        if lxc is not None:
            container = container or lxc.group(1)
        elif oci is not None:
            container = container or oci.group(1)[:12]
        units = [part for part in path.split("/") if _UNIT.fullmatch(part)]
        if units:
            unit = unit or units[-1]
    return container, unit


def parse_maps_line(line: str) -> Optional[str]:
    """The file of one line of /proc/PID/maps; None for memory without one."""
    parts = line.split(None, 5)
    if len(parts) < 6 or not parts[5].startswith("/"):
        return None
    return _plain(parts[5].rstrip("\n"))


def _plain(path: str) -> str:
    return path[: -len(_DELETED)] if path.endswith(_DELETED) else path


def _pids(procfs: str) -> list[int]:
    return sorted(int(name) for name in list_names(procfs) if name.isdigit())


def _open_files(folder: str) -> Iterator[str]:
    with os.scandir(os.path.join(folder, "fd")) as entries:
        for number, entry in enumerate(entries):
            if number >= FILES_LIMIT:
                return
            try:
                yield _plain(os.readlink(entry.path))
            except FileNotFoundError:
                continue


def _mapped_files(folder: str) -> Iterator[str]:
    with open(os.path.join(folder, "maps"), encoding="utf-8", errors="replace") as stream:
        size = 0
        for line in stream:
            size += len(line)
            if size > MAPS_LIMIT_BYTES:
                return
            path = parse_maps_line(line)
            if path is not None:
                yield path


def _describe(procfs: str, pid: int, path: str, how: str, addresses: tuple[str, ...]) -> Holder:
    folder = os.path.join(procfs, str(pid))
    container, unit = parse_cgroup(read_text(folder, "cgroup"))
    command = read_text(folder, "comm") or "unknown"
    return Holder(pid, command, path, how, addresses, container, unit, _vm(read_text(folder, "cmdline")))


def _vm(cmdline: str) -> Optional[str]:
    arguments = cmdline.split("\0")
    if "qemu-system" not in os.path.basename(arguments[0]) or "-name" not in arguments[:-1]:
        return None
    match = _QEMU_NAME.match(arguments[arguments.index("-name") + 1])
    return match.group(1) if match else None
