# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way kwokctl is run, with small scripts in its place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import ProcessRef, start_time_of
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import kwokctl
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.kwokctl import KwokctlError


@pytest.fixture
def run(tmp_path: Path, progress):
    seen: list[ProcessRef] = []

    def with_script(script: str, timeout_s: float = 30, look=lambda: None) -> str:
        program = tmp_path / "kwokctl"
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)
        log = tmp_path / "kwokctl.log"
        arguments = ["create", "cluster"]
        work = str(tmp_path / "work")
        kwokctl.run(str(program), arguments, work, str(log), progress, Deadline(timeout_s), seen.append, look)
        assert len(seen) == 1 and seen[0].pid > 0 and not seen[0].is_alive()
        return log.read_text()

    return with_script


def test_the_users_settings_of_kwok_do_not_reach_it(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("KWOK_KUBE_VERSION", "v1.0.0")
    monkeypatch.setenv("KWOK_WORKDIR", "/elsewhere")
    output = run("env | grep ^KWOK_")
    assert output == f"KWOK_WORKDIR={tmp_path / 'work'}\n"
    assert "HOME" in kwokctl.environment({"HOME": "/h", "KWOK_X": "1"}, "/w")


def test_a_failure_has_its_last_message(run):
    lines = [
        json.dumps({"msg": "Cluster is creating"}),
        json.dumps({"msg": "Failed to setup config", "err": "no etcd"}),
    ]
    with pytest.raises(
        KwokctlError, match=r"create cluster ended with status 3: Failed to setup config: no etcd\. Log: "
    ):
        run("printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + "; exit 3")


def test_what_is_no_json_is_shown_as_it_is(run):
    with pytest.raises(KwokctlError, match="panic: nil"):
        run("echo 'panic: nil'; exit 2")


def test_it_is_ended_when_time_is_up(run, tmp_path: Path):
    with pytest.raises(KwokctlError, match="did not start within 1 s"):
        run(f"echo $$ >{tmp_path}/pid; exec sleep 60", timeout_s=0.6)
    assert start_time_of(int((tmp_path / "pid").read_text())) is None


def test_it_is_ended_when_a_component_has_gone_but_what_it_started_is_not(run, tmp_path: Path):
    def look() -> None:
        if (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip():
            raise FleetError("etcd is gone")

    with pytest.raises(FleetError, match="etcd is gone"):
        run(f"echo $$ >{tmp_path}/pid; setsid sleep 60 & echo $! >{tmp_path}/child; sleep 60", look=look)
    assert start_time_of(int((tmp_path / "pid").read_text())) is None
    child = int((tmp_path / "child").read_text())
    assert start_time_of(child) is not None
    os.kill(child, 9)


def test_a_long_wait_is_told(run, said, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kwokctl, "HEARTBEAT_S", 0.3)
    run('echo \'{"msg": "Cluster is starting"}\'; sleep 1.5')
    assert "Cluster is starting" in said()


def test_a_program_that_is_not_there_is_named(tmp_path: Path, progress):
    with pytest.raises(KwokctlError, match="cannot start /no/such/kwokctl"):
        log = str(tmp_path / "log")
        kwokctl.run("/no/such/kwokctl", ["a", "b"], "/w", log, progress, Deadline(5), lambda _ref: None, lambda: None)
