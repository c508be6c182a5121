# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells what a control plane is right now, whatever its last run left behind. Private to the collection."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import excerpt, tail
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import boot_id
from ansible_collections.gpulab.fleet.plugins.module_utils._common.state_folder import StateError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import (
    COMPONENTS,
    RUNNING,
    STARTING,
    STOPPED,
    ClusterPaths,
    ClusterState,
    Component,
)

ABSENT, CRASHED, STALE = "absent", "crashed", "stale"


@dataclass(frozen=True)
class Judgement:
    """A status, the reason for it, and the last log lines of components that are gone."""

    status: str
    state: Optional[ClusterState] = None
    reason: str = ""
    logs: Mapping[str, list[str]] = field(default_factory=dict)
    dead: tuple[str, ...] = ()

    @property
    def may_run(self) -> bool:
        """Whether processes of it may be there."""
        return self.status in (RUNNING, CRASHED)


def judge(paths: ClusterPaths) -> Judgement:
    """Reads files and /proc only, changes nothing."""
    try:
        state = paths.load()
    except StateError as error:
        return Judgement(CRASHED, None, error.message)
    if state is None:
        if paths.started():
            return Judgement(CRASHED, None, "its processes run, but its state file is gone")
        return Judgement(STOPPED if os.path.isdir(paths.etcd) else ABSENT)
    if state.boot != boot_id():
        return Judgement(STALE, state, "this computer has been started anew since")
    if state.status == STOPPED:
        return Judgement(STOPPED, state)
    alive = {component.name for component in state.components if component.ref.is_alive()}
    dead = tuple(name for name in COMPONENTS if name not in alive)
    if state.status == STARTING:
        return Judgement(CRASHED, state, "its start was interrupted", _logs(paths, dead), dead)
    if dead:
        return Judgement(CRASHED, state, describe(paths, state.components, dead), _logs(paths, dead), dead)
    return Judgement(RUNNING, state)


def describe(paths: ClusterPaths, components: list[Component], dead: tuple[str, ...]) -> str:
    """Which components are gone, and what they said last."""
    pids = {component.name: component.pid for component in components}
    return " ".join(
        f"{name} (pid {pids[name]}) is gone. {excerpt(paths.log(name))}"
        if name in pids
        else f"{name} is gone. {excerpt(paths.log(name))}"
        for name in dead
    )


def _logs(paths: ClusterPaths, names: tuple[str, ...]) -> dict[str, list[str]]:
    return {name: tail(paths.log(name)) for name in names}
