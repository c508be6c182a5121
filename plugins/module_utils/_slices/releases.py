# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each release of each driver publishes: one table, a row a release; private to the collection.

The rows of NVIDIA's drivers were seen in slices that unmodified binaries of 25.3.2, 25.8.1, 25.12.0, 0.4.1 and
0.5.0-dev (kubernetes-sigs/dra-driver-nvidia-gpu@95932046) wrote to kube-apiservers of 1.34 and 1.37; those of dra.net
are from kubernetes-sigs/dranet@f258477c and its tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError

GPU = "gpu.nvidia.com"
COMPUTE_DOMAIN = "compute-domain.nvidia.com"
DRANET = "dra.net"

FULL = "full"
STATIC_MIG = "static-mig"
# Modes that drivers have and that are not made here yet, with the first release that has them.
LATER = {
    "dynamic-mig": "25.12",
    "vfio": "0.4",
    "consumable-shares": "0.5",
    "health": "0.4",
    "fabric-manager": "0.5",
    "host-managed-imex": "0.4",
}


@dataclass(frozen=True)
class Release:
    """How a release differs from others; a driver looks only at what concerns it."""

    name: str
    # 00000-<driver>-<node>- (helper of Kubernetes 1.36) instead of <node>-<driver>-.
    indexed_names: bool = False
    # gpu.nvidia.com: attributes minor, index and parentIndex.
    indexes: bool = False
    # The attribute that has the bus address.
    bus_attribute: str = "resource.kubernetes.io/pciBusID"
    addressing_mode: bool = True
    numa_node: bool = False
    # gpu-0-mig-1g10gb-19-0 (profile, profile id, start) instead of gpu-0-mig-19-0-1 (profile id, start, size).
    mig_profile_in_name: bool = True
    # A whole GPU is announced although MIG mode is on.
    whole_beside_mig: bool = False


_NVIDIA = (
    Release(
        "25.3",
        indexes=True,
        bus_attribute="pcieBusID",
        addressing_mode=False,
        mig_profile_in_name=False,
        whole_beside_mig=True,
    ),
    Release("25.8", bus_attribute="pcieBusID", addressing_mode=False, mig_profile_in_name=False),
    Release("25.12"),
    Release("0.4", indexed_names=True),
    Release("0.5", indexed_names=True, numa_node=True),
)
# 1.3 is built with the helper of Kubernetes 1.36, 1.2 with that of 1.35.
_DRANET = (Release("1.2"), Release("1.3", indexed_names=True), Release("1.4", indexed_names=True))

# Oldest first: what was called 25.12 went on as 0.4.
TABLE: Mapping[str, tuple[Release, ...]] = {GPU: _NVIDIA, COMPUTE_DOMAIN: _NVIDIA, DRANET: _DRANET}
MODES: Mapping[str, tuple[str, ...]] = {GPU: (FULL, STATIC_MIG), COMPUTE_DOMAIN: (FULL,), DRANET: (FULL,)}
DRIVERS = tuple(TABLE)
RELEASES = tuple(release.name for release in _NVIDIA)

_NAME = re.compile(r"v?([0-9]+\.[0-9]+)(?:[.-].*)?")


def find_release(driver: str, name: Optional[str]) -> Release:
    """The row of a driver's release; 25.12.0 and v25.12.0 are 25.12, and None is the newest."""
    if driver not in TABLE:
        raise SliceError(f"driver: {driver!r} is not known; allowed: {', '.join(DRIVERS)}")
    rows = TABLE[driver]
    if name is None:
        return rows[-1]
    match = _NAME.fullmatch(name.strip()) if isinstance(name, str) else None
    for row in rows:
        if match is not None and row.name == match.group(1):
            return row
    known = ", ".join(row.name for row in rows)
    raise SliceError(f"release: {name!r} is no release of {driver} that is known here; allowed: {known}, in quotes")


def check_mode(driver: str, mode: str) -> None:
    """Refuse a mode that a driver has not, or has not here yet."""
    allowed = MODES[driver]
    if mode in allowed:
        return
    if mode in LATER:
        raise SliceError(f"mode: {mode} of {driver} is not made yet; allowed: {', '.join(allowed)}", mode=mode)
    raise SliceError(f"mode: {mode!r} is not a mode of {driver}; allowed: {', '.join(allowed)}", mode=mode)
