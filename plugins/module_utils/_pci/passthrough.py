# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of this host as an instance needs them: found, judged, sized for, recorded and given back. Private to the collection."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._pci import qemu_tokens
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.firmware import read_firmware
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.groups import judge, read_groups
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.holders import Holder, find_holders
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.hole import HoleInput, plan_hole, slots_of
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.host import HostFacts, read_host
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.nodes import KFD
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.release import (
    RUN_DIR,
    check_released,
    forget,
    remember,
    restore,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.select import select_gpus
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import (
    PciFunction,
    companions,
    read_function,
    read_functions,
)

HOLDER_POLL_S = 0.5
_KIB_PER_MIB = 1024


class GpuHeld(FleetError):
    """Processes hold a GPU that is to go into a VM; details: holders."""


@dataclass(frozen=True)
class SizedHole:
    """QEMU options to add to the user's own, and how they came about."""

    tokens: tuple[str, ...]
    explained: Mapping[str, object]


class HostGpus:
    """Reads the host at each question: drivers and holders change while an instance starts and stops."""

    def __init__(
        self,
        sysfs: str = "/sys",
        procfs: str = "/proc",
        run_dir: str = RUN_DIR,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._sysfs = sysfs
        self._procfs = procfs
        self._run_dir = run_dir
        self._sleep = sleep
        self._facts: Optional[HostFacts] = None

    @property
    def facts(self) -> HostFacts:
        if self._facts is None:
            self._facts = read_host(self._sysfs, self._procfs)
        return self._facts

    @property
    def memory_mib(self) -> int:
        return self.facts.memory_mib

    @property
    def cpus(self) -> int:
        return self.facts.cpus

    def free_hugepages_mib(self) -> int:
        """Free pages of the smallest size, which is the kernel's default one on x86_64 and what a plain hugetlbfs mount has."""
        pools = read_host(self._sysfs, self._procfs).hugepages
        return pools[0].free * pools[0].size_kib // _KIB_PER_MIB if pools else 0

    def resolve(self, selectors: Sequence[object]) -> tuple[str, ...]:
        """Addresses in the order of the selectors; SelectorError for what nothing on this host answers to."""
        return tuple(function.address for function in select_gpus(read_functions(self._sysfs), selectors))

    def check_groups(self, addresses: Sequence[str]) -> None:
        """Refuse GPUs whose IOMMU group cannot be handed over."""
        functions = read_functions(self._sysfs)
        groups = read_groups(functions, self._sysfs)
        for function in _by_address(functions, addresses):
            verdict = judge(function, groups, addresses)
            if not verdict.viable:
                raise FleetError(
                    f"gpus has {function.address}, which cannot be passed to a VM: {verdict.reason}",
                    option="gpus",
                    value=function.address,
                    reason="group_not_viable",
                    viability=verdict.to_dict(),
                )

    def size_hole(
        self, addresses: Sequence[str], ram_bytes: int, user_tokens: Sequence[str], lxd_version: str
    ) -> SizedHole:
        """What `qemu_opts: auto` adds for these GPUs. HoleError when their BARs cannot fit."""
        functions = read_functions(self._sysfs)
        facts = self.facts
        # LXD gives a VM the host's processor; options of the user's own may say otherwise.
        bits, vendor = qemu_tokens.guest_cpu(user_tokens)
        plan = plan_hole(
            HoleInput(
                slots=slots_of(_by_address(functions, addresses), functions),
                ram_bytes=ram_bytes,
                phys_bits=bits or facts.phys_bits,
                vendor=vendor or facts.cpu_vendor,
                firmware=read_firmware(lxd_version),
                la57=facts.la57,
                pages_1gib=facts.pages_1gib,
                user_tokens=tuple(user_tokens),
                architecture=facts.architecture,
            )
        )
        return SizedHole(plan.tokens, plan.to_dict())

    def wait_free(self, addresses: Sequence[str], timeout_s: float) -> None:
        """Wait until no process holds the GPUs or their companions; GpuHeld names who still does at the end."""
        deadline = Deadline(timeout_s)
        members = self._with_companions(addresses)
        while True:
            holders = self._find(members)
            if not holders:
                return
            if deadline.expired():
                raise GpuHeld(
                    f"{', '.join(addresses)} cannot go into a VM while held: {'; '.join(str(holder) for holder in holders)};"
                    f" waited {timeout_s:.0f} s (release_timeout_s), stop these first",
                    reason="gpu_held",
                    holders=[holder.to_dict() for holder in holders],
                )
            self._sleep(min(HOLDER_POLL_S, max(deadline.remaining_s(), 0.01)))

    def remember(self, addresses: Sequence[str]) -> None:
        """Record drivers and present holders of the GPUs and their companions."""
        functions = read_functions(self._sysfs)
        members = self._with_companions(addresses)
        remember(_by_address(functions, members), self._run_dir, self._find(members))

    def give_back(self, addresses: Sequence[str], timeout_s: float) -> list[dict[str, object]]:
        """Wait for a stopped instance to let go, restore what is not on its former driver, and tell of each function."""
        deadline = Deadline(timeout_s)
        members = self._with_companions(addresses)
        while True:
            states = check_released(members, self._run_dir, self._sysfs, self._procfs)
            late = [state for state in states if not state.released or state.told_apart]
            if not late:
                break
            # First LXD's own rebind gets a moment, and leftover holders the time that there is.
            if not any(state.holders for state in late):
                restore(
                    [state.address for state in late if state.former_known],
                    deadline,
                    self._run_dir,
                    self._sysfs,
                    self._procfs,
                )
                states = check_released(members, self._run_dir, self._sysfs, self._procfs)
                if all(state.released for state in states):
                    break
            if deadline.expired():
                break
            self._sleep(min(HOLDER_POLL_S, max(deadline.remaining_s(), 0.01)))
        forget([state.address for state in states if state.released], self._run_dir)
        return [state.to_dict() for state in states]

    def holders(self, addresses: Sequence[str]) -> list[dict[str, object]]:
        """Who holds the GPUs or their companions at this moment."""
        return [holder.to_dict() for holder in self._find(self._with_companions(addresses))]

    def _find(self, members: Sequence[str]) -> list[Holder]:
        # /dev/kfd is one file for all AMD GPUs, and tells nothing about a single one.
        return [holder for holder in find_holders(members, self._procfs, self._sysfs) if holder.path != KFD]

    def _with_companions(self, addresses: Sequence[str]) -> tuple[str, ...]:
        functions = read_functions(self._sysfs)
        members: dict[str, None] = {}
        for address in addresses:
            members.setdefault(address)
            function = read_function(address, self._sysfs)
            if function is not None:
                members.update(dict.fromkeys(other.address for other in companions(function, functions)))
        return tuple(members)


def _by_address(functions: Sequence[PciFunction], addresses: Sequence[str]) -> list[PciFunction]:
    by_address = {function.address: function for function in functions}
    return [by_address[address] for address in addresses if address in by_address]
