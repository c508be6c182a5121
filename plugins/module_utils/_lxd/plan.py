# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides, without touching anything, which steps bring an instance to its specification. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.differences import Differences
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import Instance
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.compare import Change, compare, wanted_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import OWNER_KEY, Has
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.spec import InstanceSpec, ownership

CREATE, UPDATE, STOP, START, UNFREEZE, DELETE = "create", "update", "stop", "start", "unfreeze", "delete"


@dataclass(frozen=True)
class Plan:
    """Steps in their order; `changes` are carried out by them, `pending` ones wait for a restart that was not allowed."""

    steps: tuple[str, ...]
    changes: tuple[Change, ...]
    pending: tuple[Change, ...]
    diff: Mapping[str, Mapping[str, object]]

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    @property
    def restart_required(self) -> bool:
        return bool(self.pending)


def make_plan(spec: InstanceSpec, observed: Optional[Instance], has: Has) -> Plan:
    """The steps from what is to what should be. A VM is created stopped and complete, and started once."""
    if observed is not None and observed.kind != spec.kind:
        raise FleetError(
            f"name is {spec.name!r}, but there is a {observed.kind} of that name and not a {spec.kind}; choose another name",
            option="name",
            value=spec.name,
        )
    if spec.state == "absent":
        return _absent(spec, observed)
    if observed is None:
        steps = (CREATE, START) if spec.wants_running else (CREATE,)
        body = create_body(spec)
        changes = [Change("config", key, None, value, False) for key, value in sorted(body["config"].items())]
        changes += [Change("devices", name, None, device, False) for name, device in sorted(body["devices"].items())]
        if spec.profiles is not None:
            changes.append(Change("profiles", "", None, spec.profiles, False))
        return _plan(steps, changes, [], "absent", "running" if spec.wants_running else "stopped")
    return _existing(spec, observed, compare(spec, observed, has))


def create_body(spec: InstanceSpec, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The one request that makes the instance with all its config and devices."""
    config = {key: value for key, value in spec.config.items() if value is not None}
    config.update(ownership(spec.owner))
    devices = {name: dict(device) for name, device in wanted_devices(spec, {}).items() if device is not None}
    body: dict[str, Any] = {
        "name": spec.name,
        "type": spec.kind,
        "config": config,
        "devices": devices,
        "source": dict(source or {}),
    }
    if spec.profiles is not None:
        body["profiles"] = list(spec.profiles)
    return body


def _absent(spec: InstanceSpec, observed: Optional[Instance]) -> Plan:
    if observed is None:
        return Plan((), (), (), {"before": {}, "after": {}})
    if not observed.config.get(OWNER_KEY) and not spec.force_foreign:
        raise FleetError(
            f"{spec.name} was not created by this collection (it has no key {OWNER_KEY}), so state=absent leaves it alone;"
            " set force_foreign: true to delete it all the same",
            option="state",
            value="absent",
        )
    steps = (STOP, DELETE) if observed.running else (DELETE,)
    return _plan(steps, [], [], _power(observed), "absent")


def _existing(spec: InstanceSpec, observed: Instance, changes: list[Change]) -> Plan:
    update = (UPDATE,) if changes else ()
    before = _power(observed)
    after = {"started": "running", "restarted": "running", "stopped": "stopped"}.get(spec.state, before)
    if not observed.running:
        return _plan(update + ((START,) if spec.wants_running else ()), changes, [], before, after)
    if spec.state == "stopped":
        return _plan((STOP, *update), changes, [], before, after)
    cold = [change for change in changes if change.cold]
    broken = before == "error" and spec.wants_running
    if spec.state == "restarted" or broken or (cold and spec.allow_restart):
        return _plan((STOP, *update, START), changes, [], before, "running", restarted=True)
    hot = [change for change in changes if not change.cold]
    steps = ((UPDATE,) if hot else ()) + ((UNFREEZE,) if before == "frozen" and spec.wants_running else ())
    return _plan(steps, hot, cold, before, after)


def _power(observed: Instance) -> str:
    return (observed.status or "stopped").lower()


def _plan(
    steps: tuple[str, ...],
    changes: list[Change],
    pending: list[Change],
    before: str,
    after: str,
    restarted: bool = False,
) -> Plan:
    differences = Differences()
    differences.add("state", before, f"{after} (restarted)" if restarted else after)
    for change in changes:
        differences.add(change.path, _plain(change.before), _plain(change.after))
    return Plan(steps, tuple(changes), tuple(pending), differences.diff())


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
