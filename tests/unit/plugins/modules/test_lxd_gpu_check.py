# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module lxd_gpu_check as Ansible runs it, on guests that answer as told."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from fake_lxd import FakeLxd

from ansible_collections.gpulab.fleet.plugins.modules import lxd_gpu_check

H100 = {
    "address": "0000:41:00.0",
    "vendor_id": "10de",
    "device_id": "2330",
    "product": "ignored",
    "bars": [{"index": 0, "size_bytes": 2**24}, {"index": 1, "size_bytes": 2**37}],
}
PROBED = """@@ probe 1
@@ function 0000:06:00.0 10de:2330 030200 nvidia
@@ bar 0 0x0000000081000000 0x0000000081ffffff 0x0000000000040200
@@ bar 1 0x0000380000000000 0x0000381fffffffff 0x000000000014220c
@@ cpus 0-1
@@ boot_id 6a00bf0a-54cf-4224-9a0b-6e562c8f33f4
@@ uptime 31.10 12.00
@@ memory_kib 2004000
@@ ram 00100000-7fffffff
@@ node /dev/nvidia0 opened
@@ tool nvidia-smi /usr/bin/nvidia-smi
@@ tool gpu-burn /snap/bin/gpu-burn
@@ output nvidia-smi 0
| GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
@@ log_begins [    0.000000] Linux version 6.12.0
@@ log_lines 700
@@ end
"""
BURNT = "Tested 1 GPUs:\n\tGPU 0: OK\n"


@pytest.fixture
def server():
    folder = Path(tempfile.mkdtemp(prefix="lxd"))
    with FakeLxd(folder) as running:
        running.instances["i1"] = {
            "name": "i1", "type": "virtual-machine", "status": "Running", "config": {}, "devices": {}, "profiles": [], "asked": 1,
        }  # fmt: skip
        running.commands = []

        def answer(_name, command):
            running.commands.append(command)
            return (
                (0, BURNT, "")
                if any("gpu-burn" in word and "probe" not in word for word in command)
                else (0, PROBED, "")
            )

        running.run = answer
        yield running
    shutil.rmtree(folder)


@pytest.fixture
def call(server, capsys):
    def run(**params):
        capsys.readouterr()
        arguments = {"lxd_socket": str(server.socket), "name": "i1", "gpus": [H100], **params}
        with patch_module_args(arguments), pytest.raises(SystemExit) as end:
            lxd_gpu_check.main()
        result = json.loads(capsys.readouterr().out)
        assert bool(end.value.code) is bool(result.get("failed")), result
        return result

    return run


def statuses(result):
    return {check["name"]: check["status"] for check in result["checks"]}


def test_all_tiers_in_two_commands(server, call):
    result = call(host="alpha", label="vm_first", expect_ram_mb=2048, expect_cpus=2, expected_driver="nvidia")
    assert set(statuses(result).values()) == {"passed"}
    assert set(statuses(result)) == {
        "pci.present", "pci.bars", "pci.kernel_log", "pci.driver", "guest.memory", "guest.cpus", "guest.boot", "driver.gpus", "compute.burn",
    }  # fmt: skip
    assert {(check["host"], check["device"], check["test"]) for check in result["checks"]} == {
        ("alpha", "0000:41:00.0", "vm_first")
    }
    assert (result["changed"], result["summary"]) == (False, {"passed": 9, "failed": 0, "skipped": 0})
    assert result["guest"]["boot_id"].startswith("6a00bf0a")
    assert len(server.commands) == 2


def test_one_tier_asks_for_nothing_more(server, call):
    result = call(tiers=["pci"])
    assert set(statuses(result)) == {"pci.present", "pci.bars", "pci.kernel_log", "pci.driver", "guest.boot"}
    assert {check["host"] for check in result["checks"]} == {"i1"}
    (command,) = server.commands
    assert "driver" not in command[-2:]
    assert command[-1] == "10de:2330"


def test_a_container_is_looked_at_in_its_own_way(server, call):
    result = call(test="container", tiers=["pci"], gpus=[{**H100, "address": "0000:06:00.0"}])
    assert statuses(result) == {"pci.present": "passed", "pci.device_nodes": "passed"}


def test_failed_checks_fail_the_task_only_when_asked(server, call):
    wrong = {"expect_ram_mb": 4096, "tiers": ["pci"]}
    assert statuses(call(**wrong))["guest.memory"] == "failed"
    failed = call(**wrong, fail_on="failed")
    assert failed["failed"]
    assert "1 checks failed: 0000:41:00.0 guest.memory: the guest has 2047 MiB" in failed["msg"]
    assert failed["summary"]["failed"] == 1


def test_several_gpus_share_the_checks_of_the_whole_guest(server, call):
    result = call(gpus=[H100, {**H100, "address": "0000:81:00.0"}], tiers=["pci", "driver"])
    by_device = {(check["device"], check["name"]): check["status"] for check in result["checks"]}
    assert by_device[("0000:41:00.0", "pci.present")] == "passed"
    assert by_device[("0000:81:00.0", "pci.present")] == "failed"
    assert by_device[("all", "driver.gpus")] == "failed"
    assert by_device[("all", "guest.boot")] == "passed"


@pytest.mark.parametrize(
    ("params", "output", "words"),
    [
        ({"gpus": []}, PROBED, ["gpus is empty"]),
        ({"gpus": [{**H100, "vendor_id": "x"}]}, PROBED, ["gpus[0].vendor_id", "'x'"]),
        ({"name": "i2"}, PROBED, ["i2"]),
        ({}, "sh: out of memory\n", ["did not come to its end", "out of memory"]),
        ({"tiers": ["everything"]}, PROBED, ["tiers", "everything"]),
        ({"lxd_socket": "/nonexistent/unix.socket"}, PROBED, ["/nonexistent/unix.socket", "lxd_socket"]),
    ],
)
def test_when_it_cannot_look_it_says_why(server, call, params, output, words):
    server.run = lambda _name, _command: (0, output, "")
    result = call(**params)
    assert result["failed"]
    assert [word for word in words if word not in result["msg"]] == []


def test_options_are_documented_as_they_are():
    options = yaml.safe_load(lxd_gpu_check.DOCUMENTATION)["options"]
    documented = {
        name: {key: option[key] for key in option if key != "description"} for name, option in options.items()
    }
    own = {
        name: option for name, option in lxd_gpu_check.ARGUMENT_SPEC.items() if name not in ("lxd_socket", "project")
    }
    assert documented == own
