# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts and ends virtual hosts: device servers first, then QEMU, and back. Private to the collection.

Every function here expects that the caller holds the host's lock.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import tail
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import boot_id, end
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hostplan import HostPlan, machine_digest
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.judge import Judgement
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qcow2 import create_overlay
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qmp import Qmp, QmpError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.starter import LifecycleError, Starter
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import (
    STARTING,
    STOPPED,
    HostPaths,
    HostState,
    runtime_dir,
)


def start(plan: HostPlan, paths: HostPaths, progress: Progress, timeout_s: float) -> HostState:
    """Start a host that is not running, and return when it lets us in. When that fails nothing is left running."""
    deadline = Deadline(timeout_s)
    before = paths.load()
    os.makedirs(paths.folder, mode=0o700, exist_ok=True)
    state = _new_state(plan, paths, before)
    make_private(state.runtime)
    _prepare_disk(plan, paths, before)
    starter = Starter(plan, paths, state, progress, deadline)
    try:
        starter.run()
    except BaseException:
        _end_programs(state)
        _remove_runtime(state)
        # Its disk was in use when it was cut off, and it has no journal.
        _unlink(paths.disk)
        state.status = STOPPED
        paths.save(state)
        raise
    return state


def stop(state: HostState, paths: HostPaths, progress: Progress, grace_s: float) -> bool:
    """Shut a running host down; whether it did so by itself. One that does not within `grace_s` is switched off and loses its disk."""
    progress.say("shutting down")
    clean = _power_down(state, progress, grace_s)
    if not clean:
        progress.say("switching off")
    _switch_off(state, paths)
    if not clean:
        _unlink(paths.disk)
    return clean


def clean_up(judgement: Judgement, paths: HostPaths, progress: Progress) -> None:
    """End and remove what a crashed or half-started host left; its logs stay."""
    progress.say(f"cleaning up: {judgement.reason.split('. ')[0]}")
    if judgement.state is None:
        shutil.rmtree(paths.folder)
        return
    _switch_off(judgement.state, paths)
    _unlink(paths.disk)


def remove(judgement: Judgement, paths: HostPaths) -> None:
    """End everything at once and remove the host's folder."""
    if judgement.state is not None:
        _switch_off(judgement.state, paths)
    if os.path.isdir(paths.folder):
        shutil.rmtree(paths.folder)


def _new_state(plan: HostPlan, paths: HostPaths, before: Optional[HostState]) -> HostState:
    runtime = runtime_dir(paths)
    return HostState(
        name=plan.name,
        status=STARTING,
        machine=plan.machine.name,
        machine_digest=machine_digest(plan.machine),
        settings=plan.settings(),
        ssh_port=before.ssh_port if before is not None else 0,
        ssh_key=plan.key.private,
        known_hosts=paths.known_hosts,
        console=paths.console,
        qmp=os.path.join(runtime, "qmp"),
        runtime=runtime,
        addresses=plan.topology.addresses(),
        moved=plan.topology.moved(),
        image=plan.image.disk,
        accel=plan.accel.name,
        accel_reason=plan.accel.reason,
        qemu_version=plan.hypervisor.version,
        guest_images=dict(plan.guest_images) or (dict(before.guest_images) if before is not None else {}),
    )


def _prepare_disk(plan: HostPlan, paths: HostPaths, before: Optional[HostState]) -> None:
    """A fresh overlay, unless the last one was shut down well and lies over the same image."""
    same_image = (
        before is not None and before.settings.get("image") == plan.image.key and before.image == plan.image.disk
    )
    if same_image and os.path.exists(paths.disk):
        return
    _unlink(paths.disk)
    # With the disk goes the host's own ssh key.
    _unlink(paths.known_hosts)
    create_overlay(paths.disk, plan.image.disk)


def _power_down(state: HostState, progress: Progress, grace_s: float) -> bool:
    """Press the power button and wait; True when QEMU ended by itself."""
    if state.qemu is None or not state.qemu.ref.is_alive():
        return False
    deadline = Deadline(grace_s)
    try:
        with Qmp(state.qmp) as qmp:
            qmp.execute("system_powerdown")
    except QmpError as error:
        progress.say(f"QEMU does not take the power button: {error}")
        return False
    said_at_s = 0.0
    while state.qemu.ref.is_alive():
        if deadline.expired():
            return False
        if deadline.elapsed_s() - said_at_s >= 5.0:
            said_at_s = deadline.elapsed_s()
            progress.say(
                f"shutting down, {said_at_s:.0f} s: {(tail(state.console, 1) or ['no output'])[0].strip()[:100]}"
            )
        time.sleep(0.1)
    return True


def _switch_off(state: HostState, paths: HostPaths) -> None:
    _end_programs(state)
    _remove_runtime(state)
    state.status = STOPPED
    state.qemu = state.devices = None
    state.servers = []
    paths.save(state)


def _end_programs(state: HostState) -> None:
    """QEMU first: a device that vanishes under a running machine only fills its log."""
    if state.boot != boot_id():
        return
    for program in reversed(state.programs()):
        if end(program.ref) == "stuck":
            raise LifecycleError(
                f"process {program.pid} ({program.name} of virtual host {state.name!r}) does not end, even by SIGKILL",
                pid=program.pid,
            )


def make_private(folder: str) -> None:
    """A folder for sockets that is ours alone; where everybody may write, somebody else could have been there first."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for path in (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
        if os.lstat(path).st_uid not in (0, os.getuid()):
            raise LifecycleError(
                f"{path} belongs to another user, so sockets in {folder} would not be safe; remove it or set XDG_RUNTIME_DIR",
                path=path,
            )


def _remove_runtime(state: HostState) -> None:
    """Only below a folder of ours, whatever a damaged state file says."""
    if state.runtime and os.path.basename(os.path.dirname(state.runtime)) == "gpulab-fleet":
        shutil.rmtree(state.runtime, ignore_errors=True)


def _unlink(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)
