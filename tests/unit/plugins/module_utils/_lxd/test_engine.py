# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole calls on a host with GPUs: an LXD in memory beside a /sys of files. What must hold is counted at the server."""

from __future__ import annotations

import os
import threading
import time

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.arguments import instance_arguments
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import connect
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.engine import Engine
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import CONTAINER, VIRTUAL_MACHINE

A, B = "0000:41:00.0", "0000:81:00.0"
DEFAULTS = {name: option.get("default") for name, option in instance_arguments().items()}
DEFAULTS.update(hugepages=None, qemu_opts=None, secure_boot=None)


class Host:
    """One host: run the engine on it with a module's parameters."""

    def __init__(self, server, host_gpus, tree):
        self.server = server
        self.host_gpus = host_gpus
        self.tree = tree
        self.warnings = []
        self.said = []

    def call(self, name="v1", check_mode=False, kind=VIRTUAL_MACHINE, **params):
        lxd = connect(str(self.server.socket))
        engine = Engine(lxd, self.host_gpus, kind, "test", self.said.append, self.warnings.append)
        params = {**DEFAULTS, "name": name, "timeout_s": 20, "release_timeout_s": 1, "stop_timeout_s": 2, **params}
        return engine.run(params, check_mode)

    def refused(self, **params):
        before = self.writes()
        with pytest.raises(FleetError) as error:
            self.call(**params)
        assert self.writes() == before, "something was touched"
        return error.value

    def writes(self):
        """Requests that change something; commands in guests and their recorded output are none."""
        return [
            (method, path)
            for method, path, _body in self.server.requests
            if method != "GET" and not path.endswith("/exec") and "/logs/" not in path
        ]


@pytest.fixture
def host(server, host_gpus, tree):
    """Two H100s that LXD sees, an image, and a kernel that gives GPUs to vfio-pci and back as LXD does."""
    server.add_image("vm")
    server.add_image("ct", CONTAINER)
    for address in (A, B):
        server.add_card(address)

    def bind(name):
        for device in server.instances[name]["devices"].values():
            if device.get("type") == "gpu" and server.instances[name]["type"] == VIRTUAL_MACHINE:
                tree.set_driver(device["pci"], "vfio-pci")

    def unbind(name):
        for device in server.instances[name]["devices"].values():
            if device.get("type") == "gpu":
                tree.set_driver(device["pci"], None)

    server.after_start, server.after_stop = bind, unbind
    return Host(server, host_gpus, tree)


VM = {"image": "vm", "gpus": [A], "ram_mb": 2048, "cpus": "2", "secure_boot": False}


def test_one_call_is_one_create_and_one_start(host):
    result = host.call(**VM)
    assert host.server.actions("v1") == ["create", "start"] == result["actions"]
    made = next(body for method, path, body in host.server.requests if (method, path) == ("POST", "/1.0/instances"))
    assert made["devices"] == {"gpu0": {"type": "gpu", "gputype": "physical", "pci": A}}
    assert made["config"] == {
        "limits.memory": "2048MiB",
        "limits.cpu": "2",
        "security.secureboot": "false",
        "user.gpulab.fleet": "test",
    }
    assert (result["changed"], result["gpus"], result["ready"]["ready"]) == (True, [A], True)
    assert result["diff"]["before"]["state"] == "absent"
    assert result["diff"]["after"]["state"] == "running"


@pytest.mark.parametrize("state", ["present", "started", "stopped"])
def test_the_second_run_changes_nothing(host, state):
    params = {
        **VM,
        "state": state,
        "qemu_opts": ["auto", "-global vfio-pci.x-no-mmap=on"],
        "config": {"user.x": True, "user.y": None},
    }
    first = host.call(**params)
    before = host.writes()
    second = host.call(**params)
    assert (first["changed"], second["changed"], second["actions"]) == (True, False, [])
    assert second["diff"] == {"before": {}, "after": {}}
    assert host.writes() == before


