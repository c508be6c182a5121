# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tier `pci`: the GPUs are in the VM, complete and addressable. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_probe import (
    GuestBar,
    GuestFacts,
    GuestFunction,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.kernel_log import BarProblem, bar_problems
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

_IO_FLAG = 0x100  # IORESOURCE_IO, include/linux/ioport.h
# Displays that QEMU itself gives a VM: virtio, the Bochs display, Red Hat's devices. One more of these is no surprise.
_QEMU_VENDORS = ("1af4", "1234", "1b36")


@dataclass(frozen=True)
class ExpectedBar:
    index: int
    size_bytes: int
    is_io: bool = False


@dataclass(frozen=True)
class ExpectedGpu:
    """A GPU as the host has it: the address is the host's, the guest gives it another one."""

    address: str
    ids: str
    bars: tuple[ExpectedBar, ...] = ()

    @property
    def vendor(self) -> str:
        return self.ids[:4]


def expected_gpu(raw: Mapping[str, object], position: int = 0) -> ExpectedGpu:
    """A GPU from the facts of gpu_host_info; ids may be numbers or hexadecimal texts with or without 0x."""
    where = f"gpus[{position}]"
    address = raw.get("address")
    if not isinstance(address, str) or not address:
        raise FleetError(
            f"{where}.address is {address!r}; it must be the GPU's PCI address on the host, such as '0000:41:00.0'"
        )
    bars = []
    given = raw.get("bars") or ()
    if not isinstance(given, (list, tuple)):
        raise FleetError(f"{where}.bars is {given!r}; it must be a list of dictionaries with index and size_bytes")
    for number, region in enumerate(given):
        if not isinstance(region, Mapping) or "index" not in region or "size_bytes" not in region:
            raise FleetError(f"{where}.bars[{number}] is {region!r}; it must be a dictionary with index and size_bytes")
        index, size_bytes = int(str(region["index"])), int(str(region["size_bytes"]))
        # Numbers above 5 are the ROM and the BARs of virtual functions, which a guest does not get.
        if size_bytes > 0 and index <= 5:
            bars.append(ExpectedBar(index, size_bytes, bool(region.get("is_io"))))
    return ExpectedGpu(address, f"{_id(raw, 'vendor_id', where)}:{_id(raw, 'device_id', where)}", tuple(bars))


def pair(gpus: Sequence[ExpectedGpu], functions: Sequence[GuestFunction]) -> dict[str, GuestFunction]:
    """Which function of the guest is which GPU of the host: same ids, and the same BAR sizes where there is a choice."""
    found: dict[str, GuestFunction] = {}
    free = sorted(functions, key=lambda function: function.address)
    # LXD adds devices in the order of their names, and the guest's bus numbers rise with it: equal GPUs keep their order.
    for exact in (True, False):
        for gpu in gpus:
            if gpu.address in found:
                continue
            for function in free:
                if function.ids == gpu.ids and (not exact or not _wrong_bars(gpu, function)):
                    found[gpu.address] = function
                    free.remove(function)
                    break
    return found


def check_pci(
    subject: Subject,
    gpus: Sequence[ExpectedGpu],
    facts: GuestFacts,
    expected_driver: Optional[str] = None,
) -> list[Check]:
    """Presence, BARs, kernel log and driver of every GPU that was passed."""
    pairs = pair(gpus, facts.functions)
    checks = []
    for gpu in gpus:
        function = pairs.get(gpu.address)
        if function is None:
            checks.append(_absent(subject, gpu, gpus, facts))
            continue
        checks.append(_present(subject, gpu, function, gpus, facts))
        checks.append(_bars(subject, gpu, function))
        checks.append(_kernel_log(subject, gpu, function, facts))
        checks.append(_driver(subject, gpu, function, expected_driver))
    return checks


def _absent(subject: Subject, gpu: ExpectedGpu, gpus: Sequence[ExpectedGpu], facts: GuestFacts) -> Check:
    passed = sum(1 for other in gpus if other.ids == gpu.ids)
    seen = sum(1 for function in facts.functions if function.ids == gpu.ids)
    evidence = {
        "guest_functions": [f"{f.address} {f.ids}" for f in facts.functions],
        "other_functions": list(facts.others),
    }
    return subject.failed(
        gpu.address, "pci.present", f"the guest has {seen} of the {passed} devices {gpu.ids} that were passed", evidence
    )


def _present(
    subject: Subject, gpu: ExpectedGpu, function: GuestFunction, gpus: Sequence[ExpectedGpu], facts: GuestFacts
) -> Check:
    passed = sum(1 for other in gpus if other.ids == gpu.ids)
    seen = sum(1 for other in facts.functions if other.ids == gpu.ids)
    evidence = {
        "guest_address": function.address,
        "ids": function.ids,
        "class": f"{function.class_code:06x}",
        "lspci": function.lspci,
    }
    own_display = 1 if gpu.vendor in _QEMU_VENDORS else 0
    if seen > passed + own_display:
        return subject.failed(
            gpu.address, "pci.present", f"the guest has {seen} devices {gpu.ids}, {passed} were passed", evidence
        )
    return subject.passed(gpu.address, "pci.present", f"{gpu.ids} is {function.address} in the guest", evidence)


