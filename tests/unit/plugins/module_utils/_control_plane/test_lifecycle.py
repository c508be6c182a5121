# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending control planes, and the parts of a start that need no cluster; whole starts are in the integration tests."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import spawn
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import kubeconfig, lifecycle
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.api import Credentials, get
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.plan import PORTS
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import (
    COMPONENTS,
    STOPPED,
    ClusterPaths,
    ClusterState,
    Component,
)


def test_stop_ends_all_and_keeps_data(paths: ClusterPaths, run_components, progress):
    started = run_components()
    data = Path(paths.etcd) / "member"
    data.write_text("kept")
    state = ClusterState("lab", components=started)
    lifecycle.stop(paths, state, progress)
    assert not any(one.ref.is_alive() for one in started)
    assert not any(os.path.exists(paths.pid_file(name)) for name in COMPONENTS)
    after = paths.load()
    assert after is not None and (after.status, after.components) == (STOPPED, [])
    assert data.read_text() == "kept"


def test_remove_needs_no_state_file_and_leaves_nothing(paths: ClusterPaths, run_components):
    started = run_components("etcd", "kwok-controller")
    lifecycle.remove(paths)
    assert not any(one.ref.is_alive() for one in started)
    assert os.listdir(paths.root) == []


def test_a_process_that_only_has_the_number_is_not_ended(paths: ClusterPaths, run_components, tmp_path: Path):
    """kwokctl would kill it: after a reboot, a pid in its files belongs to anybody."""
    run_components("etcd")
    stranger = spawn(["sleep", "60"], str(tmp_path / "log"))
    Path(paths.pid_file("kube-apiserver")).write_text(str(stranger.ref.pid))
    lifecycle.end_components(paths)
    assert stranger.ref.is_alive()
    assert not os.path.exists(paths.pid_file("kube-apiserver"))


def test_a_kwokctl_that_a_killed_run_left_is_ended_first(paths: ClusterPaths, run_components, tmp_path: Path, progress):
    run_components("etcd")
    left = spawn(["sleep", "60"], str(tmp_path / "log"))
    state = ClusterState("lab", starter=Component("kwokctl", left.ref.pid, left.ref.start_time, "log"))
    paths.save(state)
    lifecycle.stop(paths, paths.load(), progress)
    assert not left.ref.is_alive() and paths.started() == []
    after = paths.load()
    assert after is not None and after.starter is None


def test_ports_stay_where_they_are_free():
    first = lifecycle.choose_ports({})
    assert set(first) == set(PORTS) and len(set(first.values())) == len(PORTS)
    assert lifecycle.choose_ports(first) == first
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first["etcd"]))
        taken.listen(1)
        second = lifecycle.choose_ports(first)
    assert second["etcd"] != first["etcd"]
    assert {**second, "etcd": 0} == {**first, "etcd": 0}


def test_the_kubeconfig_is_whole_and_for_its_owner_only(tmp_path: Path):
    import yaml

    files = {}
    for name in ("ca.crt", "admin.crt", "admin.key"):
        files[name] = tmp_path / name
        files[name].write_text(f"the {name}\n")
    credentials = Credentials(*(str(path) for path in files.values()))
    path = tmp_path / "kubeconfig"
    kubeconfig.write(str(path), "gpulab-lab", 6443, credentials)
    content = yaml.safe_load(path.read_text())
    assert content["current-context"] == content["contexts"][0]["name"] == "gpulab-lab"
    assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.stat().st_mtime_ns
    kubeconfig.write(str(path), "gpulab-lab", 6443, credentials)
    assert path.stat().st_mtime_ns == before
    path.chmod(0o644)
    kubeconfig.write(str(path), "gpulab-lab", 6443, credentials)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_answer_is_an_answer_with_a_reason(tmp_path: Path):
    missing = get(1, "/readyz", Credentials("/no/ca", "/no/crt", "/no/key"))
    assert (missing.ok, missing.status) == (False, 0) and "No such file" in missing.text
