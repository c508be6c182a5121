# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for pools: by table, and for thousands of pools that chance makes, step by step as a scheduler would see it."""

from __future__ import annotations

import random

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.pools import (
    CREATE,
    DELETE,
    TOUCH,
    UPDATE,
    Present,
    Wanted,
    complete,
    plan_pool,
    slice_name,
)


def want(*contents):
    return [Wanted(f"s{number}", f"{content}/{len(contents)}") for number, content in enumerate(contents)]


def have(generation, *contents, count=None, prefix="", tidy=True):
    count = len(contents) if count is None else count
    return [
        Present(f"{prefix}s{number}", f"s{number}", f"{content}/{count}", generation, tidy)
        for number, content in enumerate(contents)
        if content
    ]


def steps(plan):
    return [(step.action, step.name) for step in (*plan.writes, *plan.deletes)]


@pytest.mark.parametrize(
    ("wanted", "present", "expected", "generation"),
    [
        # Nothing there, nothing to do, nothing wanted.
        (want("a"), [], [(CREATE, "s0")], 1),
        (want("a", "b"), [], [(CREATE, "s0"), (CREATE, "s1")], 1),
        (want("a", "b"), have(4, "a", "b"), [], 4),
        ([], have(2, "a", "b"), [(DELETE, "s0"), (DELETE, "s1")], 0),
        ([], [], [], 0),
        # One slice differs: in place, in pools of one and of several slices.
        (want("a"), have(1, "x"), [(UPDATE, "s0")], 1),
        (want("a", "b", "c"), have(3, "a", "x", "c"), [(UPDATE, "s1")], 3),
        # A wrong count of slices in a pool of one is that as well.
        (want("a"), have(1, "a", count=2), [(UPDATE, "s0")], 1),
        # Two differ, or there are to be more or fewer: a new generation, and the old one goes afterwards.
        (want("a", "b"), have(1, "x", "y"), [(CREATE, "s0-g2"), (CREATE, "s1-g2"), (DELETE, "s0"), (DELETE, "s1")], 2),
        (want("a", "b"), have(1, "a"), [(CREATE, "s0-g2"), (CREATE, "s1"), (DELETE, "s0")], 2),
        (want("a"), have(6, "a", "b"), [(CREATE, "s0-g7"), (DELETE, "s0"), (DELETE, "s1")], 7),
        # A slice was deleted by somebody: only that one comes back.
        (want("a", "b"), have(5, "a", None, count=2), [(CREATE, "s1")], 5),
        # An earlier run ended while it made generation 2: it is completed, then generation 1 goes.
        (
            want("a", "b"),
            [*have(1, "x", "y"), *have(2, "a", None, count=2, prefix="g2-")],
            [(CREATE, "s1-g2"), (DELETE, "s0"), (DELETE, "s1")],
            2,
        ),
        # It ended while it deleted generation 1.
        (want("a", "b"), [*have(1, None, "y"), *have(2, "a", "b", prefix="g2-")], [(DELETE, "s1")], 2),
        # What the earlier run began is no longer wanted.
        (
            want("m", "n"),
            [*have(1, "x", "y"), *have(2, "a", None, count=2, prefix="g2-")],
            [(CREATE, "s0-g3"), (CREATE, "s1-g3"), (DELETE, "s0"), (DELETE, "s1"), (DELETE, "g2-s0")],
            3,
        ),
        # A slice too many, of the newest generation.
        (want("a"), [*have(1, "a"), Present("twin", "s0", "a/1", 1)], [(DELETE, "twin")], 1),
        # What cannot be changed in place becomes a new generation.
        (
            [Wanted("s0", "b/1", "node-b")],
            [Present("s0", "s0", "a/1", 1, True, "node-a")],
            [(CREATE, "s0-g2"), (DELETE, "s0")],
            2,
        ),
        # Labels are no content: they are repaired in place.
        (want("a", "b"), have(1, "a", "b", tidy=False), [(TOUCH, "s0"), (TOUCH, "s1")], 1),
        # The same content under another name is the same slice.
        (want("a", "b"), [Present("q", "q", "b/2", 1), Present("p", "p", "a/2", 1)], [], 1),
    ],
)
def test_plans(wanted, present, expected, generation):
    plan = plan_pool(wanted, present)
    assert steps(plan) == expected
    assert plan.generation == generation
    assert bool(plan.reason) == bool(expected)


def test_names_that_others_have_are_not_taken():
    plan = plan_pool(want("a"), [], taken=frozenset({"s0", "s0-g1"}))
    assert steps(plan) == [(CREATE, "s0-g2")]


def test_a_long_name_stays_a_name():
    base = "n" * 253
    name = slice_name(base, 12, {base})
    assert len(name) <= 253
    assert name.endswith("n-g12")


