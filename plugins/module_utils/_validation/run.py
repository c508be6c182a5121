# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one scenario: takes nodes, makes its objects, waits for what it expects, and cleans up. Private to the collection."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import Selectors
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import Object, View, allocated
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pools import (
    COUNTERS,
    DUPLICATE,
    INCOMPLETE,
    Problem,
    facts_of,
    problems_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import FAILED, Check, Subject
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ClusterError
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.dress import dress
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.expectations import parse_expectations
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.fleet import Lease, Leases, Skip, described
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.judge import judge
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.keep import keep
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.observe import Observer
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.playground import INTERVAL_S, Playground
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.render import Renderer
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.scenario import (
    Needs,
    Scenario,
    Step,
    load_documents,
    parse_needs,
)

# What should not happen gets this long to happen after all.
HOLD_S = 2.0
# Slices that a driver replaces at this moment are no fault of the fleet.
_POOLS_S = 6.0
_RELEASE_S = 60.0
UNUSABLE = (INCOMPLETE, DUPLICATE, COUNTERS)


@dataclass(frozen=True)
class Setting:
    """What all scenarios of a run have in common."""

    host: str
    run: str
    version: str
    kubernetes_minor: int
    # The feature -> why the cluster cannot be used for it; empty when it can.
    lacks: Callable[[str], str]
    variables: Mapping[str, Any]
    tolerations: Sequence[Mapping[str, Any]]
    image: str
    node_selector: Mapping[str, str]
    within_s: float
    keep_dir: str
    deadline: Deadline


@dataclass
class Outcome:
    """What became of a scenario."""

    name: str
    description: str
    status: str = "passed"
    reason: str = ""
    nodes: tuple[str, ...] = ()
    seconds: float = 0.0
    kept: str = ""
    checks: list[Check] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "status": self.status,
            "reason": self.reason,
            "nodes": list(self.nodes),
            "seconds": round(self.seconds, 1),
            "kept": self.kept,
        }


class _Broken(Exception):
    """A step did not do what the rest builds on."""


