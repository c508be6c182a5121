# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts and ends control planes. Private to the collection.

Every function here expects that the caller holds the control plane's lock. kwokctl lays a cluster out and starts its components; they are
ended by us, by pid and start time, as kwokctl trusts a pid alone, and kills.
"""

from __future__ import annotations

import os
import shutil
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common import ports as free_ports
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import write_json_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import ProcessRef, boot_id, end
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import kubeconfig, kwokctl
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.judge import describe
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.plan import (
    PORTS,
    ClusterPlan,
    kwokctl_configuration,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.ready import (
    await_ready,
    check_gates,
    credentials,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import (
    APISERVER,
    COMPONENTS,
    ETCD,
    RUNNING,
    STARTING,
    STOPPED,
    ClusterPaths,
    ClusterState,
    Component,
)

# What the others cannot do without: when it is gone, waiting is of no use.
FOUNDATION = (ETCD, APISERVER)
# On a loaded computer the controller manager gives up on an API server that is not there yet, and is started again.
STARTS = 4
END_GRACE_S = 15.0


class LifecycleError(FleetError):
    """A component of a control plane did not start, or did not end."""


def start(plan: ClusterPlan, paths: ClusterPaths, progress: Progress, timeout_s: float) -> ClusterState:
    """Start what does not run, and return when everything answers. When that fails nothing is left running; data stay."""
    deadline = Deadline(timeout_s)
    before = paths.load()
    os.makedirs(paths.folder, mode=0o700, exist_ok=True)
    os.chmod(paths.folder, 0o700)
    state = _new_state(plan, before)
    run = _Start(plan, paths, state, progress, deadline)
    try:
        run.go(before)
    except BaseException:
        end_components(paths)
        state.status, state.components, state.starter = STOPPED, [], None
        paths.save(state)
        raise
    return state


def stop(paths: ClusterPaths, state: Optional[ClusterState], progress: Progress) -> None:
    """End all components, the last started first; data stay."""
    progress.say("stopping")
    end_components(paths)
    if state is not None:
        state.status, state.components, state.starter, state.boot = STOPPED, [], None, boot_id()
        paths.save(state)


def remove(paths: ClusterPaths) -> None:
    """End all components and remove everything; needs no program and no state file."""
    end_components(paths)
    shutil.rmtree(paths.folder)


def end_components(paths: ClusterPaths) -> None:
    _end_starter(paths)
    for component in reversed(paths.started()):
        if end(component.ref, END_GRACE_S) == "stuck":
            raise LifecycleError(
                f"{component.name} (pid {component.pid}) of control plane {paths.name!r} does not end, even by SIGKILL",
                pid=component.pid,
            )
    _forget_pids(paths)


def _end_starter(paths: ClusterPaths) -> None:
    """A kwokctl that a killed run left at work would start components behind our back."""
    try:
        state = paths.load()
    except FleetError:
        # A damaged file names no process.
        return
    if state is not None and state.starter is not None and state.boot == boot_id():
        end(state.starter.ref)


def _new_state(plan: ClusterPlan, before: Optional[ClusterState]) -> ClusterState:
    return ClusterState(
        name=plan.name,
        settings=plan.settings(),
        source=plan.binaries.kubernetes.source,
        kubernetes_version=plan.binaries.kubernetes.version,
        kwok_version=plan.binaries.kwok.version,
        ports=dict(before.ports) if before is not None else {},
        kubectl=plan.binaries.path("kubectl"),
    )


class _Start:
    """One start, step by step; each step saves the state, so that an interrupted run leaves a record."""

    def __init__(
        self, plan: ClusterPlan, paths: ClusterPaths, state: ClusterState, progress: Progress, deadline: Deadline
    ) -> None:
        self.plan, self.paths, self.state = plan, paths, state
        self.progress, self.deadline = progress, deadline

    def go(self, before: Optional[ClusterState]) -> None:
        running = self.paths.started()
        # What runs was started with these settings; whoever wants others has stopped it before.
        fits = before is not None and before.settings == self.state.settings and os.path.isfile(self.paths.layout)
        if running and not fits:
            raise LifecycleError(f"control plane {self.plan.name!r} still runs with other settings")
        ports = dict(self.state.ports) if running else choose_ports(self.state.ports)
        fits = fits and ports == self.state.ports
        self.state.ports = ports
        self.paths.save(self.state)
        _forget_pids(self.paths)
        if fits:
            self._kwokctl("start", "cluster", "--name", self.plan.name)
        else:
            self._lay_out()
        self._timed_wait()
        self.state.feature_gates = check_gates(self.paths, self.state, self.plan.switches.gates)
        kubeconfig.write(
            self.paths.kubeconfig, self.paths.context, self.state.ports[APISERVER], credentials(self.paths)
        )
        self.state.status, self.state.boot = RUNNING, boot_id()
        self._look()
        self.state.seconds["start"] = round(self.deadline.elapsed_s(), 1)
        self.paths.save(self.state)
        self.progress.say(f"ready after {self.deadline.elapsed_s():.0f} s, Kubernetes {self.state.kubernetes_version}")

    def _lay_out(self) -> None:
        """A new layout over the old data and keys: this is how settings, ports and versions change."""
        shutil.rmtree(self.paths.cluster, ignore_errors=True)
        os.makedirs(self.paths.cluster, mode=0o700)
        os.makedirs(self.paths.etcd, mode=0o700, exist_ok=True)
        os.symlink(self.paths.etcd, os.path.join(self.paths.cluster, "etcd"))
        pki = os.path.join(self.paths.cluster, "pki")
        if os.path.isdir(self.paths.pki):
            os.symlink(self.paths.pki, pki)
        write_json_atomic(self.paths.config, kwokctl_configuration(self.plan, self.state.ports, pki))
        self._kwokctl(
            "create",
            "cluster",
            "--name",
            self.plan.name,
            "--config",
            self.paths.config,
            "--kubeconfig",
            "",
            "--wait",
            "0s",
        )
        if not os.path.islink(pki):
            # A failed layout is removed by kwokctl with all that is in it: the keys go where it does not reach.
            os.rename(pki, self.paths.pki)
            os.symlink(self.paths.pki, pki)
        for name in ("ca.key", "admin.key"):
            os.chmod(os.path.join(self.paths.pki, name), 0o600)

    def _kwokctl(self, *arguments: str) -> None:
        def started(ref: ProcessRef) -> None:
            self.state.starter = Component("kwokctl", ref.pid, ref.start_time, self.paths.kwokctl_log)
            self.paths.save(self.state)

        kwokctl.run(
            self.plan.binaries.path("kwokctl"),
            arguments,
            self.paths.kwok,
            self.paths.kwokctl_log,
            self.progress,
            self.deadline,
            started,
            self._look,
        )
        self.state.starter = None

    def _look(self) -> None:
        """Record what runs by now, and notice what has gone again and is needed by all others."""
        seen = {component.name: component for component in self.state.components}
        alive = {component.name: component for component in self.paths.started()}
        if {name: seen.get(name) for name in alive} != alive:
            self.state.components = [{**seen, **alive}[name] for name in COMPONENTS if name in {**seen, **alive}]
            self.paths.save(self.state)
        gone = self._gone()
        if any(name in FOUNDATION for name in gone):
            self._fail(gone)

    def _gone(self) -> tuple[str, ...]:
        """Those that have been seen, or have left a pid, and do not run."""
        alive = {component.name for component in self.paths.started()}
        known = {component.name for component in self.state.components}
        return tuple(
            name
            for name in COMPONENTS
            if name not in alive and (name in known or os.path.exists(self.paths.pid_file(name)))
        )

    def _fail(self, gone: tuple[str, ...]) -> None:
        components: list[Component] = list(self.state.components)
        raise LifecycleError(
            f"control plane {self.plan.name!r} does not start: {describe(self.paths, components, gone)}",
            components=list(gone),
            logs={name: self.paths.log(name) for name in gone},
        )

    def _timed_wait(self) -> None:
        starts = 1

        def look() -> None:
            nonlocal starts
            self._look()
            gone = self._gone()
            if not gone:
                return
            if starts >= STARTS:
                self._fail(gone)
            starts += 1
            self.progress.say(f"starting {', '.join(gone)} again")
            _forget_pids(self.paths)
            self._kwokctl("start", "cluster", "--name", self.plan.name)

        await_ready(self.paths, self.state, self.progress, self.deadline, look)


def choose_ports(before: dict[str, int]) -> dict[str, int]:
    """The same ports as before where they are free, so that kubeconfigs that people have copied stay right."""
    chosen: dict[str, int] = {}
    for name in PORTS:
        chosen[name] = free_ports.choose(before.get(name), chosen.values())
    return chosen


def _forget_pids(paths: ClusterPaths) -> None:
    """Remove the pid files of components that do not run: kwokctl would take any process of that number for its own."""
    alive = {component.name for component in paths.started()}
    for name in COMPONENTS:
        if name not in alive and os.path.exists(paths.pid_file(name)):
            os.unlink(paths.pid_file(name))


__all__ = ["STARTING", "LifecycleError", "choose_ports", "remove", "start", "stop"]
