# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VM as its guest counts it: memory, CPUs, and which boot this is. Private to the collection."""

from __future__ import annotations

from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_probe import GuestFacts
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject

_MIB = 1024 * 1024
# Firmware and ACPI keep some MiB of a VM's memory for themselves; the kernel's own share comes on top in MemTotal.
_FIRMWARE_MIB = 64
_KERNEL_SHARE = 0.2


def check_size(
    subject: Subject, facts: GuestFacts, expect_ram_mb: Optional[int], expect_cpus: Optional[int]
) -> list[Check]:
    """Memory and CPUs as the guest counts them, against what was asked for; and which boot this is."""
    checks = []
    if expect_ram_mb:
        checks.append(_memory(subject, facts, expect_ram_mb))
    if expect_cpus:
        counted = {"cpus": facts.cpus, "asked": expect_cpus}
        if facts.cpus == expect_cpus:
            checks.append(subject.passed(subject.whole, "guest.cpus", f"{facts.cpus} CPUs, as asked", counted))
        else:
            seen = "no readable number of" if facts.cpus is None else str(facts.cpus)
            checks.append(
                subject.failed(
                    subject.whole, "guest.cpus", f"the guest has {seen} CPUs, {expect_cpus} were asked for", counted
                )
            )
    evidence: dict[str, object] = {
        "boot_id": facts.boot_id,
        "uptime_s": facts.uptime_s,
        "kernel": facts.kernel,
        "memory_kib": facts.memory_kib,
        "cpus": facts.cpus,
    }
    if facts.boot_id:
        checks.append(
            subject.passed(subject.whole, "guest.boot", f"boot {facts.boot_id}, up for {facts.uptime_s} s", evidence)
        )
    else:
        checks.append(subject.skipped(subject.whole, "guest.boot", "the guest shows no boot id", evidence))
    return checks


def _memory(subject: Subject, facts: GuestFacts, expect_ram_mb: int) -> Check:
    """By the firmware's map where the guest shows it (exact but for what firmware keeps), else by MemTotal (without the kernel's share)."""
    total_mib = None if facts.memory_kib is None else facts.memory_kib // 1024
    map_mib = facts.system_ram_bytes // _MIB
    evidence = {"system_ram_mib": map_mib or None, "mem_total_mib": total_mib, "asked_mib": expect_ram_mb}
    if map_mib:
        seen, lowest = map_mib, expect_ram_mb - max(_FIRMWARE_MIB, expect_ram_mb // 100)
    elif total_mib is not None:
        seen, lowest = total_mib, int(expect_ram_mb * (1 - _KERNEL_SHARE)) - _FIRMWARE_MIB
    else:
        return subject.failed(subject.whole, "guest.memory", "the guest shows no figure for its memory", evidence)
    if lowest <= seen <= expect_ram_mb:
        return subject.passed(
            subject.whole,
            "guest.memory",
            f"{seen} MiB of the {expect_ram_mb} MiB asked for are the guest's RAM",
            evidence,
        )
    return subject.failed(
        subject.whole,
        "guest.memory",
        f"the guest has {seen} MiB, {expect_ram_mb} MiB were asked for ({lowest} to {expect_ram_mb} would do)",
        evidence,
    )