def test_check_mode_tells_what_the_real_run_does_and_touches_nothing(host):
    for params in (VM, {**VM, "ram_mb": 4096, "allow_restart": True}, {"state": "stopped"}, {"state": "absent"}):
        before = host.writes()
        foretold = host.call(check_mode=True, **params)
        assert host.writes() == before
        done = host.call(**params)
        assert (foretold["changed"], foretold["actions"], foretold["diff"]) == (
            done["changed"],
            done["actions"],
            done["diff"],
        )
        assert done["changed"]


def test_auto_sizes_the_hole_for_what_is_passed_and_explains_it(host):
    result = host.call(**{**VM, "gpus": [A, B]}, qemu_opts="auto", state="present")
    assert len(result["gpus"]) == 2
    explained = result["qemu_opts_explained"]
    assert explained["inputs"]["ram_bytes"] == 2048 << 20
    assert [slot["name"] for slot in explained["inputs"]["slots"]] == ["0000:41:00", "0000:81:00"]
    tokens = host.server.instances["v1"]["config"].get("raw.qemu", "").split()
    assert tokens == explained["tokens"]


def test_a_users_own_hole_is_never_overridden(host):
    own = "-global q35-pcihost.pci-hole64-size=1024G"
    host.call(**VM, qemu_opts=["auto", own], state="present")
    assert host.server.instances["v1"]["config"]["raw.qemu"] == own


def test_empty_qemu_opts_remove_and_unset_leaves_alone(host):
    host.call(**VM, state="present", qemu_opts=" -no-reboot")
    assert host.call(**VM, state="present")["changed"] is False
    assert host.call(**VM, state="present", qemu_opts="")["changed"] is True
    assert "raw.qemu" not in host.server.instances["v1"]["config"]


def test_secure_boot_by_extension(server, host, fake):
    server.extensions = fake.LXD_6_7
    host.call(**VM, state="present")
    assert host.server.instances["v1"]["config"]["boot.mode"] == "uefi-nosecureboot"


def test_a_change_that_needs_a_stop_waits_for_leave(host):
    host.call(**VM)
    told = host.call(**{**VM, "ram_mb": 4096}, config={"user.x": "1"})
    assert (told["restart_required"], told["pending"], told["changed"]) == (True, ["config.limits.memory"], True)
    assert host.server.instances["v1"]["config"]["limits.memory"] == "2048MiB"
    assert host.server.instances["v1"]["config"]["user.x"] == "1"
    assert any("allow_restart" in text for text in host.warnings)
    again = host.call(**{**VM, "ram_mb": 4096}, config={"user.x": "1"})
    assert (again["restart_required"], again["changed"]) == (True, False)
    done = host.call(**{**VM, "ram_mb": 4096}, allow_restart=True)
    assert (done["actions"], done["restart_required"]) == (["stop", "update", "start"], False)
    assert host.server.actions("v1").count("start") == 2


def test_gpus_are_taken_away_and_added_in_one_update(host):
    host.call(**VM, state="stopped")
    host.call(state="stopped", gpus=[B])
    assert host.server.instances["v1"]["devices"] == {"gpu0": {"type": "gpu", "gputype": "physical", "pci": B}}
    assert host.server.actions("v1") == ["create", "update"]
    host.call(state="stopped", gpus=[])
    assert host.server.instances["v1"]["devices"] == {}


def test_somebody_elses_change_in_between_is_kept(host):
    host.call(**VM, state="stopped")
    host.server.etag_races = 2
    host.call(**VM, state="stopped", config={"user.x": "1"})
    config = host.server.instances["v1"]["config"]
    assert (config["user.x"], config["user.somebody-else"]) == ("1", "0")


