# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as Ansible runs it, on the machine that runs the tests."""

from __future__ import annotations

import json
import os
import socket

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.modules import gpu_host_info


@pytest.fixture
def run(capsys):
    def run(check_mode=False, **params):
        with patch_module_args({**params, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit) as ended:
            gpu_host_info.main()
        return ended.value.code, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize("check_mode", [False, True])
def test_facts_of_this_machine(run, check_mode):
    code, result = run(check_mode, lxd=False)
    assert (code, result["changed"]) == (0, False)
    assert result["host"]["architecture"] == os.uname().machine
    assert result["host"]["cpus"] >= 1
    assert result["host"]["memory_mib"] > 0
    assert result["lxd"]["available"] is False
    assert result["lxd"]["reason"] == "not asked, as lxd is false"


def test_the_result_is_what_the_documentation_says(run):
    documented = set(yaml.safe_load(gpu_host_info.RETURN)) - {"warnings"}
    result = run(lxd=False)[1]
    assert documented == set(result) - {"changed", "warnings", "invocation"}
    host = yaml.safe_load(gpu_host_info.RETURN)["host"]["contains"]
    assert set(host) == set(result["host"])


def test_the_machine_loads(run):
    machine = load(run(lxd=False)[1]["machine"])
    assert (machine.cpus, machine.memory_mb) == (
        run(lxd=False)[1]["host"]["cpus"],
        run(lxd=False)[1]["host"]["memory_mib"],
    )


@pytest.mark.parametrize("selector", ["ffff:ff:1f.7", "nonsense", 600.0])
def test_a_wrong_selector_is_a_clear_failure(run, selector):
    code, result = run(gpus=[selector], lxd=False)
    assert (code, result["failed"], result["option"]) == (1, True, "gpus[0]")
    assert result["msg"].startswith("gpus[0]")
    assert str(selector) in result["msg"]


def test_no_lxd_at_the_socket_is_a_reason_not_a_failure(run, tmp_path):
    path = tmp_path / "unix.socket"
    code, result = run(lxd_socket=str(path))
    assert (code, result["lxd"]["available"], result["lxd"]["extensions"]) == (0, False, [])
    assert result["lxd"]["reason"]


def test_nobody_listens_at_the_socket(run, tmp_path):
    path = tmp_path / "unix.socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    code, result = run(lxd_socket=str(path))
    assert (code, result["lxd"]["available"]) == (0, False)
    assert result["lxd"]["reason"]
