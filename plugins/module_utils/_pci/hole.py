# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""Sizes the 64-bit PCI hole of a VM from the BARs that it gets: `qemu_opts: auto`, a pure function. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._pci import qemu_tokens
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.address_space import (
    DEFAULT_HOLE64_BYTES,
    GIB,
    MIB,
    AddressSpace,
    next_power_of_two,
    round_up,
    show_size,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.firmware import (
    CLASSIC_WINDOW_BYTES,
    MAX_FW_CFG_MIB,
    FirmwareFacts,
    window_bytes,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import PciFunction, companions

# The 64-bit BARs of a VM's other devices (virtio, root ports) need some megabytes; a whole GiB keeps alignment out of the question.
OTHER_DEVICES_BYTES = GIB
# A larger sum of 32-bit BARs does not leave the rest of the machine enough of the window below 4 GiB (just under 1 GiB on q35).
MMIO32_WARNING_BYTES = 512 * MIB


class HoleError(FleetError):
    """The GPUs' BARs cannot fit into the VM's address space; the details carry the numbers."""


@dataclass(frozen=True)
class SlotBars:
    """The memory BARs of one slot: a GPU with its companions, which share a bridge in the VM."""

    name: str
    mmio64_bytes: tuple[int, ...]
    mmio32_bytes: tuple[int, ...] = ()

    @property
    def window_bytes(self) -> int:
        """An upper bound for the bridge's window: one BAR is a power of two already, several can cost the next one."""
        return next_power_of_two(sum(self.mmio64_bytes)) if self.mmio64_bytes else 0


@dataclass(frozen=True)
class HoleInput:
    """Everything that the size depends on; `user_tokens` are the QEMU options that the VM gets anyway."""

    slots: tuple[SlotBars, ...]
    ram_bytes: int
    phys_bits: Optional[int]
    vendor: str
    firmware: FirmwareFacts
    la57: bool = False
    pages_1gib: bool = True
    user_tokens: tuple[str, ...] = ()
    hotplug_bytes: int = 0
    architecture: str = "x86_64"


@dataclass(frozen=True)
class HolePlan:
    """Tokens to append to the VM's QEMU options (none when nothing is needed), and why."""

    tokens: tuple[str, ...]
    hole64_bytes: Optional[int]
    explanation: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "tokens": list(self.tokens),
            "hole64_bytes": self.hole64_bytes,
            "explanation": self.explanation,
            "inputs": dict(self.inputs),
            "warnings": list(self.warnings),
        }


def slots_of(
    gpus: Iterable[PciFunction], functions: Sequence[PciFunction], resize: bool = False
) -> tuple[SlotBars, ...]:
    """The BARs that passing `gpus` brings into the VM; with `resize`, as large as the guest's driver may make them."""
    slots: dict[str, list[PciFunction]] = {}
    for gpu in gpus:
        slots.setdefault(gpu.slot, sorted([gpu, *companions(gpu, functions)], key=lambda function: function.number))
    return tuple(_slot_bars(slot, members, resize) for slot, members in slots.items())


def plan_hole(given: HoleInput) -> HolePlan:
    """The QEMU options that make room for the GPUs' BARs. Raises HoleError when there is no room."""
    slots = tuple(slot for slot in given.slots if slot.mmio64_bytes)
    inputs = _inputs(given)
    warnings = _warnings(given.slots)
    if given.architecture != "x86_64":
        return HolePlan(
            (),
            None,
            f"nothing is set: the hole is an option of x86_64's q35, and this host is {given.architecture}",
            inputs,
            warnings,
        )
    if not slots:
        return HolePlan((), None, "nothing is set: no 64-bit prefetchable BAR is passed to the VM", inputs, warnings)
    own_hole = qemu_tokens.hole64(given.user_tokens)
    space = (
        AddressSpace(given.ram_bytes, given.phys_bits, given.vendor, given.la57, given.hotplug_bytes)
        if given.phys_bits
        else None
    )
    if own_hole is not None:
        return _keep(own_hole, slots, space, inputs, warnings)

    need_bytes = sum(slot.window_bytes for slot in slots) + OTHER_DEVICES_BYTES
    firmware_bytes = window_bytes(given.firmware, given.phys_bits or 0, given.vendor, given.pages_1gib)
    assumed_bytes = CLASSIC_WINDOW_BYTES if firmware_bytes is None else firmware_bytes
    if need_bytes <= assumed_bytes:
        if space is not None:
            _check_default(space)
        explanation = f"nothing is set: {_sum_text(slots)} and other devices fit into the firmware's window of {show_size(assumed_bytes)}"
        return HolePlan((), None, explanation, inputs, warnings)
    if space is None:
        raise HoleError(
            f"qemu_opts: auto: {_sum_text(slots)} needs a larger 64-bit PCI hole, but /proc/cpuinfo does not tell how many address bits "
            "the host's CPU has; set qemu_opts yourself"
        )

    hole64_bytes, how = _choose(slots, space)
    tokens = list(qemu_tokens.hole64_tokens(hole64_bytes))
    if qemu_tokens.firmware_window(given.user_tokens) is None:
        tokens += qemu_tokens.firmware_tokens(hole64_bytes)
        also = f"{_firmware_text(given, firmware_bytes)}, so also X-PciMmio64Mb={hole64_bytes // MIB}"
    else:
        also = "X-PciMmio64Mb is kept as given"
    explanation = f"{how}; host has {space.phys_bits} bits; {also}"
    return HolePlan(tuple(tokens), hole64_bytes, explanation, inputs, warnings)


def _slot_bars(name: str, members: Iterable[PciFunction], resize: bool) -> SlotBars:
    mmio64: list[int] = []
    mmio32: list[int] = []
    for member in members:
        for bar in member.bars:
            if bar.is_io:
                continue
            size_bytes = max((bar.size_bytes, *bar.resizable_bytes)) if resize else bar.size_bytes
            # A bridge has one window above 4 GiB, and only prefetchable memory may go there.
            (mmio64 if bar.is_64bit and bar.prefetchable else mmio32).append(size_bytes)
    return SlotBars(name, tuple(mmio64), tuple(mmio32))


def _choose(slots: Sequence[SlotBars], space: AddressSpace) -> tuple[int, str]:
    """The generous size if it fits, otherwise the tight one, otherwise a refusal."""
    windows_bytes = sum(slot.window_bytes for slot in slots)
    generous_bytes = next_power_of_two(windows_bytes + DEFAULT_HOLE64_BYTES)
    tight_bytes = next_power_of_two(_packed_bytes(slots) + OTHER_DEVICES_BYTES)
    if _fits(generous_bytes, space):
        return generous_bytes, (
            f"{_sum_text(slots)} → {show_size(windows_bytes)} of bridge windows + {show_size(DEFAULT_HOLE64_BYTES)} for other devices "
            f"→ hole of {show_size(generous_bytes)}"
        )
    if _fits(tight_bytes, space):
        return tight_bytes, (
            f"{_sum_text(slots)}, packed → hole of {show_size(tight_bytes)} ({show_size(generous_bytes)} would be roomier but does not fit)"
        )
    start_bytes = space.hole_start(tight_bytes)
    if tight_bytes // MIB > MAX_FW_CFG_MIB:
        reason = f"the firmware accepts no window above {show_size(MAX_FW_CFG_MIB * MIB)}"
    else:
        usable = (
            "" if space.usable_bits == space.phys_bits else f", of which firmware and guest use {space.usable_bits}"
        )
        reason = (
            f"behind the guest's memory it would lie from {show_size(start_bytes)} to {show_size(start_bytes + tight_bytes)}, and the host's CPU "
            f"has {space.phys_bits} address bits{usable} ({show_size(1 << space.usable_bits)})"
        )
    raise HoleError(
        f"qemu_opts: auto: {_sum_text(slots)} needs a 64-bit PCI hole of {show_size(tight_bytes)}, which cannot fit: {reason}. "
        "Pass fewer GPUs to this VM or lower ram_mb",
        hole64_bytes=tight_bytes,
        hole_start_bytes=start_bytes,
        limit_bytes=1 << space.usable_bits,
        phys_bits=space.phys_bits,
        ram_bytes=space.ram_bytes,
    )


def _fits(hole64_bytes: int, space: AddressSpace) -> bool:
    # The firmware aligns its window to its size. That always fits where the hole does: both sizes are powers of two.
    return space.reaches(hole64_bytes) and hole64_bytes // MIB <= MAX_FW_CFG_MIB


def _packed_bytes(slots: Sequence[SlotBars]) -> int:
    """What the bridge windows take when they lie one after the other from an aligned start, the largest BARs first."""
    end_bytes = 0
    for slot in sorted(slots, key=lambda slot: max(slot.mmio64_bytes), reverse=True):
        end_bytes = round_up(end_bytes, max(slot.mmio64_bytes)) + sum(slot.mmio64_bytes)
    return end_bytes


def _check_default(space: AddressSpace) -> None:
    if not space.accepts(DEFAULT_HOLE64_BYTES):
        start_bytes = space.hole_start(DEFAULT_HOLE64_BYTES)
        raise HoleError(
            f"qemu_opts: auto: {show_size(space.ram_bytes)} of memory end at {show_size(start_bytes)}, and even QEMU's default 64-bit PCI hole of "
            f"{show_size(DEFAULT_HOLE64_BYTES)} behind it does not fit into the {space.phys_bits} address bits of the host's CPU "
            f"({show_size(space.limit_bytes)}). Lower ram_mb",
            hole64_bytes=DEFAULT_HOLE64_BYTES,
            hole_start_bytes=start_bytes,
            limit_bytes=space.limit_bytes,
            phys_bits=space.phys_bits,
            ram_bytes=space.ram_bytes,
        )


def _keep(
    own: qemu_tokens.Given,
    slots: Sequence[SlotBars],
    space: Optional[AddressSpace],
    inputs: Mapping[str, object],
    warnings: tuple[str, ...],
) -> HolePlan:
    """The user's own hole stays as it is; what is certain to fail is said before anything is touched."""
    if own.size_bytes is None or space is None:
        return HolePlan((), own.size_bytes, f"pci-hole64-size={own.text} is kept as given", inputs, warnings)
    if not space.accepts(own.size_bytes):
        start_bytes = space.hole_start(own.size_bytes)
        raise HoleError(
            f"qemu_opts has pci-hole64-size={own.text}, but behind the guest's memory that hole would lie from {show_size(start_bytes)} to "
            f"{show_size(start_bytes + own.size_bytes)}, and the host's CPU has {space.phys_bits} address bits ({show_size(space.limit_bytes)}); "
            "QEMU would not start. Give a smaller one, or leave it to auto",
            hole64_bytes=own.size_bytes,
            hole_start_bytes=start_bytes,
            limit_bytes=space.limit_bytes,
            phys_bits=space.phys_bits,
            ram_bytes=space.ram_bytes,
        )
    packed_bytes = _packed_bytes(slots) + OTHER_DEVICES_BYTES
    doubts = []
    if own.size_bytes < packed_bytes:
        doubts.append(
            f"pci-hole64-size={own.text} is less than the {show_size(round_up(packed_bytes, GIB))} that {_sum_text(slots)} takes"
        )
    if not space.reaches(own.size_bytes):
        doubts.append(
            f"pci-hole64-size={own.text} ends above 2^{space.usable_bits}, which firmware and guest may not reach"
        )
    return HolePlan((), own.size_bytes, f"pci-hole64-size={own.text} is kept as given", inputs, (*warnings, *doubts))


def _sum_text(slots: Sequence[SlotBars]) -> str:
    """Equal slots counted, the largest BAR first, as in "2 × (128 GiB + 16 MiB + 32 MiB)"."""
    counted: dict[tuple[int, ...], int] = {}
    for slot in slots:
        largest = slot.mmio64_bytes.index(max(slot.mmio64_bytes))
        sizes = (slot.mmio64_bytes[largest], *slot.mmio64_bytes[:largest], *slot.mmio64_bytes[largest + 1 :])
        counted[sizes] = counted.get(sizes, 0) + 1
    return " + ".join(
        f"{count} × ({' + '.join(show_size(size) for size in sizes)})" for sizes, count in counted.items()
    )


def _firmware_text(given: HoleInput, firmware_bytes: Optional[int]) -> str:
    if firmware_bytes is None:
        return given.firmware.reason
    if given.firmware.dynamic_window and firmware_bytes == CLASSIC_WINDOW_BYTES:
        return f"the firmware distrusts {given.phys_bits} bits on this CPU and keeps to a window of {show_size(firmware_bytes)}"
    if given.firmware.dynamic_window:
        return f"the firmware's own window is {show_size(firmware_bytes)}"
    return given.firmware.reason


def _warnings(slots: Iterable[SlotBars]) -> tuple[str, ...]:
    total_bytes = sum(sum(slot.mmio32_bytes) for slot in slots)
    if total_bytes <= MMIO32_WARNING_BYTES:
        return ()
    text = (
        f"{show_size(total_bytes)} of BARs are not 64-bit prefetchable and have to lie below 4 GiB, where a VM has less than 1 GiB "
        "for all devices; no hole above 4 GiB helps these"
    )
    return (text,)


def _inputs(given: HoleInput) -> dict[str, object]:
    return {
        "slots": [
            {"name": slot.name, "mmio64_bytes": list(slot.mmio64_bytes), "mmio32_bytes": list(slot.mmio32_bytes)}
            for slot in given.slots
        ],
        "ram_bytes": given.ram_bytes,
        "phys_bits": given.phys_bits,
        "vendor": given.vendor,
        "la57": given.la57,
        "pages_1gib": given.pages_1gib,
        "hotplug_bytes": given.hotplug_bytes,
        "firmware": given.firmware.to_dict(),
        "user_tokens": list(given.user_tokens),
    }