class ScenarioRun:
    """One scenario, from its namespace to its end. `prepare` comes first, for all scenarios before any of them runs."""

    def __init__(self, scenario: Scenario, setting: Setting, observer: Observer, leases: Leases) -> None:
        self.scenario = scenario
        self.setting = setting
        self.observer = observer
        self.leases = leases
        self.subject = Subject(setting.host, scenario.name, kind="claim")
        self.outcome = Outcome(scenario.name, scenario.description)
        self.selectors = Selectors()
        self.renderer = Renderer()
        self.needs = Needs()
        self.lease = Lease((), {})
        self.variables: dict[str, Any] = dict(setting.variables)
        namespace = f"gpulab-{scenario.name.replace('_', '-')}-{setting.run}"
        self.playground = Playground(observer.kubernetes, setting.version, namespace, setting.run)
        self._started_s = time.monotonic()

    # Before it runs

    def prepare(self, classes: Sequence[Object]) -> bool:
        """Whether the cluster has what does not depend on nodes; if it has not, the outcome says so."""
        where = f"{self.scenario.path}: needs"
        self.needs = parse_needs(self.renderer.data(self.scenario.needs, self.variables, where), where)
        reason = self._lacks({str(one["metadata"]["name"]) for one in classes})
        if reason:
            self._skip(reason)
        return not reason

    def _lacks(self, classes: set[str]) -> str:
        if self.needs.kubernetes:
            wanted = self.needs.kubernetes.lstrip("v").split(".")
            if len(wanted) < 2 or not wanted[1].isdigit():
                raise FleetError(
                    f"{self.scenario.path}: needs.kubernetes is {self.needs.kubernetes!r}; write it as '1.34'"
                )
            if self.setting.kubernetes_minor < int(wanted[1]):
                return f"needs Kubernetes {self.needs.kubernetes}; this is 1.{self.setting.kubernetes_minor}"
        for feature in self.needs.features:
            lack = self.setting.lacks(feature)
            if lack:
                return lack
        for name in (*self.needs.classes, *(one.device_class for one in self.needs.devices)):
            if name not in classes:
                return f"needs the DeviceClass {name}, which the cluster does not have"
        return ""

    def _skip(self, reason: str) -> None:
        self.outcome.status, self.outcome.reason = "skipped", reason
        self.outcome.checks.append(self.subject.skipped("scenario", "scenario.needs", reason))

    def refuse(self, reason: str) -> None:
        """The scenario could not even begin."""
        self.outcome.checks.append(self.subject.failed("scenario", "scenario.run", reason))
        self._close()

    # While it runs

    def run(self) -> Outcome:
        """Never raises a FleetError: what goes wrong is a failed check."""
        self._started_s = time.monotonic()
        try:
            self.lease = self.leases.acquire(self.needs, self.setting.deadline, self.selectors)
        except Skip as skip:
            self._skip(str(skip))
            self.playground.clear()
            self.outcome.seconds = time.monotonic() - self._started_s
            return self.outcome
        except FleetError as error:
            self.playground.clear()
            self.refuse(error.message)
            return self.outcome
        self.outcome.nodes = self.lease.nodes
        # Waiting for others to give nodes back is no time of its own.
        self._started_s = time.monotonic()
        try:
            self._whole()
        finally:
            self._close()
        return self.outcome

    def _whole(self) -> None:
        try:
            self._pools()
            self.variables.update(
                node=self.lease.nodes[0] if self.lease.nodes else "",
                nodes=list(self.lease.nodes),
                devices={name: [described(one) for one in found] for name, found in self.lease.devices.items()},
                namespace=self.playground.namespace,
            )
            self.playground.wait_open()
            self._steps(self.scenario.steps, "")
        except _Broken as broken:
            self.outcome.reason = str(broken)
        except FleetError as error:
            self.outcome.checks.append(self.subject.failed("scenario", "scenario.run", error.message))
        if any(check.status == FAILED for check in self.outcome.checks):
            self._keep()
        self._clean()

    def _pools(self) -> None:
        """The pools of the nodes can be used, and have what the scenario needs; otherwise nothing that follows would say anything new."""
        deadline = Deadline(_POOLS_S)
        while True:
            slices = self.observer.slices_of_nodes(self.lease.nodes)
            pools = View(slices).pools
            found = {key: problems_of([facts_of(slice_) for slice_ in members]) for key, members in pools.items()}
            problems = {key: words for key, words in found.items() if words}
            if not problems or deadline.expired():
                break
            time.sleep(INTERVAL_S)
        self.outcome.checks += pool_checks(self.subject, problems, len(pools), "")
        unusable = [problem for words in problems.values() for problem in words if problem.kind in UNUSABLE]
        if unusable:
            raise _Broken(f"nothing was tried on {', '.join(self.lease.nodes)}: {unusable[0].words}")
        for doubt in self.lease.doubts:
            self.outcome.checks.append(self.subject.failed("devices", "scenario.devices", doubt))
        if self.lease.doubts:
            raise _Broken(f"nothing was tried on {', '.join(self.lease.nodes)}: {self.lease.doubts[0]}")

    def _steps(self, steps: Sequence[Step], where: str) -> None:
        for number, step in enumerate(steps, start=1):
            place = f"step {where}{number}"
            if self.setting.deadline.expired():
                raise FleetError(f"{place}: the time of {self.setting.deadline.timeout_s:.0f} s (timeout_s) is up")
            if step.action == "apply":
                self._apply(step)
            elif step.action == "delete":
                self._delete(step, place)
            elif step.action == "expect":
                self._expect(step, place)
            else:
                times = self.renderer.data(step.argument, self.variables, f"{self.scenario.path}: {place}")
                for round_number in range(int(times)):
                    self.variables["round"] = round_number
                    self._steps(step.steps, f"{number}.{round_number + 1}.")

    def _apply(self, step: Step) -> None:
        for name in step.argument:
            where = f"{self.scenario.path}: manifest {name}"
            text = self.renderer.text(self.scenario.manifests[name], self.variables, where)
            for obj in load_documents(text, where):
                setting = self.setting
                self.playground.create(
                    dress(
                        obj,
                        setting.run,
                        setting.version,
                        self.lease.nodes,
                        setting.tolerations,
                        setting.image,
                        setting.node_selector,
                    )
                )

    def _delete(self, step: Step, place: str) -> None:
        entries = self.renderer.data(step.argument, self.variables, f"{self.scenario.path}: {place}")
        deadline = self._within(step)
        for entry in entries:
            self.playground.delete(str(entry["kind"]), str(entry["name"]), deadline)

    def _expect(self, step: Step, place: str) -> None:
        where = f"{self.scenario.path}: {place}"
        expectations = parse_expectations(self.renderer.data(step.argument, self.variables, where), f"{where}: expect")
        deadline = self._within(step)
        held_since: Optional[float] = None
        while True:
            started = time.monotonic()
            checks = judge(self.subject, self._view(), expectations, self._mine, self.selectors)
            good = all(check.status != FAILED for check in checks)
            if good and not expectations.of_absence:
                break
            if good:
                held_since = started if held_since is None else held_since
                if started - held_since >= HOLD_S:
                    break
            elif deadline.expired():
                break
            else:
                held_since = None
            time.sleep(INTERVAL_S)
        label = f" ({step.label})" if step.label else ""
        seconds = deadline.elapsed_s()
        self.outcome.checks += [replace(check, name=check.name + label, seconds=seconds) for check in checks]
        if not good:
            first = next(check for check in checks if check.status == FAILED)
            raise _Broken(f"{place}{label}: {first.device} {first.name}: {first.reason}")

    def _view(self) -> View:
        return self.observer.view(self.observer.look(), self._mine, self.lease.nodes)

    def _mine(self, obj: Object) -> bool:
        return bool(obj["metadata"].get("namespace") == self.playground.namespace)

    def _within(self, step: Step) -> Deadline:
        raw = self.renderer.data(step.within_s, self.variables, f"{self.scenario.path}: within_s")
        return Deadline(min(self.setting.within_s if raw is None else float(raw), self.setting.deadline.remaining_s()))

    # After it ran

    def _keep(self) -> None:
        if not self.setting.keep_dir:
            return
        try:
            self.outcome.kept = keep(
                os.path.join(self.setting.keep_dir, self.scenario.name),
                self.observer,
                self.observer.look(),
                self.playground.namespace,
                self.lease.nodes,
                [check.to_dict() for check in self.outcome.checks],
            )
        except ClusterError as error:
            self.outcome.reason = f"{self.outcome.reason}; what is there could not be kept: {error.message}"

    def _clean(self) -> None:
        """Delete everything, and give the nodes to others only when nothing of it holds a device any more."""
        problems = self.playground.clear()
        deadline = Deadline(min(_RELEASE_S, max(10.0, self.setting.deadline.remaining_s())))
        while True:
            try:
                left = [claim for claim in self.observer.look().claims if self._mine(claim) and allocated(claim)]
            except ClusterError as error:
                problems.append(error.message)
                break
            if not left or deadline.expired():
                problems += [f"{claim['metadata']['name']} still holds its devices" for claim in left]
                break
            time.sleep(INTERVAL_S)
        if problems:
            text = f"could not clean up: {'; '.join(problems[:3])}"
            self.outcome.checks.append(self.subject.failed("scenario", "scenario.cleanup", text))

    def _close(self) -> None:
        self.leases.release(self.lease)
        outcome = self.outcome
        failed = [check for check in outcome.checks if check.status == FAILED]
        outcome.status = "failed" if failed else "passed"
        if failed and not outcome.reason:
            outcome.reason = f"{failed[0].device} {failed[0].name}: {failed[0].reason}"
        outcome.seconds = time.monotonic() - self._started_s


def pool_checks(
    subject: Subject, problems: Mapping[tuple[str, str], Sequence[Problem]], total: int, driver: str
) -> list[Check]:
    """One check for pools that are as they should be, one for each fault of another."""
    name = f"pools{f'/{driver}' if driver else ''}"
    if not problems:
        return [subject.passed(name, "pool.complete", f"{total} pools are complete in their newest generation")]
    return [
        subject.failed(f"pool/{key[1]}", f"pool.{problem.kind}", f"pool {key[1]} of {key[0]}: {problem.words}")
        for key, words in problems.items()
        for problem in words
    ]
