# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why claims cannot be allocated on a node, found out without the scheduler. Private to the collection.

The scheduler says `cannot allocate all claims` for many causes; a test of one of them has to know which it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Iterator, NamedTuple, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.claim_sharing import consumed, consumption, fits
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import (
    ALL,
    Constraint,
    Request,
    Selectors,
    broken,
    constraints_of,
    requests_of,
    tolerated,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import Device, DeviceKey, Object, View
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pools import (
    COUNTERS,
    DUPLICATE,
    INCOMPLETE,
    facts_of,
    problems_of,
)

# A node has some dozen devices; a search that needs more steps is not finished.
_STEPS = 20000

BROKEN_POOL = "broken_pool"
CEL_ERROR = "cel_error"
NO_MATCH = "no_match"
TOO_FEW = "too_few"
TAINTED = "tainted"
EXHAUSTED = "exhausted"
CONSTRAINT = "constraint"
AVAILABLE = "available"
UNKNOWN = "unknown"
CAUSES = (BROKEN_POOL, CEL_ERROR, NO_MATCH, TOO_FEW, TAINTED, EXHAUSTED, CONSTRAINT)


class Cause(NamedTuple):
    """A kind of cause, and a sentence. AVAILABLE: nothing is in the way."""

    kind: str
    words: str


@dataclass
class _Choice:
    """A request, or an alternative of one, with the devices of the node that are what it asks for."""

    request: Request
    matching: list[Device] = field(default_factory=list)
    free: list[Device] = field(default_factory=list)
    tainted: list[str] = field(default_factory=list)


class _Stop(Exception):
    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.words)
        self.cause = cause


def why_unallocated(view: View, claims: Sequence[Object], node: str, selectors: Selectors) -> Cause:
    """What keeps claims, which one pod needs together, from being allocated on a node."""
    try:
        return _why(view, claims, node, selectors)
    except _Stop as stop:
        return stop.cause


def _why(view: View, claims: Sequence[Object], node: str, selectors: Selectors) -> Cause:
    problems = _pool_problems(view, node)
    unusable = set(problems)
    groups: list[tuple[list[list[_Choice]], list[Constraint]]] = []
    for claim in claims:
        requests = [
            [_choice(view, one, node, unusable, selectors) for one in alternatives]
            for alternatives in requests_of(claim)
        ]
        groups.append((requests, constraints_of(claim)))
    for requests, _constraints in groups:
        for alternatives in requests:
            cause = _single(alternatives, node, problems)
            if cause is not None:
                return cause
    if _possible(view, groups, free=True, constrained=True):
        return Cause(AVAILABLE, f"node {node} has devices for it that are free")
    if _possible(view, groups, free=False, constrained=True):
        return Cause(EXHAUSTED, f"node {node} has devices for it, but those are not all free")
    names = "; ".join(constraint.words for _requests, constraints in groups for constraint in constraints)
    if _possible(view, groups, free=False, constrained=False):
        return Cause(CONSTRAINT, f"no devices of {node} satisfy the constraint {names}{_lacking(groups)}")
    return Cause(TOO_FEW, f"node {node} has too few devices for all requests together")


def _pool_problems(view: View, node: str) -> dict[tuple[str, str], str]:
    found = {}
    for key in sorted({device.key[:2] for device in view.on_node(node)}):
        facts = [facts_of(slice_) for slice_ in view.pools[key]]
        words = [one.words for one in problems_of(facts) if one.kind in (INCOMPLETE, DUPLICATE, COUNTERS)]
        if words:
            found[key] = f"pool {key[1]} of {key[0]}: {'; '.join(words)}"
    return found


def _choice(view: View, request: Request, node: str, unusable: set[tuple[str, str]], selectors: Selectors) -> _Choice:
    choice = _Choice(request)
    for device in view.on_node(node):
        verdict = selectors.judge(view, request, device)
        if verdict.unknown:
            raise _Stop(Cause(UNKNOWN, verdict.unknown))
        if verdict.error:
            raise _Stop(Cause(CEL_ERROR, f"request {request.name}, {device.words}: {verdict.error}"))
        if not verdict.matches or device.key[:2] in unusable:
            continue
        taint = tolerated(device, request)
        if taint:
            choice.tainted.append(f"{device.key[2]} ({taint})")
            continue
        choice.matching.append(device)
        held = [holder for holder in view.holders.get(device.key, ()) if not holder.result.get("adminAccess")]
        shared = bool(device.body.get("allowMultipleAllocations"))
        if (shared or request.admin or not held) and fits(view, device, consumed(view, device.key[:2], (device.key,))):
            choice.free.append(device)
    return choice


