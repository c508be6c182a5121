# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until a control plane of ours can be worked with, and asks whether it still can. Private to the collection."""

from __future__ import annotations

from typing import Callable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline, poll
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.api import Credentials, get
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import enabled_gates, refused
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import (
    APISERVER,
    CONTROLLER_MANAGER,
    KWOK,
    SCHEDULER,
    ClusterPaths,
    ClusterState,
)

INTERVAL_S = 0.25
HEARTBEAT_S = 5.0
# Each must answer 200, in this order. Without its service account no pod can be made in a namespace, and the controller manager makes it.
PROBES: tuple[tuple[str, str], ...] = (
    (APISERVER, "/readyz"),
    (CONTROLLER_MANAGER, "/healthz"),
    (SCHEDULER, "/healthz"),
    (KWOK, "/healthz"),
    (APISERVER, "/api/v1/namespaces/default/serviceaccounts/default"),
)


class GateError(FleetError):
    """An API server does not have the gates that it was given."""


def credentials(paths: ClusterPaths) -> Credentials:
    return Credentials(*(paths.certificate(name) for name in ("ca.crt", "admin.crt", "admin.key")))


def not_ready(paths: ClusterPaths, state: ClusterState, timeout_s: float = 5.0) -> Optional[str]:
    """The first thing that is not as it should be; None when all is."""
    for component, path in PROBES:
        answer = get(state.ports[component], path, credentials(paths), timeout_s)
        if not answer.ok:
            detail = answer.text.strip().splitlines()
            said = f"answers {answer.status}" if answer.status else "does not answer"
            return f"{component} {said} at {path}" + (f": {detail[-1][:200]}" if detail else "")
    return None


def await_ready(
    paths: ClusterPaths, state: ClusterState, progress: Progress, deadline: Deadline, look: Callable[[], None]
) -> None:
    """Return when every component answers; `look` may raise, or start again what has gone."""
    last = "not asked yet"
    said_at_s = deadline.elapsed_s()

    def probe() -> Optional[bool]:
        nonlocal last, said_at_s
        look()
        reason = not_ready(paths, state)
        last = reason or "ready"
        if reason is None:
            return True
        if deadline.elapsed_s() - said_at_s >= HEARTBEAT_S:
            said_at_s = deadline.elapsed_s()
            progress.say(f"starting, {said_at_s:.0f} s: {last[:120]}")
        return None

    poll(deadline, probe, INTERVAL_S, f"control plane {state.name!r}", lambda: last)


def check_gates(paths: ClusterPaths, state: ClusterState, wanted: Mapping[str, bool]) -> dict[str, bool]:
    """The gates of dynamic resource allocation, and those asked for, as the API server itself reports them."""
    answer = get(state.ports[APISERVER], "/metrics", credentials(paths), 30.0)
    if not answer.ok:
        raise GateError(f"kube-apiserver does not tell its feature gates: {answer.status} {answer.text[:200]}")
    reported = enabled_gates(answer.text)
    wrong = refused(wanted, reported)
    if wrong:
        raise GateError(
            f"kube-apiserver {state.kubernetes_version} has not taken the feature gates as given: {', '.join(wrong)}. "
            "It would drop the fields behind them without a word",
            feature_gates=wrong,
        )
    return {name: on for name, on in sorted(reported.items()) if name.startswith(("DRA", "Dynamic")) or name in wanted}
