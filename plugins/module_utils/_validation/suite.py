# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs scenarios, several at a time on different nodes. Private to the collection."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pools import Problem
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import NODE
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.many import run_many
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.fleet import Fleet, Leases, Skip
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.observe import Observer
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.playground import sweep, wait_gone
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.run import (
    Outcome,
    ScenarioRun,
    Setting,
    pool_checks,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.scenario import Scenario

# Of a fleet in which everything is broken, some pools say as much as all.
_PROBLEMS_SHOWN = 20
_SETTLE_S = 3.0
_GONE_S = 60.0
FLEET_TEST = "fleet"


@dataclass
class Result:
    """What became of all of them."""

    outcomes: list[Outcome] = field(default_factory=list)
    fleet_checks: list[Check] = field(default_factory=list)
    swept: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def checks(self) -> list[dict[str, object]]:
        found = [*self.fleet_checks, *(check for outcome in self.outcomes for check in outcome.checks)]
        return [check.to_dict() for check in found]


def run_scenarios(
    scenarios: Sequence[Scenario],
    setting: Setting,
    observer: Observer,
    parallel: int,
    only_nodes: Sequence[str] = (),
    dry: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> Result:
    """All scenarios to their end. `dry`: only find out which could run."""
    result = Result()
    if not dry:
        result.swept = sweep(observer.kubernetes)
    say("looking at the fleet")
    fleet = _look(observer, only_nodes)
    result.fleet_checks = fleet_checks(setting.host, fleet)
    leases = Leases(fleet, observer)
    classes = observer.look().classes
    runs = [ScenarioRun(scenario, setting, observer, leases) for scenario in scenarios]
    ready = [run for run in runs if run.prepare(classes)]
    if dry:
        for run in ready:
            _try_lease(run, setting)
    else:
        _run_all(ready, setting, observer, parallel, say)
        result.left = wait_gone(observer.kubernetes, setting.run, Deadline(_GONE_S))
    result.outcomes = [run.outcome for run in runs]
    return result


def _look(observer: Observer, only_nodes: Sequence[str]) -> Fleet:
    """The fleet; when pools have faults, how it is a little later, since a driver may be replacing slices at this moment."""
    fleet = Fleet(observer.all_slices(), observer.kubernetes.list(NODE), only_nodes)
    if not fleet.problems():
        return fleet
    time.sleep(_SETTLE_S)
    return Fleet(observer.all_slices(), observer.kubernetes.list(NODE), only_nodes)


def _run_all(
    ready: list[ScenarioRun], setting: Setting, observer: Observer, parallel: int, say: Callable[[str], None]
) -> None:
    """Namespaces first, so that what the controller manager does in each is done when its scenario begins."""
    until = time.time() + setting.deadline.remaining_s() + 60
    opened = []
    for made in run_many(lambda run: run.playground.open(until), ready, observer.kubernetes.concurrency):
        if made.error is not None:
            made.item.refuse(made.error.message)
        else:
            opened.append(made.item)
    opened.sort(key=ready.index)
    lock = threading.Lock()
    running: list[str] = []

    def one(run: ScenarioRun) -> Outcome:
        with lock:
            running.append(run.scenario.name)
        try:
            return run.run()
        finally:
            with lock:
                running.remove(run.scenario.name)

    for done, outcome in enumerate(run_many(one, opened, parallel), start=1):
        with lock:
            now = ", ".join(running)
        say(f"{done} of {len(opened)} scenarios done{f', running: {now}' if now else ''}")
        if outcome.error is not None:
            outcome.item.refuse(outcome.error.message)


def _try_lease(run: ScenarioRun, setting: Setting) -> None:
    """What would be tried, and where."""
    try:
        lease = run.leases.acquire(run.needs, setting.deadline, run.selectors)
    except Skip as skip:
        run._skip(str(skip))
        return
    except FleetError as error:
        run.refuse(error.message)
        return
    run.leases.release(lease)
    run.outcome.nodes = lease.nodes
    run.outcome.status = "would run"


def fleet_checks(host: str, fleet: Fleet) -> list[Check]:
    """Every pool of the cluster, by driver, whichever nodes the scenarios use."""
    subject = Subject(host, FLEET_TEST, kind="claim")
    problems = fleet.problems()
    checks: list[Check] = []
    for driver in sorted({driver for driver, _name in fleet.pools}):
        total = sum(1 for key in fleet.pools if key[0] == driver)
        of_driver: dict[Any, list[Problem]] = {key: words for key, words in problems.items() if key[0] == driver}
        shown = dict(list(of_driver.items())[:_PROBLEMS_SHOWN])
        checks += pool_checks(subject, shown, total, driver)
        if len(of_driver) > len(shown):
            text = f"{len(of_driver) - len(shown)} more of {total} pools of {driver} have faults"
            checks.append(subject.failed(f"pools/{driver}", "pool.more", text))
    if not checks:
        checks.append(subject.failed("pools", "pool.published", "the cluster has no ResourceSlices at all"))
    return checks
