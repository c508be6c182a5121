# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=dangerous-default-value  # constants that nobody writes to
"""From what is and what should be to steps: the whole decision, without a server."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import Instance
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.compare import compare, size_bytes, updated
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.gpu_devices import GpuDevice
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import CONTAINER, VIRTUAL_MACHINE
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.plan import create_body, make_plan
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.spec import InstanceSpec

A, B = "0000:41:00.0", "0000:81:00.0"
OURS = {"user.gpulab.fleet": "lxd_gpu_vm"}


def gpu(address):
    return GpuDevice(address, {"type": "gpu", "gputype": "physical", "pci": address}, {})


def spec(state="started", kind=VIRTUAL_MACHINE, **fields):
    return InstanceSpec("v1", kind, state, "lxd_gpu_vm", **fields)


def instance(status="Stopped", kind=VIRTUAL_MACHINE, config=OURS, devices=None, profiles=("default",), expanded=None):
    data = {
        "name": "v1",
        "type": kind,
        "status": status,
        "config": dict(config),
        "devices": devices or {},
        "profiles": list(profiles),
        "expanded_config": {**config, **(expanded or {})},
        "expanded_devices": devices or {},
        "architecture": "x86_64",
    }
    return Instance(data, "etag")


def has(name):
    return True


@pytest.mark.parametrize(
    ("state", "observed", "steps"),
    [
        ("present", None, ("create",)),
        ("started", None, ("create", "start")),
        ("restarted", None, ("create", "start")),
        ("stopped", None, ("create",)),
        ("absent", None, ()),
        ("present", "Stopped", ()),
        ("present", "Running", ()),
        ("started", "Stopped", ("start",)),
        ("started", "Running", ()),
        ("started", "Frozen", ("unfreeze",)),
        ("started", "Error", ("stop", "start")),
        ("present", "Error", ()),
        ("stopped", "Stopped", ()),
        ("stopped", "Running", ("stop",)),
        ("stopped", "Error", ("stop",)),
        ("restarted", "Stopped", ("start",)),
        ("restarted", "Running", ("stop", "start")),
        ("absent", "Stopped", ("delete",)),
        ("absent", "Running", ("stop", "delete")),
        ("absent", "Error", ("stop", "delete")),
    ],
)
def test_steps_without_differences(state, observed, steps):
    plan = make_plan(spec(state), None if observed is None else instance(observed), has)
    assert plan.steps == steps
    assert plan.changed is bool(steps)
    # What the module reports as changed and what it shows as a difference never part.
    assert bool(plan.diff["after"]) is bool(steps)
    assert plan.pending == ()


@pytest.mark.parametrize(
    ("state", "status", "allow_restart", "key", "steps", "pending"),
    [
        ("present", "Stopped", False, "limits.memory", ("update",), []),
        ("started", "Stopped", False, "limits.memory", ("update", "start"), []),
        ("started", "Running", False, "user.x", ("update",), []),
        ("started", "Running", False, "limits.memory", (), ["config.limits.memory"]),
        ("present", "Running", False, "raw.qemu", (), ["config.raw.qemu"]),
        ("started", "Running", True, "limits.memory", ("stop", "update", "start"), []),
        ("present", "Running", True, "limits.memory", ("stop", "update", "start"), []),
        ("started", "Running", True, "user.x", ("update",), []),
        ("stopped", "Running", False, "limits.memory", ("stop", "update"), []),
        ("restarted", "Running", False, "limits.memory", ("stop", "update", "start"), []),
        ("started", "Frozen", False, "user.x", ("update", "unfreeze"), []),
    ],
)
def test_steps_with_one_difference(state, status, allow_restart, key, steps, pending):
    plan = make_plan(spec(state, config={key: "2GiB"}, allow_restart=allow_restart), instance(status), has)
    assert plan.steps == steps
    assert [change.path for change in plan.pending] == pending
    assert plan.restart_required is bool(pending)
    assert plan.changed is bool(steps)


def test_hot_changes_are_made_while_cold_ones_wait():
    plan = make_plan(spec(config={"user.x": "1", "raw.qemu": "-x"}), instance("Running"), has)
    assert plan.steps == ("update",)
    assert [change.path for change in plan.changes] == ["config.user.x"]
    assert [change.path for change in plan.pending] == ["config.raw.qemu"]
    assert plan.diff == {"before": {"config.user.x": None}, "after": {"config.user.x": "1"}}


@pytest.mark.parametrize(
    ("kind", "key", "before", "after", "cold"),
    [
        (VIRTUAL_MACHINE, "limits.cpu", "2", "4", False),
        (VIRTUAL_MACHINE, "limits.cpu", None, "4", False),
        (VIRTUAL_MACHINE, "limits.cpu", "0-1", "4", True),
        (VIRTUAL_MACHINE, "limits.cpu", "2", "0-3", True),
        (VIRTUAL_MACHINE, "limits.memory", "1GiB", "2GiB", True),
        (VIRTUAL_MACHINE, "boot.mode", None, "uefi-nosecureboot", True),
        (VIRTUAL_MACHINE, "security.secureboot", None, "false", True),
        (VIRTUAL_MACHINE, "boot.autostart", None, "true", False),
        (VIRTUAL_MACHINE, "cloud-init.user-data", None, "#", False),
        (VIRTUAL_MACHINE, "limits.memory.hugepages", None, "true", True),
        (CONTAINER, "limits.memory", None, "2GiB", False),
        (CONTAINER, "limits.cpu", None, "0-3", False),
        (CONTAINER, "nvidia.runtime", None, "true", True),
        (CONTAINER, "security.nesting", None, "true", True),
        (CONTAINER, "raw.lxc", None, "x", True),
    ],
)
def test_which_keys_need_a_stop(kind, key, before, after, cold):
    config = {**OURS, **({key: before} if before else {})}
    (change,) = compare(spec(kind=kind, config={key: after}), instance("Running", kind, config), has)
    assert change.cold is cold


def test_without_cpu_hotplug_a_count_needs_a_stop():
    (change,) = compare(spec(config={"limits.cpu": "4"}), instance("Running"), lambda name: name != "cpu_hotplug")
    assert change.cold


@pytest.mark.parametrize(
    ("key", "existing", "wanted", "same"),
    [
        ("raw.qemu", "-global a.b=1", " -global   a.b=1 ", True),
        ("raw.qemu", "-global 'a.b=1'", "-global a.b=1", True),
        ("raw.qemu", "-global a.b=1", "-global a.b=2", False),
        ("raw.qemu", "-a -b", "-b -a", False),
        ("limits.memory", "8GiB", "8192MiB", True),
        ("limits.memory", "8192MB", "8192MiB", False),
        ("limits.memory", "50%", "8192MiB", False),
        ("limits.cpu", "4", "4", True),
        ("user.gone", None, None, True),
        ("volatile.uuid", "x", "y", True),
    ],
)
def test_values_that_mean_the_same_are_no_difference(key, existing, wanted, same):
    config = {**OURS, **({key: existing} if existing else {})}
    assert (compare(spec(config={key: wanted}), instance(config=config), has) == []) is same


def test_a_value_that_a_profile_gives_already_does_not_need_a_stop():
    observed = instance("Running", expanded={"limits.memory": "8GiB"})
    (change,) = compare(spec(config={"limits.memory": "8192MiB"}), observed, has)
    assert not change.cold


def test_removal_of_keys_and_devices():
    observed = instance(config={**OURS, "user.x": "1"}, devices={"eth1": {"type": "nic"}})
    changes = compare(
        spec(config={"user.x": None, "user.y": None}, devices={"eth1": None, "eth9": None}), observed, has
    )
    assert [(change.path, change.after) for change in changes] == [("config.user.x", None), ("devices.eth1", None)]
    body = updated(observed, changes)
    assert body["config"] == OURS
    assert body["devices"] == {}


@pytest.mark.parametrize(
    ("existing", "wanted", "after"),
    [
        ({}, [A], {"gpu0": A}),
        ({}, [B, A], {"gpu0": B, "gpu1": A}),
        ({"gpu0": A}, [A], {}),
        ({"gpu0": A, "gpu1": B}, [B, A], {}),
        ({"mine": A}, [A], {}),
        ({"mine": A}, [A, B], {"gpu0": B}),
        ({"gpu0": A}, [B], {"gpu0": B}),
        ({"gpu0": A, "gpu1": B}, [B], {"gpu0": None}),
        ({"gpu0": A}, [], {"gpu0": None}),
        ({}, [], {}),
        ({"gpu0": A}, None, {}),
    ],
)
def test_gpus_are_a_set_and_keep_their_names(existing, wanted, after):
    devices = {name: {"type": "gpu", "pci": address} for name, address in existing.items()}
    gpus = None if wanted is None else tuple(gpu(address) for address in wanted)
    changes = compare(spec(gpus=gpus), instance(devices=devices), has)
    assert {change.name: change.after and change.after["pci"] for change in changes} == after
    assert all(change.cold for change in changes)


def test_plain_pci_devices_are_ruled_only_under_names_of_ours():
    devices = {"gpu0": {"type": "pci", "address": A}, "nvme": {"type": "pci", "address": "0000:01:00.0"}}
    changes = compare(spec(gpus=()), instance(devices=devices), has)
    assert [change.path for change in changes] == ["devices.gpu0"]


def test_gpus_of_containers_are_hot_except_cdi_where_lxd_cannot():
    running = instance("Running", CONTAINER)
    cdi = GpuDevice(A, {"type": "gpu", "id": "nvidia.com/gpu=GPU-1"}, {})
    cases = [((gpu(A),), has, False), ((cdi,), has, False), ((cdi,), lambda name: name != "gpu_cdi_hotplug", True)]
    for gpus, extensions, cold in cases:
        (change,) = compare(spec(kind=CONTAINER, gpus=gpus), running, extensions)
        assert change.cold is cold


def test_one_request_makes_the_whole_instance():
    made = create_body(
        spec(config={"limits.cpu": "2", "user.gone": None}, gpus=(gpu(A), gpu(B)), profiles=("default", "p")),
        {"type": "image"},
    )
    assert made == {
        "name": "v1",
        "type": "virtual-machine",
        "config": {"limits.cpu": "2", **OURS},
        "devices": {
            "gpu0": {"type": "gpu", "gputype": "physical", "pci": A},
            "gpu1": {"type": "gpu", "gputype": "physical", "pci": B},
        },
        "profiles": ["default", "p"],
        "source": {"type": "image"},
    }
    assert "profiles" not in create_body(spec())


def test_what_create_makes_is_no_difference_afterwards():
    wanted = spec(
        config={"limits.memory": "8192MiB", "raw.qemu": "-x"}, gpus=(gpu(A),), devices={"d": {"type": "disk"}}
    )
    body = create_body(wanted)
    assert (
        compare(wanted, instance(config={**body["config"], "volatile.uuid": "x"}, devices=body["devices"]), has) == []
    )


def test_update_keeps_everything_else():
    observed = instance(
        config={**OURS, "volatile.uuid": "u", "user.mine": "1"}, devices={"d": {"type": "disk"}}, profiles=("p",)
    )
    body = updated(observed, compare(spec(config={"user.x": "1"}, profiles=("p", "q")), observed, has))
    assert body["config"] == {**OURS, "volatile.uuid": "u", "user.mine": "1", "user.x": "1"}
    assert body["devices"] == {"d": {"type": "disk"}}
    assert body["profiles"] == ["p", "q"]
    assert body["architecture"] == "x86_64"


def test_an_instance_of_somebody_else_is_not_deleted_unless_told_to():
    foreign = instance(config={})
    with pytest.raises(FleetError, match="force_foreign"):
        make_plan(spec("absent"), foreign, has)
    assert make_plan(spec("absent", force_foreign=True), foreign, has).steps == ("delete",)


def test_a_name_that_the_other_kind_has():
    with pytest.raises(FleetError, match="container of that name"):
        make_plan(spec(), instance(kind=CONTAINER), has)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8192MiB", 8 << 30),
        ("8GiB", 8 << 30),
        ("1GB", 10**9),
        ("512", 512),
        ("1kB", 1000),
        ("2TiB", 2 << 40),
        ("50%", None),
        ("8 gigs", None),
    ],
)
def test_sizes(text, size):
    assert size_bytes(text) == size