def test_stop_gives_the_gpus_back_and_says_so(host):
    host.tree.set_driver(A, "nouveau")
    host.server.after_stop = lambda name: host.tree.set_driver(A, "nouveau")
    host.call(**VM)
    assert os.listdir(host.tree.run_dir) == [f"{A}.json"]
    result = host.call(state="stopped")
    (state,) = result["released"]
    assert (state["address"], state["former_driver"], state["driver"], state["released"]) == (
        A,
        "nouveau",
        "nouveau",
        True,
    )
    assert os.listdir(host.tree.run_dir) == []


def test_a_gpu_that_does_not_come_back_fails_the_stop_in_time(host):
    host.tree.set_driver(A, "nouveau")
    host.call(**VM)
    host.server.after_stop = lambda name: host.tree.set_driver(A, "vfio-pci")
    host.tree.add_process(77, "qemu-system-x86", files=["/dev/vfio/1"])
    began = time.monotonic()
    with pytest.raises(FleetError) as error:
        host.call(state="absent")
    assert time.monotonic() - began < 10
    assert error.value.details["reason"] == "not_released"
    assert "pid 77" in error.value.message
    assert "v1" not in host.server.instances


def test_absent_is_idempotent_and_deletes_a_running_vm(host):
    host.call(**VM)
    assert host.call(state="absent")["actions"] == ["stop", "delete"]
    assert host.call(state="absent")["changed"] is False
    assert host.server.instances == {}


def test_an_instance_of_somebody_else_survives(host):
    host.call(**VM)
    del host.server.instances["v1"]["config"]["user.gpulab.fleet"]
    assert "force_foreign" in host.refused(state="absent").message
    host.call(state="absent", force_foreign=True)
    assert host.server.instances == {}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"name": "a" * 64}, ["name", "64 characters", "shorter"]),
        ({"image": "nonesuch"}, ["image", "'nonesuch'", "lxc image list"]),
        ({"image": None}, ["image is missing"]),
        ({"image": "ct"}, ["image", "container"]),
        ({"gpus": ["0000:99:00.0"]}, ["gpus[0]", "0000:99:00.0", A]),
        ({"gpus": ["41:00"]}, ["gpus[0]", "41:00"]),
        ({"gpus": [600]}, ["gpus[0]", "600"]),
        ({"ram_mb": 10**6}, ["ram_mb is 1000000", "65536", "give less"]),
        ({"cpus": "0-64"}, ["cpus", "0-64", "0 to 3"]),
        ({"hugepages": True}, ["hugepages", "2048 MiB", "0 MiB", "vm.nr_hugepages"]),
        ({"qemu_opts": "-global nonsense"}, ["qemu_opts", "nonsense", "driver.property=value"]),
        ({"profiles": ["default", "nope"]}, ["profiles", "'nope'", "default"]),
        ({"config": {"limits.cpu": "2"}}, ["config.limits.cpu", "cpus"]),
        ({"config": {"migration.stateful": True}}, ["migration.stateful", "null"]),
    ],
)
def test_refusals_come_before_anything_is_touched(host, params, words):
    error = host.refused(**{**VM, **params})
    assert [word for word in words if word not in error.message] == []
    assert host.server.instances == {}
    assert not os.path.exists(host.tree.run_dir) or os.listdir(host.tree.run_dir) == []


def test_a_group_that_is_not_viable_is_refused(host):
    host.tree.add_function("0000:42:00.0", ids="8086:1533", class_code="0x020000", driver="igb", group=1)
    error = host.refused(**VM)
    assert "0000:42:00.0 (igb)" in error.message
    assert error.details["reason"] == "group_not_viable"


def test_a_gpu_that_another_running_instance_has_is_refused(host):
    host.call(**VM)
    error = host.refused(**VM, name="v2")
    assert error.details["used_by"] == "v1"
    host.call(state="stopped")
    host.call(name="v2", **VM)
    # And a stop of the first, whose GPU the second has now, does not take it away from the second.
    host.call(state="absent")
    assert host.tree.folder(A).joinpath("driver").resolve().name == "vfio-pci"


