# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a pool gets from the slices that are there to those that should be, without ever being wrong. Private to the collection.

The scheduler looks at the newest generation of a pool only, and allocates from it only when it has as many slices as it says. So one
slice that differs is updated in place; everything else becomes a new generation, made whole before the old one is deleted. A run that
was cut short left a part of a generation: the next one completes it, or makes a newer one.
Pure: no clock, no network.
"""

from __future__ import annotations

from collections import Counter
from typing import Container, NamedTuple, Optional, Sequence

CREATE, UPDATE, TOUCH, DELETE = "create", "update", "touch", "delete"

# metadata.name of an object.
_NAME_LIMIT = 253


class Wanted(NamedTuple):
    """A slice that should be there: its name, and a digest of its content, which is of no interest while the pool is empty."""

    base: str
    content: str
    # spec.nodeName, which cannot be changed on a slice that is there.
    node: str = ""


class Present(NamedTuple):
    """A slice of ours that is there."""

    name: str
    base: str
    content: str
    generation: int
    # Its labels, annotations and owner are as they should be.
    tidy: bool = True
    node: str = ""


class Step(NamedTuple):
    """One write; `wanted` and `present` are positions in what was planned from."""

    action: str
    name: str
    wanted: Optional[int] = None
    present: Optional[int] = None


class PoolPlan(NamedTuple):
    """First the steps that make the pool whole, then those that clean up; `generation` is that of the pool afterwards."""

    generation: int
    writes: tuple[Step, ...]
    deletes: tuple[Step, ...]
    reason: str

    @property
    def changed(self) -> bool:
        return bool(self.writes or self.deletes)


def plan_pool(
    wanted: Sequence[Wanted],
    present: Sequence[Present],
    first_generation: int = 1,
    taken: Container[str] = (),
) -> PoolPlan:
    """The steps for one pool; `taken` are names of other objects, which a new slice cannot have."""
    if not wanted:
        deletes = tuple(Step(DELETE, slice_.name, None, at) for at, slice_ in enumerate(present))
        return PoolPlan(0, (), deletes, "the pool is to go" if deletes else "")
    newest = max((slice_.generation for slice_ in present), default=0)
    current = [at for at, slice_ in enumerate(present) if slice_.generation == newest]
    stale = [at for at, slice_ in enumerate(present) if slice_.generation != newest]
    matched, missing, extra = _match(wanted, present, current)
    names = {slice_.name for slice_ in present}

    if not current:
        return PoolPlan(
            first_generation, _create(wanted, range(len(wanted)), first_generation, names, taken), (), "new"
        )
    touches = tuple(Step(TOUCH, present[there].name, want, there) for want, there in matched if not present[there].tidy)
    if len(missing) == 1 and len(extra) == 1 and wanted[missing[0]].node == present[extra[0]].node:
        update = Step(UPDATE, present[extra[0]].name, missing[0], extra[0])
        return PoolPlan(newest, (update, *touches), _delete(present, stale), "one slice differs")
    if not missing:
        reason = "" if not extra and not stale else "slices of an older generation are left over"
        if touches and not reason:
            reason = "labels, annotations or owners differ"
        return PoolPlan(newest, touches, _delete(present, [*stale, *extra]), reason)
    if not extra:
        creates = _create(wanted, missing, newest, names, taken)
        return PoolPlan(
            newest, (*creates, *touches), _delete(present, stale), "slices of the newest generation are missing"
        )
    generation = newest + 1
    creates = _create(wanted, range(len(wanted)), generation, names, taken)
    return PoolPlan(
        generation, creates, _delete(present, range(len(present))), "several slices differ: a new generation"
    )


def _match(
    wanted: Sequence[Wanted], present: Sequence[Present], current: Sequence[int]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Pairs that say the same, what is missing, and what is too much; a slice of the same name is the first choice."""
    free: dict[str, list[int]] = {}
    for at in sorted(current, key=lambda at: present[at].name, reverse=True):
        free.setdefault(present[at].content, []).append(at)
    matched: list[tuple[int, int]] = []
    missing: list[int] = []
    for want, slice_ in enumerate(wanted):
        candidates = free.get(slice_.content)
        if not candidates:
            missing.append(want)
            continue
        same = [at for at in candidates if present[at].base == slice_.base]
        chosen = same[-1] if same else candidates[-1]
        candidates.remove(chosen)
        matched.append((want, chosen))
    extra = sorted(at for candidates in free.values() for at in candidates)
    return matched, missing, extra


def _create(
    wanted: Sequence[Wanted], which: Sequence[int], generation: int, names: set[str], taken: Container[str]
) -> tuple[Step, ...]:
    used = set(names)
    steps = []
    for want in which:
        name = slice_name(wanted[want].base, generation, used, taken)
        used.add(name)
        steps.append(Step(CREATE, name, want, None))
    return tuple(steps)


def slice_name(base: str, generation: int, used: Container[str], taken: Container[str] = ()) -> str:
    """The slice's own name where it is free, else with the generation; both begin alike, as the scheduler goes by names."""
    name, number = base, generation
    while name in used or name in taken:
        suffix = f"-g{number}"
        name = base[: _NAME_LIMIT - len(suffix)].rstrip("-.") + suffix
        number += 1
    return name


def _delete(present: Sequence[Present], which: Sequence[int]) -> tuple[Step, ...]:
    return tuple(Step(DELETE, present[at].name, None, at) for at in which)


def complete(generations: Sequence[tuple[int, int]]) -> bool:
    """Whether slices, as (generation, count) each, make a pool that the scheduler takes: its newest generation is whole."""
    if not generations:
        return False
    newest = max(generation for generation, _count in generations)
    counts = Counter(count for generation, count in generations if generation == newest)
    return len(counts) == 1 and next(iter(counts.items())) == (sum(counts.values()),) * 2
