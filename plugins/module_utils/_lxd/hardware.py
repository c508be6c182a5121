# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine asks of the host's hardware. The room that knows hardware answers; the modules bring both together. Private to the collection."""

from __future__ import annotations

from typing import Mapping, Protocol, Sequence


class Sized(Protocol):
    """QEMU options that make room for GPUs, and the explanation that is returned with them."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """What to add to the user's own options."""

    @property
    def explained(self) -> Mapping[str, object]:
        """Why, with the numbers."""


class Hardware(Protocol):
    """Raises FleetError with a message for people; none of these methods knows LXD."""

    @property
    def memory_mib(self) -> int:
        """The host's memory."""

    @property
    def cpus(self) -> int:
        """The host's CPUs; a pin set names them from 0."""

    def free_hugepages_mib(self) -> int:
        """Free hugepages of the default size, as memory."""

    def resolve(self, selectors: Sequence[object]) -> tuple[str, ...]:
        """The addresses that the user's selectors mean."""

    def check_groups(self, addresses: Sequence[str]) -> None:
        """Refuse GPUs that VFIO cannot hand over."""

    def size_hole(
        self, addresses: Sequence[str], ram_bytes: int, user_tokens: Sequence[str], lxd_version: str
    ) -> Sized:
        """QEMU options in addition to the user's own, from the GPUs' real BARs."""

    def wait_free(self, addresses: Sequence[str], timeout_s: float) -> None:
        """Wait until no process holds the GPUs; refuse with their names when the time is up."""

    def remember(self, addresses: Sequence[str]) -> None:
        """Record the drivers that the GPUs and their companions have now, before anything is touched."""

    def give_back(self, addresses: Sequence[str], timeout_s: float) -> list[dict[str, object]]:
        """Bring every function back to its former driver, bounded, and tell of each how it stands (`released`, `reason`, …)."""

    def holders(self, addresses: Sequence[str]) -> list[dict[str, object]]:
        """Who holds the GPUs at this moment."""