def test_a_held_gpu_is_waited_for_and_its_holder_named(host):
    host.tree.add_process(99, "nvidia-persiste", files=["/dev/vfio/1"])
    error = host.refused(**VM)
    assert "nvidia-persiste (pid 99)" in error.message
    assert error.details["reason"] == "gpu_held"
    assert host.server.instances == {}


def test_a_start_that_fails_leaves_nothing_new_behind(host):
    host.server.fail["start"] = (
        "Failed to run: forklimits limit=memlock:unlimited:unlimited -- qemu-system-x86_64: exit status 1"
    )
    host.server.logs["v1"] = {
        "qemu.log": "qemu-system-x86_64: can't apply global q35-pcihost.nope=1: Property 'q35-pcihost.nope' not found\n"
    }
    with pytest.raises(FleetError) as error:
        host.call(**VM, qemu_opts="-global q35-pcihost.nope=1")
    assert error.value.details["reason"] == "qemu_opts"
    assert "q35-pcihost.nope' not found" in error.value.message
    assert error.value.details["actions"] == ["create", "delete"]
    assert [state["released"] for state in error.value.details["released"]] == [True]
    assert host.server.instances == {}


def test_a_vm_that_was_there_before_outlives_a_failed_start(host):
    host.call(**VM, state="stopped")
    host.server.fail["start"] = "vhost_vsock kernel module not loaded"
    with pytest.raises(FleetError, match="vhost_vsock") as error:
        host.call(**VM)
    assert error.value.details["reason"] == "vsock"
    assert "v1" in host.server.instances


def test_a_creation_that_fails_leaves_nothing_behind(host):
    host.server.fail["create"] = "Failed getting remote image info"
    with pytest.raises(FleetError, match=r"images\.lxd\.canonical\.com.*remote image info") as error:
        host.call(**{**VM, "image": "images:debian/13"})
    assert error.value.details["option"] == "image"
    assert host.server.instances == {}


def test_a_start_that_hangs_ends_in_time_and_names_holders(host):
    host.server.hang.add("start")
    threading.Timer(1.0, host.tree.add_process, (5, "nv-hostengine"), {"files": ["/dev/vfio/1"]}).start()
    began = time.monotonic()
    with pytest.raises(FleetError) as error:
        host.call(**VM, timeout_s=2)
    assert time.monotonic() - began < 15
    assert error.value.details["reason"] == "start_hangs"
    assert "nv-hostengine (pid 5)" in error.value.message


def test_a_clean_stop_that_is_refused_tells_of_force(host):
    host.call(**VM)
    host.server.fail["shutdown"] = "Failed to stop: timed out"
    with pytest.raises(FleetError, match="force: true"):
        host.call(state="stopped")
    assert host.call(state="stopped", force=True)["actions"] == ["stop"]


def test_a_vm_that_dies_after_its_start_is_told_and_the_next_run_repairs(host):
    def die(name):
        host.server.instances[name]["status"] = "Stopped"

    host.server.after_start, repaired = die, host.server.after_start
    with pytest.raises(FleetError) as error:
        host.call(**VM)
    assert error.value.details["reason"] == "stopped_by_itself"
    assert (error.value.details["actions"], error.value.details["changed"]) == (["create", "start"], True)
    host.server.after_start = repaired
    assert host.call(**VM)["actions"] == ["start"]


def test_an_lxd_that_restarts_in_the_middle_is_survived(host):
    host.server.agent_after = 3
    threading.Timer(1.0, host.server.restart, kwargs={"away_s": 2.0}).start()
    assert host.call(**VM)["ready"]["ready"]


