# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds /sys, /proc and /dev as the kernel lays them out, with real files and links, below a temporary folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Mapping, Optional, Sequence

MIB = 1 << 20
GIB = 1 << 30
MEM = 0x200
MEM64_PREF = 0x14220C
MEM32 = 0x40200
IO = 0x40101
EMPTY = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
H100_BARS = {0: 16 * MIB, 2: 128 * GIB, 4: 32 * MIB}


def line(start: int, size_bytes: int, flags: int) -> str:
    return f"0x{start:016x} 0x{start + size_bytes - 1:016x} 0x{flags:016x}"


class FakeTree:
    """One host. Nothing here is a mock: the code under test reads and writes files."""

    def __init__(self, root: Path) -> None:
        self.path = root
        self.sysfs = str(root / "sys")
        self.procfs = str(root / "proc")
        self.dev = str(root / "dev")
        self.run_dir = str(root / "run")
        for folder in ("sys/bus/pci/devices", "sys/bus/pci/drivers", "proc", "dev", "sys/kernel/iommu_groups"):
            (root / folder).mkdir(parents=True)
        self._next_start = 0x380000000000

    def write(self, path: str, text: str) -> Path:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def link(self, path: str, to: Path) -> None:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            target.unlink()
        target.symlink_to(os.path.relpath(to, target.parent))

    def add_function(
        self,
        address: str = "0000:41:00.0",
        ids: str = "10de:2330",
        class_code: str = "0x030200",
        root: str = "pci0000:40",
        bars: Optional[Mapping[int, int]] = None,
        lines: Optional[Sequence[str]] = None,
        driver: Optional[str] = None,
        group: Optional[int] = None,
        numa_node: Optional[str] = "-1",
        subsystem: str = "10de:16c1",
        revision: str = "0xa1",
        driver_override: Optional[str] = "(null)",
        **files: str,
    ) -> Path:
        """A function below its root; `bars` are 64-bit prefetchable, `lines` is the whole file `resource`."""
        folder = self.path / "sys/devices" / root / address
        folder.mkdir(parents=True)
        vendor, device = ids.split(":")
        sub_vendor, sub_device = subsystem.split(":")
        contents = {
            "vendor": f"0x{vendor}",
            "device": f"0x{device}",
            "class": class_code,
            "revision": revision,
            "subsystem_vendor": f"0x{sub_vendor}",
            "subsystem_device": f"0x{sub_device}",
            "resource": "\n".join(lines if lines is not None else self._lines(bars or {})),
            "power_state": "D0",
            **files,
        }
        if numa_node is not None:
            contents["numa_node"] = numa_node
        if driver_override is not None:
            contents["driver_override"] = driver_override
        for name, text in contents.items():
            (folder / name).write_text(text + "\n")
        self.link(f"sys/bus/pci/devices/{address}", folder)
        if group is not None:
            self.set_group(address, group)
        if driver is not None:
            self.set_driver(address, driver)
        return folder

    def _lines(self, bars: Mapping[int, int]) -> list[str]:
        lines = [EMPTY] * 13
        for index, size_bytes in bars.items():
            self._next_start += -self._next_start % size_bytes
            lines[index] = line(self._next_start, size_bytes, MEM64_PREF)
            self._next_start += size_bytes
        return lines

    def folder(self, address: str) -> Path:
        return (self.path / "sys/bus/pci/devices" / address).resolve()

    def add_driver(self, name: str, module: Optional[str] = None) -> Path:
        folder = self.path / "sys/bus/pci/drivers" / name
        folder.mkdir(parents=True, exist_ok=True)
        module_folder = self.path / "sys/module" / (module or name.replace("-", "_"))
        module_folder.mkdir(parents=True, exist_ok=True)
        self.link(f"sys/bus/pci/drivers/{name}/module", module_folder)
        return folder

    def set_driver(self, address: str, driver: Optional[str]) -> None:
        link = self.folder(address) / "driver"
        if link.is_symlink():
            link.unlink()
        if driver is not None:
            self.link(os.path.relpath(link, self.path), self.add_driver(driver))

    def set_group(self, address: str, number: int, kind: str = "DMA-FQ") -> None:
        group = self.path / f"sys/kernel/iommu_groups/{number}"
        (group / "devices").mkdir(parents=True, exist_ok=True)
        (group / "type").write_text(kind + "\n")
        self.link(os.path.relpath(group / "devices" / address, self.path), self.folder(address))
        self.link(os.path.relpath(self.folder(address) / "iommu_group", self.path), group)

    def add_process(
        self,
        pid: int,
        command: str = "python3",
        files: Sequence[str] = (),
        maps: Sequence[str] = (),
        cgroup: str = "0::/user.slice",
        arguments: Sequence[str] = (),
    ) -> None:
        folder = self.path / f"proc/{pid}"
        (folder / "fd").mkdir(parents=True)
        for number, path in enumerate(files):
            (folder / "fd" / str(number)).symlink_to(path)
        text = "55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0                          [heap]\n"
        text += "".join(
            f"7f0000000000-7f0000001000 rw-s 0000{n:04x} 00:06 {n + 1}        {path}\n" for n, path in enumerate(maps)
        )
        (folder / "maps").write_text(text)
        (folder / "comm").write_text(command + "\n")
        (folder / "cgroup").write_text(cgroup + "\n")
        (folder / "cmdline").write_bytes(b"".join(argument.encode() + b"\0" for argument in arguments or [command]))
