# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings one virtual host, or all of them, into the state that is asked for, and says what changed. Private to the collection."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.all_of_them import act_on_all
from ansible_collections.gpulab.fleet.plugins.module_utils._common.differences import Differences
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import tail
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import lifecycle
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hostplan import HostPlan, fit, lay_out
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hypervisor import choose_accel
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.judge import (
    ABSENT,
    CRASHED,
    STOPPED,
    Judgement,
    judge,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.keys import (
    SshKey,
    ensure_key,
    key_exists,
    read_public,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.parts import PartsRequest, gather, missing
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.ready import responds
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import (
    RUNNING,
    HostPaths,
    HostState,
    list_hosts,
)

# A host that runs is asked whether it still answers; an emulated one under load may take long to.
RESPONSE_TIMEOUT_S = 60.0
# How much longer than its own limits another run may hold a host.
LOCK_MARGIN_S = 60.0


@dataclass(frozen=True)
class Request:
    """The options of the module, typed."""

    state: str
    parts: PartsRequest
    machine: Optional[Machine] = None
    cpus: Optional[int] = None
    memory_mb: Optional[int] = None
    accel: str = "auto"
    ssh_key: str = ""
    kernel_arguments: str = ""
    qemu_arguments: tuple[str, ...] = ()
    nested_guard: bool = True
    wait_for: str = "login"
    timeout_s: float = 600.0
    shutdown_timeout_s: float = 60.0
    state_root: Optional[str] = None
    check_mode: bool = False


@dataclass
class Outcome:
    """What one host was, what was done, and what it is."""

    name: str
    differences: Differences = field(default_factory=Differences)
    actions: list[str] = field(default_factory=list)
    found: Judgement = field(default_factory=lambda: Judgement(ABSENT))
    after: Optional[HostState] = None
    status: str = ABSENT
    built: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "status": self.status,
            "found": {"status": self.found.status, "reason": self.found.reason, "logs": self.found.logs},
            "actions": self.actions,
            "built": list(self.built),
            "seconds": self.seconds,
            **facts(self.after),
        }


def facts(state: Optional[HostState]) -> dict[str, Any]:
    """What a play needs to know of a host; the same keys for every host that has a state."""
    if state is None:
        return {}
    logs = {program.name: program.log for program in state.programs()}
    return {
        "machine": state.machine,
        "ssh_port": state.ssh_port,
        "ssh_key": state.ssh_key,
        "known_hosts": state.known_hosts,
        "addresses": state.addresses,
        "moved": state.moved,
        "accel": state.accel,
        "accel_reason": state.accel_reason,
        "qemu_version": state.qemu_version,
        "cpus": state.settings.get("cpus"),
        "memory_mb": state.settings.get("memory_mb"),
        "guest_images": state.guest_images,
        "logs": {**logs, "console": state.console},
    }


def manage(name: str, request: Request, progress: Progress) -> Outcome:
    """One host. `present` builds what a start needs and starts nothing."""
    paths = HostPaths(name, request.state_root)
    outcome = Outcome(name)
    plan = None
    if request.state in ("present", "started", "restarted"):
        plan = _plan(name, request, outcome, progress)
    if request.state == "present":
        outcome.found = judge(paths)
        outcome.after, outcome.status = outcome.found.state, outcome.found.status
        return outcome
    if request.check_mode:
        # Looking needs no lock; what another run is just doing is not ours to foretell.
        return _decide(paths, request, plan, outcome, progress)
    with paths.guard(request.timeout_s + request.shutdown_timeout_s + LOCK_MARGIN_S):
        return _decide(paths, request, plan, outcome, progress)


def manage_all(request: Request, progress: Progress) -> list[Outcome]:
    """Every host that has a folder here, also those that no inventory names any more. One that fails does not save the others."""
    return act_on_all(
        list_hosts(request.state_root),
        lambda name: manage(name, request, Progress(progress.path, name)),
        "hosts",
        Outcome.to_dict,
    )


def _plan(name: str, request: Request, outcome: Outcome, progress: Progress) -> Optional[HostPlan]:
    """The host as it shall be; None in check mode when parts have yet to be built."""
    if request.machine is None:
        raise FleetError(
            f"machine is not set; virtual host {name!r} needs a machine to be: a preset's name, a file or a mapping"
        )
    size = fit(request.machine, request.cpus, request.memory_mb)
    topology = lay_out(request.machine)
    if request.check_mode:
        to_build = missing(request.parts)
        if not request.ssh_key and not key_exists(request.parts.cache_root):
            to_build.append("ssh-key")
        if to_build:
            outcome.differences.add("built", [], to_build)
            outcome.actions += [f"build {kind}" for kind in to_build]
            return None
    parts = gather(request.parts, progress)
    outcome.built = parts.built
    outcome.seconds.update({kind: seconds for kind, seconds in parts.seconds.items() if kind in parts.built})
    outcome.differences.add("built", [], list(parts.built))
    outcome.actions += [f"build {kind}" for kind in parts.built]
    return HostPlan(
        name=name,
        machine=request.machine,
        size=size,
        image=parts.image,
        hypervisor=parts.hypervisor,
        accel=choose_accel(request.accel, parts.hypervisor),
        key=_key(request),
        topology=topology,
        sources=os.path.abspath(request.parts.sources) if request.parts.sources else "",
        nested_guard=request.nested_guard,
        kernel_arguments=request.kernel_arguments,
        qemu_arguments=request.qemu_arguments,
        wait=request.wait_for,
        python=sys.executable,
        guest_images=parts.guest_images,
    )


def _key(request: Request) -> SshKey:
    if request.ssh_key:
        return SshKey(os.path.abspath(request.ssh_key), read_public(request.ssh_key))
    return ensure_key(request.parts.cache_root)


def _decide(
    paths: HostPaths, request: Request, plan: Optional[HostPlan], outcome: Outcome, progress: Progress
) -> Outcome:
    found = judge(paths)
    if found.status == RUNNING and found.state is not None and request.state in ("started", "restarted"):
        found = _still_answers(found, found.state)
    outcome.found = found
    outcome.after, outcome.status = found.state, found.status
    if request.state == "absent":
        _make_absent(paths, found, outcome, request)
    elif request.state == "stopped":
        _make_stopped(paths, found, outcome, request, progress)
    else:
        _make_started(paths, found, plan, outcome, request, progress)
    return outcome


def _still_answers(found: Judgement, state: HostState) -> Judgement:
    if responds(state, RESPONSE_TIMEOUT_S):
        return found
    reason = f"its processes run, but ssh did not answer on port {state.ssh_port} for {RESPONSE_TIMEOUT_S:.0f} s"
    return Judgement(CRASHED, state, reason, {"console": tail(state.console)})


def _make_absent(paths: HostPaths, found: Judgement, outcome: Outcome, request: Request) -> None:
    if not outcome.differences.add("status", found.status, ABSENT):
        return
    outcome.actions.append("remove")
    outcome.after, outcome.status = None, ABSENT
    if not request.check_mode:
        lifecycle.remove(found, paths)


def _make_stopped(paths: HostPaths, found: Judgement, outcome: Outcome, request: Request, progress: Progress) -> None:
    if found.status in (ABSENT, STOPPED):
        return
    outcome.differences.add("status", found.status, STOPPED)
    outcome.status = STOPPED
    outcome.actions.append("stop" if found.status == RUNNING else "clean up")
    if request.check_mode:
        return
    if found.status == RUNNING and found.state is not None:
        lifecycle.stop(found.state, paths, progress, request.shutdown_timeout_s)
    else:
        lifecycle.clean_up(found, paths, progress)
    outcome.after = paths.load()


def _make_started(
    paths: HostPaths,
    found: Judgement,
    plan: Optional[HostPlan],
    outcome: Outcome,
    request: Request,
    progress: Progress,
) -> None:
    outcome.differences.add("status", found.status, RUNNING)
    before = found.state.settings if found.state is not None and found.status == RUNNING else {}
    if plan is not None:
        wanted = plan.settings()
        for key in sorted(wanted):
            outcome.differences.add(key, before.get(key), wanted[key])
    restart = found.status == RUNNING and (request.state == "restarted" or plan is None or before != plan.settings())
    if request.state == "restarted" and found.status == RUNNING:
        outcome.differences.add("restarted", False, True)
    outcome.status = RUNNING
    if found.status == RUNNING and not restart:
        if not request.check_mode and found.state is not None and plan is not None:
            _remember_guest_images(paths, found.state, plan)
        return
    outcome.actions += ["stop"] if restart else ["clean up"] if found.needs_cleaning else []
    outcome.actions.append("start")
    if request.check_mode or plan is None:
        return
    if restart and found.state is not None:
        lifecycle.stop(found.state, paths, progress, request.shutdown_timeout_s)
    elif found.needs_cleaning:
        lifecycle.clean_up(found, paths, progress)
    outcome.after = lifecycle.start(plan, paths, progress, request.timeout_s)
    outcome.seconds.update(outcome.after.seconds)


def _remember_guest_images(paths: HostPaths, state: HostState, plan: HostPlan) -> None:
    """They may have been asked for, or built anew, since the host was started; it runs on all the same."""
    if plan.guest_images and dict(plan.guest_images) != state.guest_images:
        paths.save(replace(state, guest_images=dict(plan.guest_images)))
