# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the instances of a MIG layout lie in a GPU, and whether they fit; private to the collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import nearest, refuse, refuse_missing
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board, MigInstance, MigProfile


@dataclass(frozen=True)
class PlacedInstance:
    """An instance with its profile and the memory slice at which it starts."""

    profile: MigProfile
    start: int
    uuid: Optional[str] = None

    @property
    def slices(self) -> range:
        """The memory slices that it takes."""
        return range(self.start, self.start + self.profile.memory_slices)


def place_instances(board: Board, layout: Sequence[MigInstance], path: str) -> tuple[PlacedInstance, ...]:
    """The instances of a layout at their places, in the order of the layout; refuses what the GPU has no room for.

    What has a start keeps it. The others lie at the lowest places at which all of them fit, larger ones first.
    """
    if not layout:
        return ()
    profiles = _profiles(board, path)
    wanted = [_profile(profiles, instance, f"{path}[{number}]") for number, instance in enumerate(layout)]
    for number, profile in enumerate(wanted):
        if wanted.count(profile) > profile.instances:
            raise refuse(
                f"{path}[{number}]",
                profile.name,
                f"is there {wanted.count(profile)} times",
                f"a {board.product} holds at most {profile.instances} of it",
            )
    starts: dict[int, int] = {}
    taken: set[int] = set()
    for number, instance in enumerate(layout):
        if instance.start is not None:
            _take(wanted[number], instance.start, taken, f"{path}[{number}]")
            starts[number] = instance.start
    open_numbers = sorted(
        (number for number in range(len(layout)) if number not in starts),
        key=lambda number: (-wanted[number].memory_slices, -wanted[number].multiprocessors, number),
    )
    found = _fit(open_numbers, wanted, frozenset(taken))
    if found is None:
        raise refuse(
            path,
            [instance.profile for instance in layout],
            f"does not fit into a {board.product}",
            "use fewer or smaller profiles, or other starts",
        )
    starts.update(found)
    return tuple(
        PlacedInstance(wanted[number], starts[number], instance.uuid) for number, instance in enumerate(layout)
    )


def _profiles(board: Board, path: str) -> dict[str, MigProfile]:
    profiles = board.gpu.mig_profiles if board.gpu is not None else None
    if profiles is None and not (board.gpu is not None and board.gpu.mig_capable is False):
        raise refuse_missing(
            f"boards.{board.name}.gpu.mig_profiles",
            f"no source tells the MIG profiles of {board.product}, which {path} needs; give them in the description, "
            "or leave mig out",
        )
    if not profiles:
        raise refuse(path, board.name, "is a board without MIG", "leave mig out, or choose another board")
    return {profile.name: profile for profile in profiles}


def _profile(profiles: dict[str, MigProfile], instance: MigInstance, path: str) -> MigProfile:
    if instance.profile not in profiles:
        raise refuse(path, instance.profile, "is not a MIG profile of this board", nearest(instance.profile, profiles))
    return profiles[instance.profile]


def _take(profile: MigProfile, start: int, taken: set[int], path: str) -> None:
    if start not in profile.placements:
        allowed = ", ".join(str(place) for place in profile.placements)
        raise refuse(f"{path}.start", start, f"is no place for {profile.name}", f"allowed: {allowed}")
    slices = set(range(start, start + profile.memory_slices))
    if slices & taken:
        raise refuse(
            f"{path}.start",
            start,
            f"puts {profile.name} onto memory slice {min(slices & taken)}, which another instance has",
            "choose another start",
        )
    taken |= slices


def _fit(numbers: Sequence[int], wanted: Sequence[MigProfile], taken: frozenset[int]) -> Optional[dict[int, int]]:
    """Starts for the instances of these numbers, or None; a GPU has few enough places to try them all."""
    if not numbers:
        return {}
    number, rest = numbers[0], numbers[1:]
    for start in wanted[number].placements:
        slices = frozenset(range(start, start + wanted[number].memory_slices))
        if not slices & taken:
            found = _fit(rest, wanted, taken | slices)
            if found is not None:
                return {number: start, **found}
    return None
