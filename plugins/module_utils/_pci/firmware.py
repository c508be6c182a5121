# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the UEFI firmware that LXD gives to VMs, and of its window for 64-bit BARs. Private to the collection."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Optional

SNAP_SOCKET = "var/snap/lxd/common/lxd/unix.socket"
SNAP_YAML = "snap/lxd/current/meta/snap.yaml"
DPKG_STATUS = "var/lib/dpkg/status"

# The window that edk2 makes when it cannot or must not size it: 32 GiB at most.
CLASSIC_WINDOW_BYTES = 32 << 30
# edk2 limits itself to 46 bits with four-level page tables (c1e8537690), and to 40 without pages of 1 GiB.
FOUR_LEVEL_BITS = 46
NO_1GIB_PAGES_BITS = 40
# edk2-stable202211 (ecb778d0ac) sizes the window by the address width; before, it was always the classic one.
FIRST_DYNAMIC_EDK2 = (2022, 11)
# X-PciMmio64Mb above this is ignored as malformed (OvmfPkg/Library/PlatformInitLib/MemDetect.c).
MAX_FW_CFG_MIB = 0x1000000

_EDK2 = re.compile(r"(?:\d+:)?(20\d\d)[.-]?(0[1-9]|1[0-2])")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class FirmwareFacts:
    """`dynamic_window`: whether the firmware sizes its 64-bit window by the address width; None when nobody can tell."""

    dynamic_window: Optional[bool]
    reason: str
    lxd_version: Optional[str] = None
    snap: Optional[bool] = None
    edk2_version: Optional[str] = None

    def to_dict(self) -> dict[str, object]:
        return {
            "dynamic_window": self.dynamic_window,
            "reason": self.reason,
            "lxd_version": self.lxd_version,
            "snap": self.snap,
            "edk2_version": self.edk2_version,
        }


def judge_firmware(
    lxd_version: Optional[str], snap: Optional[bool], edk2_version: Optional[str] = None
) -> FirmwareFacts:
    """Facts by the versions of LXD (its snap brings the firmware along) or of the distribution's edk2 package."""
    if snap:
        dynamic, reason = _by_snap(lxd_version)
        return FirmwareFacts(dynamic, reason, lxd_version, snap, None)
    if snap is None:
        return FirmwareFacts(
            None,
            "it is not known whether this LXD is a snap, so neither is its firmware",
            lxd_version,
            snap,
            edk2_version,
        )
    dynamic, reason = _by_edk2(edk2_version)
    return FirmwareFacts(dynamic, reason, lxd_version, snap, edk2_version)


def read_firmware(lxd_version: Optional[str], root: str = "/") -> FirmwareFacts:
    """Facts about this host; `root` is where its file system begins."""
    snap = os.path.exists(os.path.join(root, SNAP_SOCKET))
    return judge_firmware(
        lxd_version, snap, None if snap else installed_version("ovmf", os.path.join(root, DPKG_STATUS))
    )


def read_lxd_version(root: str = "/") -> Optional[str]:
    """The version of the installed LXD without asking it; None when there is neither the snap nor the package."""
    try:
        with open(os.path.join(root, SNAP_YAML), encoding="utf-8", errors="replace") as stream:
            match = re.search(r"^version:\s*['\"]?(\d+(?:\.\d+)+)", stream.read(), re.MULTILINE)
    except OSError:
        match = None
    if match is not None:
        return match.group(1)
    return installed_version("lxd", os.path.join(root, DPKG_STATUS))


def installed_version(package: str, status_file: str) -> Optional[str]:
    """The version of an installed Debian package; None when it is not installed or the host has no dpkg."""
    try:
        with open(status_file, encoding="utf-8", errors="replace") as stream:
            stanza: dict[str, str] = {}
            for line in stream:
                if line.startswith(("Package:", "Status:", "Version:")):
                    key, _colon, value = line.partition(":")
                    stanza[key] = value.strip()
                elif not line.strip():
                    stanza = {}
                if (
                    stanza.get("Package") == package
                    and stanza.get("Status", "").endswith(" installed")
                    and "Version" in stanza
                ):
                    return stanza["Version"]
    except OSError:
        return None
    return None


def window_bytes(facts: FirmwareFacts, phys_bits: int, vendor: str, pages_1gib: bool = True) -> Optional[int]:
    """The firmware's 64-bit window without any option; None when the firmware is not known."""
    if facts.dynamic_window is None:
        return None
    if not facts.dynamic_window or not trusts_phys_bits(phys_bits, vendor):
        return CLASSIC_WINDOW_BYTES
    bits = min(phys_bits, FOUR_LEVEL_BITS if pages_1gib else NO_1GIB_PAGES_BITS)
    # PlatformDynamicMmioWindow never shrinks the classic window.
    return max(CLASSIC_WINDOW_BYTES, 1 << (bits - 3))


def trusts_phys_bits(phys_bits: int, vendor: str) -> bool:
    """Whether edk2 believes the address width that the CPU reports.

    QEMU used to report 40 bits by default, so up to 40 it takes only what CPUs of that vendor really have
    (PlatformAddressWidthFromCpuid with its QEMU quirk).
    """
    if phys_bits >= 41:
        return True
    return phys_bits in {"GenuineIntel": (36, 39), "AuthenticAMD": (40,)}.get(vendor, ())


def _by_snap(version: Optional[str]) -> tuple[Optional[bool], str]:
    match = _VERSION.match(version or "")
    if match is None:
        return None, "the version of the LXD snap is not known, so neither is its firmware"
    major, minor, patch = int(match.group(1)), int(match.group(2)), int(match.group(3) or 0)
    # The snap's patch edk2-0005-disable-dynamic-mmio-winsize went away in these releases.
    fixed = {(5, 0): (5, 0, 8), (5, 21): (5, 21, 5)}.get((major, minor), (6, 7, 0))
    if (major, minor, patch) >= fixed:
        return True, f"LXD {version} (snap) has firmware that sizes its 64-bit window by the address width"
    first = ".".join(str(part) for part in fixed if part or part == fixed[1])
    return (
        False,
        f"LXD {version} (snap) has firmware with a fixed 64-bit window of 32 GiB (sized by the address width since {first})",
    )


def _by_edk2(version: Optional[str]) -> tuple[Optional[bool], str]:
    match = _EDK2.match(version or "")
    if match is None:
        return None, "LXD is no snap and the version of its edk2 firmware is not known"
    stable = (int(match.group(1)), int(match.group(2)))
    if stable >= FIRST_DYNAMIC_EDK2:
        return True, f"edk2 {version} sizes its 64-bit window by the address width"
    return False, f"edk2 {version} has a fixed 64-bit window of 32 GiB (sized by the address width since 2022.11)"
