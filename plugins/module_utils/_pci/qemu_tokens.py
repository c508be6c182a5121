# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU options about the 64-bit PCI hole: written, and recognised in what a user gives. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.address_space import GIB, MIB

# Both spellings of -global: driver.property=value, and driver=…,property=…,value=….
_HOLE64 = re.compile(r"pci-hole64-size(?:=|,value=)([^,\s]+)")
_FIRMWARE = re.compile(r"opt/ovmf/X-PciMmio64Mb(?:,string=([^,\s]+))?")
# QEMU's sizes: a number with an optional suffix (util/cutils.c), hexadecimal without one.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([bkmgtpe]?)", re.IGNORECASE)
_SUFFIXES = "bkmgtpe"


@dataclass(frozen=True)
class Given:
    """A value as the user wrote it, and what it comes to; None when it cannot be read."""

    text: str
    size_bytes: Optional[int]


def hole64_tokens(hole64_bytes: int) -> tuple[str, ...]:
    return ("-global", f"q35-pcihost.pci-hole64-size={hole64_bytes // GIB}G")


def firmware_tokens(window_bytes: int) -> tuple[str, ...]:
    return ("-fw_cfg", f"name=opt/ovmf/X-PciMmio64Mb,string={window_bytes // MIB}")


def hole64(tokens: Iterable[str]) -> Optional[Given]:
    """The hole that the tokens set; QEMU takes the last one. None when they set none."""
    found = _HOLE64.findall(" ".join(tokens))
    return Given(found[-1], parse_size(found[-1])) if found else None


def firmware_window(tokens: Iterable[str]) -> Optional[Given]:
    """The firmware's window that the tokens set; None when they set none."""
    found = _FIRMWARE.findall(" ".join(tokens))
    if not found:
        return None
    return Given(found[-1], int(found[-1]) * MIB if found[-1].isdigit() else None)


def guest_cpu(tokens: Iterable[str]) -> tuple[Optional[int], Optional[str]]:
    """Address bits and vendor that the last `-cpu` of the tokens gives the guest, each None where it leaves the host's."""
    words = list(tokens)
    models = [after for word, after in zip(words, words[1:]) if word in ("-cpu", "--cpu")]
    if not models:
        return None, None
    properties = dict(part.partition("=")[::2] for part in models[-1].split(",")[1:])
    bits = properties.get("phys-bits", "")
    # QEMU looks at phys-bits only where the host's own are not asked for (target/i386/host-cpu.c).
    own = (
        int(bits)
        if bits.isdigit() and int(bits) > 0 and properties.get("host-phys-bits", "off") in ("off", "false")
        else None
    )
    return own, properties.get("vendor") or None


def parse_size(text: str) -> Optional[int]:
    """A size in bytes as QEMU reads it; None when it is none."""
    plain = text.strip("'\"")
    if re.fullmatch(r"0x[0-9a-f]+", plain, re.IGNORECASE):
        return int(plain, 16)
    match = _SIZE.fullmatch(plain)
    if match is None:
        return None
    return int(float(match.group(1)) * 1024 ** _SUFFIXES.index(match.group(2).lower() or "b"))
