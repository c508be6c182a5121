# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host brings to a passthrough besides its GPUs: CPU, memory, hugepages, IOMMU, KVM. Private to the collection."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from typing import Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.address_space import MIB
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.kernel_files import list_names, read_number, read_text

# ARM's /proc/cpuinfo names no vendor and no address width.
_CPUINFO_LINE = re.compile(r"^([^:\t]+?)\s*:\s*(.*)$")
_PHYS_BITS = re.compile(r"(\d+) bits physical")
_HUGEPAGES = re.compile(r"hugepages-(\d+)kB")
_NODE = re.compile(r"node(\d+)")


@dataclass(frozen=True)
class PagePool:
    """Hugepages of one size; `nodes` maps a NUMA node's number to its total and free pages."""

    size_kib: int
    total: int
    free: int
    nodes: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class HostFacts:
    """Facts of one host at the moment of reading; None where the kernel does not tell."""

    architecture: str
    kernel: str
    cpus: int
    cpu_vendor: str
    phys_bits: Optional[int]
    la57: bool
    pages_1gib: bool
    virtualisation: Optional[str]
    memory_mib: int
    memory_available_mib: int
    numa_nodes: int
    hugepages: tuple[PagePool, ...]
    transparent_hugepages: Optional[str]
    iommu: bool
    iommu_units: tuple[str, ...]
    kvm: bool
    boot_id: Optional[str] = None

    def to_dict(self) -> dict[str, object]:
        result = asdict(self)
        result["iommu_units"] = list(self.iommu_units)
        result["hugepages"] = [
            {
                "size_kib": pool.size_kib,
                "total": pool.total,
                "free": pool.free,
                "nodes": [
                    {"node": node, "total": total, "free": free} for node, (total, free) in sorted(pool.nodes.items())
                ],
            }
            for pool in self.hugepages
        ]
        return result


def read_host(sysfs: str = "/sys", procfs: str = "/proc", dev: str = "/dev") -> HostFacts:
    """Read all facts; a file that is missing leaves its fact empty."""
    cpu = _cpuinfo(procfs)
    flags = cpu.get("flags", "").split()
    width = _PHYS_BITS.search(cpu.get("address sizes", ""))
    memory = _meminfo(procfs)
    units = list_names(sysfs, "class", "iommu")
    groups = list_names(sysfs, "kernel", "iommu_groups")
    return HostFacts(
        architecture=os.uname().machine,
        kernel=read_text(procfs, "sys", "kernel", "osrelease"),
        cpus=_cpus(sysfs) or os.cpu_count() or 1,
        cpu_vendor=cpu.get("vendor_id", ""),
        phys_bits=int(width.group(1)) if width else None,
        la57="la57" in flags,
        pages_1gib="pdpe1gb" in flags,
        virtualisation="vmx" if "vmx" in flags else "svm" if "svm" in flags else None,
        memory_mib=_memory_mib(sysfs) or memory.get("MemTotal", 0) // 1024,
        memory_available_mib=memory.get("MemAvailable", 0) // 1024,
        numa_nodes=max(1, len(_nodes(sysfs))),
        hugepages=_hugepages(sysfs),
        transparent_hugepages=_chosen(read_text(sysfs, "kernel", "mm", "transparent_hugepage", "enabled")),
        # Groups are what VFIO needs; a unit without groups is an IOMMU that is not in use for DMA.
        iommu=bool(groups),
        iommu_units=tuple(units),
        kvm=os.path.exists(os.path.join(dev, "kvm")),
        boot_id=read_text(procfs, "sys", "kernel", "random", "boot_id") or None,
    )


def _cpuinfo(procfs: str) -> dict[str, str]:
    """The fields of the first CPU."""
    fields: dict[str, str] = {}
    for line in read_text(procfs, "cpuinfo").splitlines():
        if not line.strip():
            break
        match = _CPUINFO_LINE.match(line)
        if match:
            fields[match.group(1).strip()] = match.group(2).strip()
    return fields


def _meminfo(procfs: str) -> dict[str, int]:
    """Sizes in KiB by name."""
    sizes: dict[str, int] = {}
    for line in read_text(procfs, "meminfo").splitlines():
        name, _colon, value = line.partition(":")
        number = value.split()
        if number and number[0].isdigit():
            sizes[name] = int(number[0])
    return sizes


def _memory_mib(sysfs: str) -> int:
    """Memory as it is fitted, by the kernel's memory blocks; MemTotal leaves out what the kernel has taken for itself."""
    folder = os.path.join(sysfs, "devices", "system", "memory")
    try:
        block_bytes = int(read_text(folder, "block_size_bytes"), 16)
    except ValueError:
        return 0
    blocks = [name for name in list_names(folder) if re.fullmatch(r"memory\d+", name)]
    online = sum(1 for name in blocks if read_text(folder, name, "state") == "online")
    return online * block_bytes // MIB


def _cpus(sysfs: str) -> int:
    total = 0
    for part in read_text(sysfs, "devices", "system", "cpu", "online").split(","):
        first, _dash, last = part.partition("-")
        if first.isdigit():
            total += (int(last) if last.isdigit() else int(first)) - int(first) + 1
    return total


def _nodes(sysfs: str) -> list[int]:
    names = list_names(sysfs, "devices", "system", "node")
    return sorted(int(match.group(1)) for match in map(_NODE.fullmatch, names) if match)


def _hugepages(sysfs: str) -> tuple[PagePool, ...]:
    folder = os.path.join(sysfs, "kernel", "mm", "hugepages")
    pools = []
    for name in list_names(folder):
        match = _HUGEPAGES.fullmatch(name)
        if match is None:
            continue
        nodes = {}
        for node in _nodes(sysfs):
            path = os.path.join(sysfs, "devices", "system", "node", f"node{node}", "hugepages", name)
            nodes[node] = (read_number(path, "nr_hugepages") or 0, read_number(path, "free_hugepages") or 0)
        path = os.path.join(folder, name)
        pools.append(
            PagePool(
                int(match.group(1)),
                read_number(path, "nr_hugepages") or 0,
                read_number(path, "free_hugepages") or 0,
                nodes,
            )
        )
    return tuple(sorted(pools, key=lambda pool: pool.size_kib))


def _chosen(text: str) -> Optional[str]:
    """The bracketed word of a file such as "always [madvise] never"."""
    match = re.search(r"\[(\w+)\]", text)
    return match.group(1) if match else None
