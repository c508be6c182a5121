# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import wait_gone
from ansible_collections.gpulab.fleet.plugins.module_utils._common.state_folder import StateError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.judge import (
    ABSENT,
    CRASHED,
    STALE,
    judge,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import (
    COMPONENTS,
    RUNNING,
    STARTING,
    STOPPED,
    ClusterPaths,
    ClusterState,
    list_clusters,
)


def saved(paths: ClusterPaths, components, status: str = RUNNING) -> ClusterState:
    state = ClusterState(name=paths.name, status=status, components=list(components), ports={"kube-apiserver": 1})
    os.makedirs(paths.folder, exist_ok=True)
    paths.save(state)
    return state


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a.b", "x" * 41, "../x", "a/b"])
def test_names_that_cannot_be_folders_and_contexts_are_refused(name: str):
    with pytest.raises(StateError, match="a control plane is named by 1 to 40 lower-case letters"):
        ClusterPaths(name)


def test_state_survives_a_round_trip(paths: ClusterPaths, run_components):
    state = saved(paths, run_components())
    assert paths.load() == state
    assert os.stat(paths.state).st_mode & 0o777 == 0o600
    assert list_clusters(str(Path(paths.root).parent)) == ["lab"]


def test_fields_of_a_later_release_are_ignored_and_missing_ones_named(paths: ClusterPaths):
    os.makedirs(paths.folder)
    Path(paths.state).write_text('{"name": "lab", "invented_later": 1}')
    assert paths.load() is not None
    Path(paths.state).write_text('{"status": "running"}')
    with pytest.raises(StateError, match="is incomplete"):
        paths.load()
    Path(paths.state).write_text("[]")
    with pytest.raises(StateError, match="does not hold the state of a control plane"):
        paths.load()
    assert judge(paths).status == CRASHED


def test_only_processes_of_this_layout_are_trusted(paths: ClusterPaths, run_components):
    started = run_components("etcd", "kube-apiserver")
    assert [one.name for one in started] == ["etcd", "kube-apiserver"]
    # The pid of anybody else in the same file is not ours, nor is nonsense.
    Path(paths.pid_file("etcd")).write_text(str(os.getpid()))
    Path(paths.pid_file("kube-apiserver")).write_text("no number")
    assert paths.started() == []


def test_nothing_is_absent(paths: ClusterPaths):
    assert judge(paths).status == ABSENT


def test_data_without_a_state_are_stopped(paths: ClusterPaths):
    os.makedirs(paths.etcd)
    assert judge(paths).status == STOPPED


def test_running_and_stopped(paths: ClusterPaths, run_components):
    saved(paths, run_components())
    assert judge(paths).status == RUNNING
    saved(paths, [], STOPPED)
    assert judge(paths).status == STOPPED


def test_a_crashed_component_is_named_with_its_last_words(paths: ClusterPaths, run_components):
    started = run_components()
    saved(paths, started)
    victim = next(one for one in started if one.name == "kube-scheduler")
    os.kill(victim.pid, signal.SIGKILL)
    assert wait_gone(victim.ref, 10)
    found = judge(paths)
    assert (found.status, found.dead) == (CRASHED, ("kube-scheduler",))
    assert found.reason.startswith(f"kube-scheduler (pid {victim.pid}) is gone. Last lines of {victim.log}")
    assert "kube-scheduler says its last word" in found.reason
    assert found.logs["kube-scheduler"][-1] == "kube-scheduler says its last word"


def test_an_interrupted_start_is_a_crash(paths: ClusterPaths, run_components):
    saved(paths, run_components("etcd"), STARTING)
    found = judge(paths)
    assert (found.status, found.reason) == (CRASHED, "its start was interrupted")
    assert found.dead == COMPONENTS[1:]


def test_processes_without_a_state_file_are_noticed(paths: ClusterPaths, run_components):
    run_components("etcd")
    found = judge(paths)
    assert (found.status, found.reason) == (CRASHED, "its processes run, but its state file is gone")


def test_pids_of_an_earlier_boot_mean_nothing(paths: ClusterPaths, run_components):
    state = saved(paths, run_components())
    state.boot = "another"
    paths.save(state)
    assert judge(paths).status == STALE