def _single(alternatives: list[_Choice], node: str, problems: dict[tuple[str, str], str]) -> Optional[Cause]:
    """The cause when no alternative of a request can be satisfied even alone; that of the last one."""
    causes = [_alone(choice, node, problems) for choice in alternatives]
    return causes[-1] if all(cause is not None for cause in causes) else None


def _alone(choice: _Choice, node: str, problems: dict[tuple[str, str], str]) -> Optional[Cause]:
    request = choice.request
    wanted = max(request.number, 1)
    if len(choice.matching) < wanted and problems:
        return Cause(BROKEN_POOL, "; ".join(problems.values()))
    if len(choice.matching) < wanted and choice.tainted:
        return Cause(TAINTED, f"request {request.name}: taints keep it from {', '.join(choice.tainted)} of {node}")
    if not choice.matching:
        return Cause(NO_MATCH, f"request {request.name}: no device of {node} is what it asks for")
    if len(choice.matching) < wanted:
        return Cause(
            TOO_FEW,
            f"request {request.name}: {len(choice.matching)} devices of {node} are what it asks for, and it wants {wanted}",
        )
    short = len(choice.free) < (len(choice.matching) if request.mode == ALL else wanted)
    if short:
        return Cause(
            EXHAUSTED,
            f"request {request.name}: of {len(choice.matching)} devices of {node} that are what it asks for,"
            f" {len(choice.free)} are free, and it wants {'all' if request.mode == ALL else wanted}",
        )
    return None


def _lacking(groups: list[tuple[list[list[_Choice]], list[Constraint]]]) -> str:
    """For each constraint, the requests of which no device has the attribute: such a constraint can never hold."""
    told = []
    for requests, constraints in groups:
        for constraint in constraints:
            for choice in (one for alternatives in requests for one in alternatives if constraint.covers(one.request)):
                without = [device for device in choice.matching if broken(constraint, [device])]
                if without:
                    told.append(
                        f"{len(without)} of {len(choice.matching)} devices for {choice.request.name} lack the attribute"
                        f" {constraint.attribute} ({', '.join(device.key[2] for device in without[:3])})"
                    )
    return f" ({'; '.join(told)})" if told else ""


def _possible(
    view: View, groups: list[tuple[list[list[_Choice]], list[Constraint]]], free: bool, constrained: bool
) -> bool:
    """Whether there is any choice of devices for all claims at once."""
    steps = [_STEPS]
    taken: set[DeviceKey] = set()
    used: dict[tuple[str, str], dict[tuple[str, str], Fraction]] = {}

    def room(device: Device) -> bool:
        if not device.body.get("consumesCounters"):
            return True
        pool = device.key[:2]
        if pool not in used:
            used[pool] = consumed(view, pool) if free else {}
        return fits(view, device, used[pool])

    def count(device: Device, sign: int) -> None:
        for name, amount in consumption(device).items():
            of_pool = used.setdefault(device.key[:2], {})
            of_pool[name] = of_pool.get(name, Fraction(0)) + sign * amount

    def sets(
        choice: _Choice, constraints: list[Constraint], earlier: list[tuple[Request, Device]]
    ) -> Iterator[list[Device]]:
        pool = choice.free if free else choice.matching
        number = len(choice.matching) if choice.request.mode == ALL else choice.request.number

        def pick(start: int, chosen: list[Device]) -> Iterator[list[Device]]:
            if len(chosen) == number:
                yield list(chosen)
                return
            for place in range(start, len(pool) - (number - len(chosen)) + 1):
                steps[0] -= 1
                if steps[0] < 0:
                    raise _Stop(Cause(UNKNOWN, "there are too many combinations of devices to try them all"))
                device = pool[place]
                if device.key in taken or not room(device):
                    continue
                if constrained and not _hold(
                    constraints, [*earlier, *((choice.request, one) for one in [*chosen, device])]
                ):
                    continue
                taken.add(device.key)
                count(device, 1)
                yield from pick(place + 1, [*chosen, device])
                taken.discard(device.key)
                count(device, -1)

        yield from pick(0, [])

    def search(group: int, request: int, chosen: list[tuple[Request, Device]]) -> bool:
        if group == len(groups):
            return True
        requests, constraints = groups[group]
        if request == len(requests):
            return search(group + 1, 0, [])
        return any(
            search(group, request + 1, [*chosen, *((choice.request, device) for device in devices)])
            for choice in requests[request]
            for devices in sets(choice, constraints, chosen)
        )

    return search(0, 0, [])


def _hold(constraints: list[Constraint], chosen: list[tuple[Request, Device]]) -> bool:
    return all(
        not broken(constraint, [device for request, device in chosen if constraint.covers(request)])
        for constraint in constraints
    )
