# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings one control plane, or all of them, into the state that is asked for, and says what changed. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.all_of_them import act_on_all
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.differences import Differences
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import kubeconfig, lifecycle
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.binaries import (
    BinariesRequest,
    gather,
    missing,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import Switches, switches
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.judge import ABSENT, CRASHED, Judgement, judge
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.plan import ClusterPlan, check_upgrade
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.ready import not_ready
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import (
    APISERVER,
    RUNNING,
    STOPPED,
    ClusterPaths,
    ClusterState,
    list_clusters,
)

# These need the programs.
STARTING_STATES = ("present", "started", "restarted")
# A control plane that runs is asked whether it still answers; one under load may take long to.
RESPONSE_TIMEOUT_S = 30.0
# How much longer than its own limits another run may hold a control plane.
LOCK_MARGIN_S = 60.0


@dataclass(frozen=True)
class Request:
    """The options of the module, typed."""

    state: str
    binaries: BinariesRequest
    features: Sequence[str] = ()
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    extra_args: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    qps_limits: bool = False
    timeout_s: float = 300.0
    state_root: Optional[str] = None
    check_mode: bool = False


@dataclass
class Outcome:
    """What one control plane was, what was done, and what it is."""

    name: str
    differences: Differences = field(default_factory=Differences)
    actions: list[str] = field(default_factory=list)
    found: Judgement = field(default_factory=lambda: Judgement(ABSENT))
    after: Optional[ClusterState] = None
    status: str = ABSENT
    built: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    def to_dict(self, paths: ClusterPaths) -> dict[str, Any]:
        return {
            "name": self.name,
            "status": self.status,
            "found": {"status": self.found.status, "reason": self.found.reason, "logs": dict(self.found.logs)},
            "actions": self.actions,
            "built": list(self.built),
            "seconds": self.seconds,
            **facts(paths, self.after),
        }


def facts(paths: ClusterPaths, state: Optional[ClusterState]) -> dict[str, Any]:
    """What a play needs to know of a control plane; the same keys for every one that has a state."""
    if state is None:
        return {}
    return {
        "source": state.source,
        "kubeconfig": paths.kubeconfig,
        "context": paths.context,
        "server": kubeconfig.server(state.ports[APISERVER]) if APISERVER in state.ports else "",
        "kubernetes_version": state.kubernetes_version,
        "kwok_version": state.kwok_version,
        "feature_gates": state.feature_gates,
        "kubectl": state.kubectl,
        "components": {component.name: {"pid": component.pid, "log": component.log} for component in state.components},
        "folder": paths.folder,
    }


def look(name: str, state_root: Optional[str]) -> dict[str, Any]:
    """What a control plane is now; changes nothing. One that runs is asked whether it answers."""
    paths = ClusterPaths(name, state_root)
    found = judge(paths)
    if found.status == RUNNING and found.state is not None:
        found = _still_answers(paths, found, found.state)
    return {
        "name": name,
        "status": found.status,
        "reason": found.reason,
        "logs": dict(found.logs),
        **facts(paths, found.state),
    }


def manage(name: str, request: Request, progress: Progress) -> Outcome:
    """One control plane. `present` makes the programs that a start needs and starts nothing."""
    paths = ClusterPaths(name, request.state_root)
    outcome = Outcome(name)
    wanted = None
    if request.state in STARTING_STATES:
        # Before anything takes long: what is wrong with the options is wrong now.
        wanted = switches(
            request.binaries.release.version, request.features, request.feature_gates, request.runtime_config
        )
    plan = None if wanted is None else _plan(name, request, wanted, outcome, progress)
    if request.state == "present":
        outcome.found = judge(paths)
        outcome.after, outcome.status = outcome.found.state, outcome.found.status
        return outcome
    if request.check_mode:
        # Looking needs no lock; what another run is just doing is not ours to foretell.
        return _decide(paths, request, plan, outcome, progress)
    with paths.guard(request.timeout_s + LOCK_MARGIN_S):
        return _decide(paths, request, plan, outcome, progress)


def manage_all(request: Request, progress: Progress) -> list[Outcome]:
    """Every control plane that has a folder here. One that fails does not save the others."""
    return act_on_all(
        list_clusters(request.state_root),
        lambda name: manage(name, request, Progress(progress.path, name)),
        "clusters",
        lambda outcome: outcome.to_dict(ClusterPaths(outcome.name, request.state_root)),
    )


def _plan(name: str, request: Request, wanted: Switches, outcome: Outcome, progress: Progress) -> Optional[ClusterPlan]:
    """The control plane as it shall be; None in check mode when programs have yet to be made."""
    if request.check_mode:
        to_make = missing(request.binaries)
        if to_make:
            outcome.differences.add("built", [], to_make)
            outcome.actions += [f"build {kind}" for kind in to_make]
            return None
    binaries = gather(request.binaries, progress)
    outcome.built = binaries.built
    outcome.seconds.update(binaries.seconds)
    outcome.differences.add("built", [], list(binaries.built))
    outcome.actions += [f"build {kind}" for kind in binaries.built]
    return ClusterPlan(name, binaries, wanted, request.extra_args, request.qps_limits)


def _decide(
    paths: ClusterPaths, request: Request, plan: Optional[ClusterPlan], outcome: Outcome, progress: Progress
) -> Outcome:
    found = judge(paths)
    if found.status == RUNNING and found.state is not None and request.state in STARTING_STATES:
        found = _still_answers(paths, found, found.state)
    outcome.found = found
    outcome.after, outcome.status = found.state, found.status
    if request.state == "absent":
        _make_absent(paths, found, outcome, request)
    elif request.state == "stopped":
        _make_stopped(paths, found, outcome, request, progress)
    else:
        _make_started(paths, found, plan, outcome, request, progress)
    return outcome


def _still_answers(paths: ClusterPaths, found: Judgement, state: ClusterState) -> Judgement:
    deadline = Deadline(RESPONSE_TIMEOUT_S)
    while True:
        reason = not_ready(paths, state, max(deadline.remaining_s(), 1.0))
        if reason is None:
            return found
        if deadline.expired() or "does not answer" not in reason:
            return Judgement(CRASHED, state, f"its processes run, but {reason}")


def _make_absent(paths: ClusterPaths, found: Judgement, outcome: Outcome, request: Request) -> None:
    if not outcome.differences.add("status", found.status, ABSENT):
        return
    outcome.actions.append("remove")
    outcome.after, outcome.status = None, ABSENT
    if not request.check_mode:
        lifecycle.remove(paths)


def _make_stopped(
    paths: ClusterPaths, found: Judgement, outcome: Outcome, request: Request, progress: Progress
) -> None:
    if found.status in (ABSENT, STOPPED):
        return
    outcome.differences.add("status", found.status, STOPPED)
    outcome.status = STOPPED
    outcome.actions.append("stop")
    if not request.check_mode:
        lifecycle.stop(paths, found.state, progress)
        outcome.after = paths.load()


def _make_started(
    paths: ClusterPaths,
    found: Judgement,
    plan: Optional[ClusterPlan],
    outcome: Outcome,
    request: Request,
    progress: Progress,
) -> None:
    outcome.differences.add("status", found.status, RUNNING)
    before = found.state.settings if found.state is not None else {}
    if plan is not None:
        check_upgrade(
            found.state.kubernetes_version if found.state is not None else "", plan.binaries.kubernetes.version
        )
        wanted = plan.settings()
        for key in sorted(wanted):
            outcome.differences.add(key, before.get(key), wanted[key])
    other = plan is None or before != plan.settings()
    if request.state == "restarted" and found.status == RUNNING:
        outcome.differences.add("restarted", False, True)
    outcome.status = RUNNING
    if found.status == RUNNING and not other and request.state != "restarted":
        return
    # A component that is gone is started beside the others, unless all of them are to be started otherwise.
    # One whose processes run but do not answer is started anew.
    anew = found.may_run and (other or request.state == "restarted" or not found.dead)
    outcome.actions += ["stop"] if anew else [f"start {name}" for name in found.dead] if found.status == CRASHED else []
    if anew or found.status != CRASHED:
        outcome.actions.append("start")
    if request.check_mode or plan is None:
        return
    if anew:
        lifecycle.stop(paths, found.state, progress)
    outcome.after = lifecycle.start(plan, paths, progress, request.timeout_s)
    outcome.seconds.update(outcome.after.seconds)
