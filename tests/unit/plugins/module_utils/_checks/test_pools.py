# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools that a scheduler can use, and pools that are wrong in one way each."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pools import facts_of, problems_of


def problems(world: Any) -> list[tuple[str, str]]:
    return [tuple(problem) for problem in problems_of([facts_of(slice_) for slice_ in world.slices])]


def right(world: Any) -> None:
    world.slice([world.gpu(0)], count=2)
    world.slice([world.gpu(1)], count=2)


def wrong_count(world: Any) -> None:
    world.slice([world.gpu(0)], count=3)
    world.slice([world.gpu(1)], count=3)


def unequal_counts(world: Any) -> None:
    world.slice([world.gpu(0)], count=1)
    world.slice([world.gpu(1)], count=2)


def stale(world: Any) -> None:
    world.slice([world.gpu(0)], generation=1)
    world.slice([world.gpu(0)], generation=3)


def half_new(world: Any) -> None:
    world.slice([world.gpu(0)], generation=1)
    world.slice([world.gpu(0)], generation=2, count=2)


def duplicate(world: Any) -> None:
    world.slice([world.gpu(0)], count=2)
    world.slice([world.gpu(0)], count=2)


def undefined_set(world: Any) -> None:
    used = [{"counterSet": "gpu-0-counter-set", "counters": {"memory": {"value": "1Gi"}}}]
    world.slice([{"name": "gpu-0", "consumesCounters": used}])


def overlap(world: Any) -> None:
    world.slice([world.mig("a", "GPU-0", [0, 1]), world.mig("b", "GPU-0", [1, 2])])


def side_by_side(world: Any) -> None:
    world.slice([world.mig("a", "GPU-0", [0, 1]), world.mig("b", "GPU-0", [2, 3]), world.mig("c", "GPU-1", [0, 1])])


@pytest.mark.parametrize(
    ("make", "kinds", "words"),
    [
        (right, [], ""),
        (side_by_side, [], ""),
        (wrong_count, ["incomplete"], "generation 1 has 2 slices, but resourceSliceCount says 3"),
        (unequal_counts, ["incomplete"], "says 1 and 2"),
        (stale, ["stale"], "1 stale slice of generation 1 beside 3: gpu.nvidia.com-n1-0"),
        (half_new, ["incomplete", "stale"], "generation 2 has 1 slice, but resourceSliceCount says 2"),
        (duplicate, ["duplicate"], "device names are there twice, which makes the whole pool invalid: gpu-0"),
        (undefined_set, ["counters"], "counter sets that no slice defines: gpu-0-counter-set (by gpu-0)"),
        (overlap, ["overlap"], "a and b both have memory slice 1 of GPU-0"),
    ],
)
def test_each_fault_of_a_pool_is_told(world, make, kinds, words):
    make(world)
    found = problems(world)
    assert [kind for kind, _words in found] == kinds
    assert words in "".join(text for _kind, text in found[:1])


def test_a_slice_without_devices_is_a_slice():
    """A100 with DynamicMIG and MIG off has such a one first."""
    empty = {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}}}
    assert problems_of([facts_of(empty)]) == []
