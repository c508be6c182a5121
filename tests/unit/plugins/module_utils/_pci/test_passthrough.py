# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's GPUs as the instance modules ask for them. Whole calls are tested with the LXD room's engine."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.passthrough import GpuHeld, HostGpus

GPU, AUDIO = "0000:41:00.0", "0000:41:00.1"


@pytest.fixture
def host(tree, fake):
    """A GPU with an audio function, both with drivers of the host."""
    tree.add_function(GPU, bars=fake.H100_BARS, group=1, driver="nouveau")
    tree.add_function(AUDIO, class_code="0x040300", group=1, driver="snd_hda_intel")
    return HostGpus(tree.sysfs, tree.procfs, tree.run_dir)


def test_companions_are_recorded_and_given_back_with_their_gpu(tree, host):
    host.remember([GPU])
    assert sorted(os.listdir(tree.run_dir)) == [f"{GPU}.json", f"{AUDIO}.json"]
    states = host.give_back([GPU], 1)
    assert [(state["address"], state["released"], state["driver"]) for state in states] == [
        (GPU, True, "nouveau"),
        (AUDIO, True, "snd_hda_intel"),
    ]
    assert os.listdir(tree.run_dir) == []


def test_a_record_stays_until_its_function_is_back(tree, host):
    host.remember([GPU])
    tree.set_driver(GPU, "vfio-pci")
    began = time.monotonic()
    states = {state["address"]: state for state in host.give_back([GPU], 0.5)}
    assert time.monotonic() - began < 10
    assert (states[GPU]["released"], states[AUDIO]["released"]) == (False, True)
    assert os.listdir(tree.run_dir) == [f"{GPU}.json"]
    tree.set_driver(GPU, "nouveau")
    assert all(state["released"] for state in host.give_back([GPU], 0.5))


def test_a_held_companion_keeps_the_gpu_too(tree, host):
    tree.write("sys/bus/pci/devices/0000:41:00.1/drm/card1/x", "")
    tree.add_process(7, "pipewire", files=["/dev/dri/card1"])
    assert [holder["pid"] for holder in host.holders([GPU])] == [7]
    with pytest.raises(GpuHeld, match=r"pipewire \(pid 7\).*release_timeout_s"):
        host.wait_free([GPU], 0.1)


def test_a_holder_that_goes_is_waited_for(tree):
    tree.add_function(GPU, group=1)
    tree.add_process(7, "python3", files=["/dev/vfio/1"])

    def sleep(_seconds):
        (tree.path / "proc/7/fd/0").unlink(missing_ok=True)

    HostGpus(tree.sysfs, tree.procfs, tree.run_dir, sleep).wait_free([GPU], 5)


def test_a_group_in_the_way_is_refused_by_option_and_value(tree, host):
    host.check_groups([GPU])
    tree.add_function("0000:42:00.0", ids="8086:1533", class_code="0x020000", driver="igb", group=1)
    with pytest.raises(FleetError, match=r"0000:42:00\.0 \(igb\)") as error:
        host.check_groups([GPU])
    assert (error.value.details["option"], error.value.details["value"]) == ("gpus", GPU)


def test_free_hugepages_are_those_of_the_moment(tree, host):
    assert host.free_hugepages_mib() == 0
    for name, text in (("nr_hugepages", "512"), ("free_hugepages", "100")):
        tree.write(f"sys/kernel/mm/hugepages/hugepages-2048kB/{name}", text)
    assert host.free_hugepages_mib() == 200


def test_an_unknown_gpu_has_the_options_name(host):
    with pytest.raises(FleetError) as error:
        host.resolve([GPU, "0000:99:00.0"])
    assert "gpus[1]" in error.value.message
    assert host.resolve(["all"]) == (GPU,)
