# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.gpu_devices import GpuDevice
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import CONTAINER, VIRTUAL_MACHINE
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.spec import (
    build_spec,
    check_cpus,
    check_name,
    pinned_cpus,
)


def spec(kind=VIRTUAL_MACHINE, gpus=None, raw_qemu=False, **params):
    return build_spec({"name": "v1", "state": "started", **params}, kind, "test", lambda name: True, gpus, raw_qemu)


@pytest.mark.parametrize("name", ["v", "v1", "gpu-test-0000-41-00-0", "a" * 63, "A9"])
def test_names_that_lxd_takes(name):
    check_name(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", ["0 characters", "63"]),
        ("a" * 64, ["64 characters", "63"]),
        ("1st", ["letter"]),
        ("-a", ["letter"]),
        ("a-", ["hyphen"]),
        ("a_b", ["letters, digits"]),
        ("a.b", ["letters, digits"]),
        ("a/b", ["letters, digits"]),
        ("ä", ["letters, digits"]),
        ("a\n", ["letters, digits"]),
    ],
)
def test_names_that_lxd_refuses(name, words):
    with pytest.raises(FleetError) as error:
        check_name(name)
    assert error.value.details["option"] == "name"
    assert [word for word in words if word not in error.value.message] == []


def test_a_name_that_makes_a_socket_path_too_long_is_refused_for_vms_only():
    name = "a" * 60
    folder = "/var/snap/lxd/common/lxd/logs/some-long-project_" + name
    check_name(name, (folder,), CONTAINER)
    with pytest.raises(FleetError) as error:
        check_name(name, (folder,))
    excess = len(folder + "/qemu.monitor") - 107
    assert f"shorter by {excess}" in error.value.message


@pytest.mark.parametrize("value", ["4", "0-3", "0-3,8", "2-2", "0,1", 4])
def test_cpus_that_lxd_takes(value):
    assert check_cpus(value) == str(value)


@pytest.mark.parametrize("value", ["0", "", "four", "-1", "0-", "1.5", "0-3;rm"])
def test_cpus_that_it_does_not(value):
    with pytest.raises(FleetError, match=r"cpus is .* count"):
        check_cpus(value)


@pytest.mark.parametrize(
    ("value", "cpus"), [(None, ()), ("4", ()), ("0-2", (0, 1, 2)), ("0-1,8", (0, 1, 8)), ("2-2", (2,))]
)
def test_pin_sets(value, cpus):
    assert pinned_cpus(value) == cpus


def test_values_become_lxds_strings():
    built = spec(
        ram_mb=512,
        cpus="2",
        secure_boot=False,
        config={"user.flag": True, "boot.autostart.priority": 5, "user.gone": None},
        devices={"eth1": {"type": "nic", "mtu": 1500}, "eth2": None},
        profiles=["default", "gpu"],
        cloud_init={"user_data": "#cloud-config", "vendor_data": None},
    )
    assert built.config == {
        "limits.memory": "512MiB",
        "limits.cpu": "2",
        "boot.mode": "uefi-nosecureboot",
        "user.flag": "true",
        "boot.autostart.priority": "5",
        "user.gone": None,
        "cloud-init.user-data": "#cloud-config",
    }
    assert built.devices == {"eth1": {"type": "nic", "mtu": "1500"}, "eth2": None}
    assert built.profiles == ("default", "gpu")


def test_unset_is_nothing():
    built = spec()
    assert (built.config, built.devices, built.gpus, built.profiles) == ({}, {}, None, None)


@pytest.mark.parametrize(("raw_qemu", "config"), [(False, {}), (None, {"raw.qemu": None}), ("-x", {"raw.qemu": "-x"})])
def test_raw_qemu_is_left_alone_removed_or_set(raw_qemu, config):
    assert spec(raw_qemu=raw_qemu).config == config


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"ram_mb": 512, "config": {"limits.memory": "1GiB"}}, ["config.limits.memory", "ram_mb", "remove one"]),
        ({"ram_mb": 0}, ["ram_mb is 0", "positive"]),
        ({"config": {"user.list": [1]}}, ["config.user.list", "list", "quote"]),
        ({"devices": {"eth0": {"name": "x"}}}, ["devices.eth0", "type", "null"]),
        ({"devices": {"eth0": "nic"}}, ["devices.eth0", "type", "null"]),
    ],
)
def test_contradictions_and_wrong_values(params, words):
    with pytest.raises(FleetError) as error:
        spec(**params)
    assert [word for word in words if word not in error.value.message] == []


def test_a_gpus_own_keys_give_way_to_the_users():
    gpu = GpuDevice(
        "0000:41:00.0",
        {"type": "gpu", "pci": "0000:41:00.0"},
        {"nvidia.runtime": "true", "nvidia.driver.capabilities": "all"},
    )
    built = spec(CONTAINER, (gpu,), config={"nvidia.driver.capabilities": "compute"})
    assert built.config == {"nvidia.runtime": "true", "nvidia.driver.capabilities": "compute"}
