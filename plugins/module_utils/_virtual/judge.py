# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says what has become of a virtual host since the last run looked, and why. Private to the collection."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import excerpt, tail
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import boot_id
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import (
    RUNNING,
    STARTING,
    HostPaths,
    HostState,
    Program,
)

ABSENT, STOPPED, CRASHED, STALE = "absent", "stopped", "crashed", "stale"
PANIC = "Kernel panic - not syncing"


@dataclass(frozen=True)
class Judgement:
    """`status` is absent, stopped, running, crashed or stale; `reason` says what happened in the last two cases."""

    status: str
    state: Optional[HostState] = None
    reason: str = ""
    logs: dict[str, list[str]] = field(default_factory=dict)

    @property
    def needs_cleaning(self) -> bool:
        return self.status in (CRASHED, STALE)


def judge(paths: HostPaths) -> Judgement:
    """Look at the processes that the state names. Nobody may be changing the host meanwhile (hold its lock)."""
    state = paths.load()
    if state is None:
        # A folder without a state is what a run left that was killed in its first moments.
        if os.path.isdir(paths.folder):
            return Judgement(STALE, None, "its folder holds no state")
        return Judgement(ABSENT)
    if state.status not in (RUNNING, STARTING):
        return Judgement(STOPPED, state)
    if state.boot != boot_id():
        return Judgement(STALE, state, "this machine was booted since it was started")
    if state.status == STARTING:
        return Judgement(STALE, state, "the run that started it was interrupted")
    dead = [program for program in state.programs() if not program.ref.is_alive()]
    if not dead:
        return Judgement(RUNNING, state)
    return Judgement(
        CRASHED, state, _why(state, dead), {**{program.name: tail(program.log) for program in dead}, **_console(state)}
    )


def panic_line(console: str) -> Optional[str]:
    """The kernel's last words on the console, if it panicked."""
    return next((line.strip() for line in tail(console, 200) if PANIC in line), None)


def _why(state: HostState, dead: list[Program]) -> str:
    panic = panic_line(state.console)
    if panic is not None:
        return f"its kernel panicked: {panic}. See {state.console}"
    parts = [f"{program.name} (pid {program.pid}) is gone. {excerpt(program.log)}" for program in dead]
    return "; ".join(parts)


def _console(state: HostState) -> dict[str, list[str]]:
    lines = tail(state.console)
    return {"console": lines} if lines else {}
