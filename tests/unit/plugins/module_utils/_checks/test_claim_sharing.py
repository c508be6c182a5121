# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices, shares and counters that two claims cannot both have."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.claim_sharing import shared_checks


def found(world: Any) -> dict[str, tuple[str, str]]:
    view = world.view()
    return {
        check.name: (check.status, check.reason) for check in shared_checks(world.subject, "c", view, view.claims[0])
    }


def partition(name: str, memory: str, counter_set: str = "gpu-0-counter-set") -> dict[str, Any]:
    return {"name": name, "consumesCounters": [{"counterSet": counter_set, "counters": {"memory": {"value": memory}}}]}


def counters(memory: str) -> list[dict[str, Any]]:
    return [{"name": "gpu-0-counter-set", "counters": {"memory": {"value": memory}}}]


def combined(world: Any, memory: str, devices: list[dict[str, Any]]) -> None:
    """Until 1.34: counters and devices in one slice."""
    world.slice(devices, sharedCounters=counters(memory))


def split(world: Any, memory: str, devices: list[dict[str, Any]]) -> None:
    """Since 1.35: counters in a slice of their own."""
    world.slice([], count=2, sharedCounters=counters(memory))
    world.slice(devices, count=2)


@pytest.mark.parametrize("layout", [combined, split])
@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("40Gi", ""),
        ("39Gi", "counter memory of gpu-0-counter-set (pool n1) is over-committed: 42949672960 used of 41875931136"),
    ],
)
def test_counters_of_both_layouts(world, layout, there, words):
    layout(world, there, [partition("a", "20Gi"), partition("b", "20480Mi"), partition("c", "20Gi")])
    world.claim("c", given=["gpu=a"])
    world.claim("d", given=["gpu=b"])
    status, reason = found(world)["claim.counters"]
    assert (status == "failed", words in reason) == (bool(words), True)


def test_counters_that_a_republished_pool_no_longer_has_room_for(world):
    """The driver changes what an allocated device consumes: each claim was right when it was made."""
    combined(world, "40Gi", [partition("a", "20Gi"), partition("b", "20Gi")])
    world.claim("c", given=["gpu=a"])
    world.claim("d", given=["gpu=b"])
    assert found(world)["claim.counters"][0] == "passed"
    world.slices[0]["spec"]["devices"][1] = partition("b", "30Gi")
    assert found(world)["claim.counters"][0] == "failed"


def test_a_shared_device_counts_once(world):
    combined(world, "40Gi", [{**partition("a", "40Gi"), "allowMultipleAllocations": True}])
    for name in ("c", "d"):
        world.claim(name, given=["gpu=a"])["status"]["allocation"]["devices"]["results"][0]["shareID"] = name
    assert {name: status for name, (status, _reason) in found(world).items()} == {
        "claim.exclusive": "passed",
        "claim.counters": "passed",
    }


def test_an_undefined_counter_set_is_told(world):
    combined(world, "40Gi", [partition("a", "20Gi", "no-such-set")])
    world.claim("c", given=["gpu=a"])
    assert found(world)["claim.counters"] == (
        "failed",
        "counter memory of no-such-set (pool n1) is used and not defined",
    )


def test_devices_without_counters_have_no_such_check(pair):
    assert set(found(pair)) == {"claim.exclusive"}


def test_an_administrator_may_look_at_what_others_have(pair):
    other = pair.claim("admin", given=["gpu=gpu-0"])
    assert found(pair)["claim.exclusive"][0] == "failed"
    other["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert found(pair)["claim.exclusive"][0] == "passed"


@pytest.mark.parametrize(
    ("shares", "amounts", "words"),
    [
        (("x", "y"), ("40Gi", "39Gi"), ""),
        (("x", "y"), ("40Gi", "40Gi"), "85899345920 of memory is given, there is 81559Mi"),
        (("x", "x"), ("1Gi", "1Gi"), "one share of gpu-0 of n1 (gpu.nvidia.com) is given 2 times"),
    ],
)
def test_shares_of_a_device(world, shares, amounts, words):
    world.slice([{**world.gpu(0), "allowMultipleAllocations": True}])
    for name, share, amount in zip(("c", "d"), shares, amounts):
        entry = world.claim(name, given=["gpu=gpu-0"])["status"]["allocation"]["devices"]["results"][0]
        entry.update(shareID=share, consumedCapacity={"memory": amount})
    status, reason = found(world)["claim.exclusive"]
    assert (status == "failed", words in reason) == (bool(words), True)


def administrate(claim: dict[str, Any]) -> None:
    claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True


def test_an_administrator_uses_no_counters(world):
    """For the scheduler a device that only an administrator looks at is not allocated."""
    combined(world, "40Gi", [partition("a", "40Gi"), partition("b", "20Gi")])
    world.claim("c", given=["gpu=a"])
    other = world.claim("admin", given=["gpu=b"])
    assert found(world)["claim.counters"][0] == "failed"
    administrate(other)
    assert found(world)["claim.counters"][0] == "passed"


def test_a_gpu_and_a_part_of_it_are_the_same_hardware(world):
    """Some releases announce whole GPUs beside their MIG devices: whoever gets both has one thing twice."""
    world.slice([world.gpu(0), world.mig("gpu-0-mig-1g10gb-19-0", "GPU-0", [0])])
    world.claim("c", given=["mig=gpu-0-mig-1g10gb-19-0"])
    assert found(world)["claim.exclusive"][0] == "passed"
    whole = world.claim("whole", given=["gpu=gpu-0"])
    status, reason = found(world)["claim.exclusive"]
    assert status == "failed"
    assert "gpu-0-mig-1g10gb-19-0 is a part of gpu-0 of n1, which team/whole (request gpu) has as a whole" in reason
    world.claims.reverse()
    status, reason = found(world)["claim.exclusive"]
    assert status == "failed"
    assert reason == "gpu-0 has gpu-0-mig-1g10gb-19-0 of n1 as a part, which team/c (request mig) has"
    administrate(whole)
    assert found(world)["claim.exclusive"][0] == "passed"
    world.claims.reverse()
    assert found(world)["claim.exclusive"][0] == "passed"


@pytest.mark.parametrize(
    ("parent", "occupied", "words"),
    [
        ("GPU-0", [1, 2], "m and n of n1, which team/d (request mig) has, both have memory slice 1 of GPU-0"),
        ("GPU-0", [2, 3], ""),
        ("GPU-1", [1, 2], ""),
    ],
)
def test_mig_devices_that_overlap_are_the_same_hardware(world, parent, occupied, words):
    world.slice([world.mig("m", "GPU-0", [0, 1]), world.mig("n", parent, occupied)])
    world.claim("c", given=["mig=m"])
    assert found(world)["claim.exclusive"][0] == "passed"
    world.claim("d", given=["mig=n"])
    assert found(world)["claim.exclusive"] == (
        ("failed", words) if words else ("passed", "no other claim has one of its devices")
    )


def test_hardware_of_another_node_is_another(world):
    """Nodes that replay one recording as it is have the same UUIDs."""
    world.slice([world.gpu(0)])
    world.slice([world.mig("m", "GPU-0", [0])], node="n2")
    world.claim("c", given=["mig=m@n2"])
    world.claim("whole", given=["gpu=gpu-0"])
    assert found(world)["claim.exclusive"][0] == "passed"