def _bars(subject: Subject, gpu: ExpectedGpu, function: GuestFunction) -> Check:
    guest = {region.index: region for region in function.bars}
    evidence = {
        "guest_address": function.address,
        "bars": [_bar_evidence(region, guest.get(region.index)) for region in gpu.bars],
    }
    if not gpu.bars:
        return subject.skipped(
            gpu.address,
            "pci.bars",
            "the host's BARs of this GPU are not known, so there is nothing to compare with",
            evidence,
        )
    wrong = _wrong_bars(gpu, function)
    if wrong:
        return subject.failed(
            gpu.address, "pci.bars", f"{function.address} in the guest: " + "; ".join(wrong), evidence
        )
    sizes = ", ".join(f"BAR{region.index} {size_text(region.size_bytes)}" for region in gpu.bars if not region.is_io)
    return subject.passed(gpu.address, "pci.bars", f"assigned in the guest with the host's sizes: {sizes}", evidence)


def _wrong_bars(gpu: ExpectedGpu, function: GuestFunction) -> list[str]:
    """What is wrong with the guest's BARs. Port BARs are left out: no current GPU needs them, and guests often have no room for them."""
    guest = {region.index: region for region in function.bars}
    wrong = []
    for region in gpu.bars:
        seen = guest.get(region.index)
        if region.is_io or (seen is not None and seen.flags & _IO_FLAG):
            continue
        if seen is None or not seen.assigned:
            wrong.append(f"BAR{region.index} ({size_text(region.size_bytes)} on the host) is not assigned")
        elif seen.size_bytes != region.size_bytes:
            wrong.append(
                f"BAR{region.index} has {size_text(seen.size_bytes)}, on the host {size_text(region.size_bytes)}"
            )
    return wrong


def _bar_evidence(region: ExpectedBar, seen: Optional[GuestBar]) -> dict[str, object]:
    known = seen is not None and seen.assigned
    return {
        "index": region.index,
        "assigned": known,
        "start": f"0x{seen.start:x}" if seen is not None and known else None,
        "size_bytes": seen.size_bytes if seen is not None and known else None,
        "host_size_bytes": region.size_bytes,
        "io": region.is_io,
    }


def _kernel_log(subject: Subject, gpu: ExpectedGpu, function: GuestFunction, facts: GuestFacts) -> Check:
    name = "pci.kernel_log"
    if not facts.log_lines:
        return subject.skipped(
            gpu.address, name, "the guest's kernel log cannot be read (no dmesg, or it is restricted)"
        )
    problems = bar_problems(facts.log, function.address, nvidia=gpu.vendor == "10de")
    # A port BAR of the host, which old kernels name like any other.
    io_bars = {region.index for region in gpu.bars if region.is_io}
    fatal = [problem for problem in problems if problem.fatal and problem.index not in io_bars]
    evidence = {
        "failed": [problem.line for problem in fatal],
        "recovered": [problem.line for problem in problems if problem.recovered],
        "warnings": [problem.line for problem in problems if problem not in fatal and not problem.recovered],
        "log_lines": facts.log_lines,
        "log_complete": facts.log_complete,
    }
    if fatal:
        return subject.failed(
            gpu.address, name, f"the guest's kernel could not place a BAR: {_shortest(fatal)}", evidence
        )
    cut = "" if facts.log_complete else " (its beginning is no longer in the log)"
    return subject.passed(gpu.address, name, f"no failed assignment for {function.address}{cut}", evidence)


def _shortest(problems: Sequence[BarProblem]) -> str:
    return problems[0].line if len(problems) == 1 else f"{problems[0].line} (and {len(problems) - 1} more lines)"


def _driver(subject: Subject, gpu: ExpectedGpu, function: GuestFunction, expected_driver: Optional[str]) -> Check:
    evidence = {"guest_address": function.address, "driver": function.driver, "expected": expected_driver}
    bound = f"bound to {function.driver}" if function.driver else "bound to no driver"
    if expected_driver and function.driver != expected_driver:
        return subject.failed(
            gpu.address,
            "pci.driver",
            f"{function.address} is {bound} in the guest, {expected_driver} was expected",
            evidence,
        )
    return subject.passed(
        gpu.address, "pci.driver", bound if expected_driver else f"{bound} in the guest (none was asked for)", evidence
    )


def size_text(size_bytes: int) -> str:
    """17179869184 is `16 GiB`; what is no whole number of a unit stays in the next smaller one."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def _id(raw: Mapping[str, object], key: str, where: str) -> str:
    value = raw.get(key)
    try:
        number = value if isinstance(value, int) else int(str(value), 16)
    except ValueError:
        number = -1
    if not 0 <= number <= 0xFFFF:
        raise FleetError(f"{where}.{key} is {value!r}; it must be a PCI id such as '0x10de'")
    return f"{number:04x}"