@pytest.mark.parametrize(("action", "state"), [("start", "started"), ("stop", "stopped"), ("delete", "absent")])
def test_a_request_that_a_restart_of_lxd_swallowed_is_made_again(host, action, state):
    host.call(**VM, state="started" if action == "stop" else "stopped")
    host.server.hang.add(action)

    def restart():
        host.server.hang.clear()
        host.server.restart(away_s=0.5)

    threading.Timer(0.7, restart).start()
    assert host.call(**{**VM, "state": state}, force=True)["actions"] == [action]
    assert host.server.actions("v1").count(action) == 2
    statuses = {"start": ["Running"], "stop": ["Stopped"], "delete": []}
    assert [instance["status"] for instance in host.server.instances.values()] == statuses[action]


def test_a_gpu_that_nobody_has_on_record_is_a_warning(host):
    """Somebody else started the VM, so its GPU's former driver is not known."""
    host.call(**VM)
    for name in os.listdir(host.tree.run_dir):
        os.unlink(os.path.join(host.tree.run_dir, name))
    host.server.after_stop = lambda name: None
    result = host.call(state="stopped")
    assert [state["released"] for state in result["released"]] == [False]
    assert any("not on record" in text for text in host.warnings)


def test_without_wait_nobody_waits(host):
    host.server.agent_after = 10**6
    result = host.call(**VM, wait=False)
    assert (result["ready"], result["actions"]) == (None, ["create", "start"])


def test_all_gpus_of_a_host(host):
    assert host.call(**{**VM, "gpus": ["all"]})["gpus"] == [A, B]


# Containers


def test_a_container_with_a_drm_gpu(host):
    host.server.resources["gpu"]["cards"] = []
    host.server.add_card(A, "virtio-pci", drm=True)
    params = {"kind": CONTAINER, "name": "c1", "image": "ct", "gpus": [A]}
    result = host.call(**params)
    assert (result["actions"], result["gpus"], result["ready"]["ready"]) == (["create", "start"], [A], True)
    assert "nvidia.runtime" not in result["instance"]["config"]
    assert host.call(**params)["changed"] is False
    assert host.call(**{**params, "gpus": []})["actions"] == ["update"]
    assert host.call(kind=CONTAINER, name="c1", state="absent")["actions"] == ["stop", "delete"]


def test_a_container_gets_nvidias_runtime_by_extension(host, fake):
    host.server.resources["gpu"]["cards"] = []
    host.server.add_card(A, "nvidia", drm=True, uuid_text="GPU-1")
    host.tree.set_driver(A, "nvidia")
    host.server.after_stop = lambda name: None
    old = host.call(kind=CONTAINER, name="c1", image="ct", gpus=[A], state="present")
    assert old["instance"]["config"]["nvidia.runtime"] == "true"
    host.server.extensions = fake.LXD_6_9_PLUS
    new = host.call(kind=CONTAINER, name="c2", image="ct", gpus=[A], state="present")
    assert new["instance"]["devices"]["gpu0"] == {"type": "gpu", "gputype": "physical", "id": "nvidia.com/gpu=GPU-1"}
    assert not [key for key in new["instance"]["config"] if key.startswith("nvidia.")]
    # The release check knows the GPU by its CDI name as well.
    assert new["gpus"] == [A]
    assert host.call(kind=CONTAINER, name="c2", image="ct", gpus=[A])["gpus"] == [A]
    (state,) = host.call(kind=CONTAINER, name="c2", state="absent")["released"]
    assert (state["address"], state["driver"], state["released"]) == (A, "nvidia", True)


def test_a_gpu_without_driver_is_not_for_containers(host):
    error = host.refused(kind=CONTAINER, name="c1", image="ct", gpus=[A])
    assert error.details["reason"] == "gpu_unusable_in_container"


def test_containers_share_a_gpu_but_not_with_a_vm(host):
    host.server.resources["gpu"]["cards"] = []
    host.server.add_card(A, "virtio-pci", drm=True)
    host.call(kind=CONTAINER, name="c1", image="ct", gpus=[A])
    host.call(kind=CONTAINER, name="c2", image="ct", gpus=[A])
    assert host.refused(**VM).details["used_by"] in ("c1", "c2")
