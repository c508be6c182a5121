# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which a process can hold a PCI function: device nodes and sysfs resources. Private to the collection."""

from __future__ import annotations

import os
import re
from typing import Iterable

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.kernel_files import link_name, list_names, read_text
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import devices_folder

# AMD's compute interface is one node for all GPUs of the driver.
KFD = "/dev/kfd"
KFD_DRIVER = "amdgpu"

_MINOR = re.compile(r"^Device Minor:\s*(\d+)\s*$", re.MULTILINE)
# As the file is named in sysfs: resource1, and resource1_wc for the write-combining mapping.
_RESOURCE = re.compile(r"(?P<folder>.*/(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]))/resource\d+(?:_wc)?")


def nodes_by_path(addresses: Iterable[str], procfs: str = "/proc", sysfs: str = "/sys") -> dict[str, tuple[str, ...]]:
    """Paths of device nodes, each with the addresses of the functions that it stands for."""
    found: dict[str, list[str]] = {}
    for address in addresses:
        for path in _nodes_of(address, procfs, sysfs):
            owners = found.setdefault(path, [])
            if address not in owners:
                owners.append(address)
    return {path: tuple(owners) for path, owners in found.items()}


def address_of_resource(path: str) -> str | None:
    """The function whose BAR the path is; None for any other file."""
    match = _RESOURCE.fullmatch(path)
    return match.group("address") if match else None


def _nodes_of(address: str, procfs: str, sysfs: str) -> list[str]:
    folder = os.path.join(devices_folder(sysfs), address)
    nodes = [
        f"/dev/dri/{name}" for name in list_names(folder, "drm") if re.fullmatch(r"(card|renderD|controlD)\d+", name)
    ]
    nodes += [f"/dev/fb{name[2:]}" for name in list_names(folder, "graphics") if re.fullmatch(r"fb\d+", name)]
    nodes += [f"/dev/vfio/devices/{name}" for name in list_names(folder, "vfio-dev")]
    group = link_name(folder, "iommu_group")
    if group is not None:
        # A group without a real IOMMU has its node under the name noiommu-N.
        nodes += [f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}"]
    minor = _nvidia_minor(address, procfs)
    if minor is not None:
        nodes.append(f"/dev/nvidia{minor}")
    if link_name(folder, "driver") == KFD_DRIVER:
        nodes.append(KFD)
    return nodes


def _nvidia_minor(address: str, procfs: str) -> int | None:
    match = _MINOR.search(read_text(procfs, "driver", "nvidia", "gpus", address, "information"))
    return int(match.group(1)) if match else None
