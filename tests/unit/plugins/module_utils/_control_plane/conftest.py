# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control planes whose components are sleeping processes: enough for everything that looks at files and /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def paths(tmp_path: Path):
    from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import ClusterPaths

    return ClusterPaths("lab", str(tmp_path / "state"))


@pytest.fixture
def run_components(paths):
    """Starts processes that are named as kwokctl names them, with pid files as it writes them."""
    from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import spawn
    from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import COMPONENTS

    def run(*names: str):
        for folder in ("pids", "logs", "bin"):
            os.makedirs(os.path.join(paths.cluster, folder), exist_ok=True)
        os.makedirs(paths.etcd, exist_ok=True)
        for name in names or COMPONENTS:
            Path(paths.log(name)).write_text(f"{name} started\n{name} says its last word\n")
            command = ["bash", "-c", f"exec -a {paths.program(name)} sleep 120"]
            child = spawn(command, os.path.join(paths.cluster, "spawn.log"))
            Path(paths.pid_file(name)).write_text(str(child.ref.pid))
        wait_for_names(paths, len(names or COMPONENTS))
        return paths.started()

    return run


def wait_for_names(paths, count: int) -> None:
    """bash takes a moment to become what it is named after."""
    from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline, poll

    poll(Deadline(20), lambda: True if len(paths.started()) >= count else None, 0.05, "the sleeping components")
