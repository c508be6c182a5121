# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What failures of LXD and QEMU mean, by their texts, and what a person can do. Pure. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.console import (
    FIRMWARE,
    KERNEL,
    NOT_BOOTABLE,
    PANIC,
    SILENT,
    USERSPACE,
)


@dataclass(frozen=True)
class Cause:
    """A reason for programs and a sentence for people."""

    reason: str
    text: str


# Texts of LXD (lxd/device/gpu_physical.go, driver_qemu.go) and QEMU as users have reported them.
_START = (
    (
        "group_not_viable",
        r"group \d+ is not viable",
        "the GPU's IOMMU group has members that the host still drives; unbind them or pass them too",
    ),
    (
        "phys_bits",
        r"phys-bits too low|Address space limit",
        "the PCI hole does not fit into the address bits; give a smaller pci-hole64-size in qemu_opts, or auto",
    ),
    (
        "hugepages",
        r"unable to map backing store for guest RAM|hugepages.*Cannot allocate memory|Cannot allocate memory.*hugepages",
        "the host has too few free hugepages; reserve more (vm.nr_hugepages), lower ram_mb, or set hugepages: false",
    ),
    (
        "gpu_busy",
        r"processes are still attached|Device took too long to activate",
        "the host still uses the GPU; stop what holds it",
    ),
    (
        "gpu_not_found",
        r"Failed (?:detecting|to detect) requested GPU device",
        "LXD does not see a GPU at that address; see lxc info --resources",
    ),
    (
        "secure_boot",
        r"incompatible with secure ?boot",
        "the image does not boot with secure boot; set secure_boot: false",
    ),
    (
        "vfio",
        r"vfio_(?:container_)?dma_map|VFIO_MAP_DMA",
        "VFIO could not map the VM's memory; see the host's kernel log",
    ),
    ("vsock", r"vhost[_-]vsock", "the host lacks vhost_vsock; load that module"),
    (
        "kvm",
        r"Could not access KVM kernel module|failed to initialize kvm",
        "the host has no usable KVM; see /dev/kvm and the firmware's virtualisation switch",
    ),
    (
        "qemu_opts",
        r"-global[ :].*|invalid option|can't apply global|Invalid parameter|Property '.*' not found|is not a valid device model name",
        "QEMU refuses one of its options; correct qemu_opts",
    ),
    (
        "memory",
        r"Cannot allocate memory|cannot set up guest memory",
        "the host has too little free memory; lower ram_mb",
    ),
)

_BOOT = {
    PANIC: Cause("kernel_panic", "the guest's kernel panicked"),
    USERSPACE: Cause(
        "agent_missing", "the guest booted, but its LXD agent does not answer; the image must start lxd-agent"
    ),
    KERNEL: Cause(
        "agent_missing",
        "the guest's kernel runs, but no LXD agent answers yet; the image must start lxd-agent, or it needs more time",
    ),
    NOT_BOOTABLE: Cause("firmware_only", "the firmware finds nothing that it may boot; see the image, and secure_boot"),
    FIRMWARE: Cause(
        "firmware_only",
        "the VM has not come beyond its firmware; large BARs need time there, and the image must be bootable by UEFI",
    ),
    SILENT: Cause("not_booted", "the VM has printed nothing on its console"),
}
STOPPED = Cause("stopped_by_itself", "the instance stopped by itself")
BROKEN = Cause("qemu_broken", "LXD reports the state Error: QEMU does not answer or has failed")
UNREACHABLE = Cause("lxd_unreachable", "LXD does not answer")
VANISHED = Cause("vanished", "the instance was deleted meanwhile")
NO_AGENT = Cause("agent_missing", "the VM runs, but its LXD agent does not answer")
NO_EXEC = Cause("exec_fails", "the instance runs, but no command can be run in it")


def start_cause(error: str, log_lines: Sequence[str]) -> Cause:
    """Why a start failed. QEMU's own log says more than LXD, which mostly tells that forklimits failed."""
    for text in ("\n".join(log_lines), error):
        for reason, pattern, remedy in _START:
            if re.search(pattern, text, re.IGNORECASE):
                return Cause(reason, remedy)
    return Cause("start_failed", "see the lines of QEMU's log and lxc info --show-log")


def boot_cause(stage: str) -> Cause:
    """Why an agent has not answered, by the stage that the console shows."""
    return _BOOT[stage]


def last_lines(text: Optional[str], count: int = 20) -> list[str]:
    """The last lines of a log that say something."""
    return [line.rstrip() for line in (text or "").splitlines() if line.strip()][-count:]