def carry_out(plan, wanted, present, until):
    """The slices after so many steps."""
    there = {slice_.name: slice_ for slice_ in present}
    for step in [*plan.writes, *plan.deletes][:until]:
        if step.action == DELETE:
            del there[step.name]
        elif step.action == CREATE:
            assert step.name not in there
            there[step.name] = Present(
                step.name, wanted[step.wanted].base, wanted[step.wanted].content, plan.generation
            )
        else:
            old = present[step.present]
            assert there[step.name] == old
            there[step.name] = old._replace(content=wanted[step.wanted].content, tidy=True)
    return list(there.values())


def generations(slices):
    return [(slice_.generation, int(slice_.content.rpartition("/")[2])) for slice_ in slices]


def newest(slices):
    top = max((slice_.generation for slice_ in slices), default=0)
    return sorted(slice_.content for slice_ in slices if slice_.generation == top)


def chance_pool(chance):
    """Slices of up to three generations, whole, in part or with a wrong count, as runs that were cut short leave them."""
    present = []
    for generation in chance.sample(range(1, 9), chance.randint(0, 3)):
        size = chance.randint(1, 4)
        count = size if chance.random() < 0.8 else chance.randint(1, 5)
        for number in range(size):
            if chance.random() < 0.85:
                name = f"s{number}-g{generation}" if chance.random() < 0.9 else f"x{generation}-{number}"
                content = f"{chance.choice('abc')}{number}/{count}"
                present.append(Present(name, f"s{number}", content, generation, chance.random() < 0.9))
    return present


@pytest.mark.parametrize("seed", range(40))
def test_every_pool_ends_as_wanted_and_a_second_plan_is_empty(seed):
    chance = random.Random(seed)
    for _round in range(100):
        present = chance_pool(chance)
        size = chance.randint(0, 4)
        wanted = [Wanted(f"s{number}", f"{chance.choice('abc')}{number}/{size}") for number in range(size)]
        plan = plan_pool(wanted, present)
        total = len(plan.writes) + len(plan.deletes)
        after = carry_out(plan, wanted, present, total)
        assert newest(after) == sorted(slice_.content for slice_ in wanted)
        assert len(after) == len(wanted)
        assert plan_pool(wanted, after).changed is False
        assert complete(generations(after)) or not wanted


@pytest.mark.parametrize("seed", range(40))
def test_whenever_a_run_is_cut_short_the_next_one_repairs(seed):
    chance = random.Random(1000 + seed)
    for _round in range(40):
        present = chance_pool(chance)
        size = chance.randint(1, 4)
        wanted = [Wanted(f"s{number}", f"{chance.choice('abc')}{number}/{size}") for number in range(size)]
        plan = plan_pool(wanted, present)
        total = len(plan.writes) + len(plan.deletes)
        for until in range(total + 1):
            middle = carry_out(plan, wanted, present, until)
            again = plan_pool(wanted, middle)
            after = carry_out(again, wanted, middle, len(again.writes) + len(again.deletes))
            assert newest(after) == sorted(slice_.content for slice_ in wanted)
            assert len(after) == len(wanted)


@pytest.mark.parametrize("seed", range(40))
def test_a_pool_that_was_whole_is_only_incomplete_while_a_new_generation_is_made(seed):
    """From its first new slice to its last, and never while the old generation goes."""
    chance = random.Random(2000 + seed)
    for _round in range(40):
        size = chance.randint(1, 4)
        present = have(chance.randint(1, 5), *(chance.choice("abc") for _place in range(size)))
        length = chance.randint(1, 4)
        wanted = want(*(chance.choice("abc") for _place in range(length)))
        plan = plan_pool(wanted, present)
        creates = [step for step in plan.writes if step.action == CREATE]
        for until in range(len(plan.writes) + len(plan.deletes) + 1):
            whole = complete(generations(carry_out(plan, wanted, present, until)))
            assert whole == (until == 0 or until >= len(creates))
        if len(creates) == 0:
            assert len([step for step in plan.writes if step.action == UPDATE]) <= 1


@pytest.mark.parametrize(
    ("slices", "whole"),
    [
        ([], False),
        ([(1, 1)], True),
        ([(1, 2)], False),
        ([(1, 2), (1, 2)], True),
        ([(1, 1), (2, 2)], False),
        ([(1, 1), (2, 1)], True),
        # kubernetes/kubernetes#141117: slices of one pool that count differently.
        ([(1, 1), (1, 2)], False),
        ([(1, 1), (1, 1)], False),
    ],
)
def test_completeness(slices, whole):
    assert complete(slices) is whole
    assert complete(slices[::-1]) is whole
