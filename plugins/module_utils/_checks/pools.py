# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps the scheduler from using a pool, or lets it give the same hardware to two claims. Private to the collection.

Of each slice only a few facts are kept, so that the pools of thousands of nodes can be judged at once.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

_MEMORY_SLICE = re.compile(r"(?:[^/]*/)?memorySlice(\d+)")
_SHOWN = 5


class SliceFacts(NamedTuple):
    """What the judgement of a pool needs to know of a slice."""

    driver: str
    pool: str
    name: str
    node: str
    generation: int
    declared: int
    devices: tuple[str, ...]
    # Counter sets that it defines, and pairs of a device and a counter set that it consumes from.
    counter_sets: frozenset[str]
    consumes: tuple[tuple[str, str], ...]
    # For MIG devices: the device, its parent, and the memory slices of the parent that it occupies.
    partitions: tuple[tuple[str, str, tuple[int, ...]], ...]


class Problem(NamedTuple):
    """One fault of a pool: a word for its kind, and a sentence."""

    kind: str
    words: str


INCOMPLETE, STALE, DUPLICATE, COUNTERS, OVERLAP = "incomplete", "stale", "duplicate", "counters", "overlap"


def generation_of(slice_: Mapping[str, Any]) -> int:
    """The API has no generation as 0."""
    return int(slice_["spec"]["pool"].get("generation") or 0)


def facts_of(slice_: Mapping[str, Any]) -> SliceFacts:
    """The facts of a slice in the form of resource.k8s.io/v1."""
    spec = slice_["spec"]
    devices = spec.get("devices") or ()
    return SliceFacts(
        driver=sys.intern(str(spec["driver"])),
        pool=str(spec["pool"]["name"]),
        name=str(slice_["metadata"]["name"]),
        node=str(spec.get("nodeName") or ""),
        generation=generation_of(slice_),
        declared=int(spec["pool"].get("resourceSliceCount") or 0),
        # The same few names come back on every node.
        devices=tuple(sys.intern(str(device["name"])) for device in devices),
        counter_sets=frozenset(str(one["name"]) for one in spec.get("sharedCounters") or ()),
        consumes=tuple(
            (str(device["name"]), str(used["counterSet"]))
            for device in devices
            for used in device.get("consumesCounters") or ()
        ),
        partitions=tuple(_partition(device) for device in devices if memory_slices(device)),
    )


def memory_slices(device: Mapping[str, Any]) -> tuple[int, ...]:
    """The memory slices of its GPU that a MIG device occupies."""
    found = (_MEMORY_SLICE.fullmatch(str(name)) for name in device.get("capacity") or ())
    return tuple(sorted(int(match.group(1)) for match in found if match is not None))


def _partition(device: Mapping[str, Any]) -> tuple[str, str, tuple[int, ...]]:
    parent = next(
        (
            str(value.get("string"))
            for name, value in (device.get("attributes") or {}).items()
            if str(name).rpartition("/")[2] == "parentUUID"
        ),
        "",
    )
    return str(device["name"]), parent, memory_slices(device)


def problems_of(slices: Sequence[SliceFacts]) -> list[Problem]:
    """What is wrong with one pool; nothing, when it can be used as it is."""
    newest = max(slice_.generation for slice_ in slices)
    current = [slice_ for slice_ in slices if slice_.generation == newest]
    found: list[Problem] = []
    counts = sorted({slice_.declared for slice_ in current})
    if counts != [len(current)]:
        found.append(
            Problem(
                INCOMPLETE,
                f"generation {newest} has {len(current)} {_slices(len(current))}, but resourceSliceCount says"
                f" {' and '.join(map(str, counts))}: nothing is allocated from an incomplete pool",
            )
        )
    old = sorted(slice_.name for slice_ in slices if slice_.generation != newest)
    if old:
        older = ", ".join(str(number) for number in sorted({s.generation for s in slices if s.generation != newest}))
        found.append(
            Problem(STALE, f"{len(old)} stale {_slices(len(old))} of generation {older} beside {newest}: {_some(old)}")
        )
    names = [name for slice_ in current for name in slice_.devices]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if twice:
        found.append(
            Problem(DUPLICATE, f"device names are there twice, which makes the whole pool invalid: {_some(twice)}")
        )
    defined = {name for slice_ in current for name in slice_.counter_sets}
    missing = sorted({f"{used} (by {device})" for s in current for device, used in s.consumes if used not in defined})
    if missing:
        found.append(Problem(COUNTERS, f"devices consume from counter sets that no slice defines: {_some(missing)}"))
    return found + _overlaps(current)


def _overlaps(current: Iterable[SliceFacts]) -> list[Problem]:
    owner: dict[tuple[str, int], str] = {}
    clashes: list[str] = []
    for slice_ in current:
        for device, parent, occupied in slice_.partitions:
            for number in occupied:
                first = owner.setdefault((parent, number), device)
                if first != device:
                    clashes.append(f"{first} and {device} both have memory slice {number} of {parent or 'one GPU'}")
    return [Problem(OVERLAP, f"MIG devices overlap: {_some(clashes)}")] if clashes else []


def _slices(number: int) -> str:
    return "slice" if number == 1 else "slices"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "; ".join(names[:_SHOWN]) + more
