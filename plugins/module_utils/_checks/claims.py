# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold of one allocated claim: it has what it asks for, such devices exist, and its pods have it. Private to the collection."""

from __future__ import annotations

from typing import Any, Callable, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.claim_sharing import shared_checks
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import (
    ALL,
    Request,
    Selectors,
    broken,
    constraints_of,
    requests_of,
    tolerated,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import (
    Device,
    Object,
    View,
    allocated,
    claim_name,
    reserved_for,
    result_key,
    results_of,
    subject_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pools import (
    DUPLICATE,
    INCOMPLETE,
    facts_of,
    problems_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject

_SHOWN = 4


def check_claim(subject: Subject, view: View, claim: Object, selectors: Selectors) -> list[Check]:
    """All checks of a claim that should be allocated."""
    name = subject_of(claim)
    if not allocated(claim):
        return [subject.failed(name, "claim.allocated", not_allocated(view, claim), _evidence(claim))]
    results = results_of(claim)
    checks = [
        subject.passed(
            name,
            "claim.allocated",
            f"{claim_name(claim)} has {len(results)} {'device' if len(results) == 1 else 'devices'}:"
            f" {_some(['/'.join(result_key(result)) for result in results])}",
            _evidence(claim),
        )
    ]
    for check, judge in _CHECKS:
        reasons = judge(view, claim, selectors)
        checks.append(_check(subject, name, check, reasons, claim))
    return checks + shared_checks(subject, name, view, claim)


class Reasons:
    """What speaks for and against a statement; `unknown` is what could not be found out."""

    def __init__(self, good: str = "") -> None:
        self.good = good
        self.bad: list[str] = []
        self.unknown: list[str] = []


def _check(subject: Subject, name: str, check: str, reasons: Reasons, claim: Object) -> Check:
    if reasons.bad:
        return subject.failed(name, check, _some(reasons.bad), _evidence(claim))
    if reasons.unknown:
        return subject.skipped(name, check, _some(reasons.unknown), _evidence(claim))
    return subject.passed(name, check, reasons.good)


def not_allocated(view: View, claim: Object) -> str:
    """That a claim is not allocated, and what is known of those who wait for it."""
    text = f"{claim_name(claim)} is not allocated"
    for pod in view.users_of(claim):
        phase, node = (pod.get("status") or {}).get("phase"), pod["spec"].get("nodeName")
        who = f"pod {pod['metadata']['name']}"
        if node and phase != "Pending":
            text += (
                f"; {who} is {phase} on {node} nevertheless: it got its node by spec.nodeName, past the scheduler,"
                " which alone allocates"
            )
        else:
            text += f"; {who} is {phase}"
    return text


def _devices(view: View, claim: Object, _selectors: Selectors) -> Reasons:
    """The devices exist in the newest generation of their pools, and these can be used."""
    reasons = Reasons("all devices are in the newest complete generation of their pools")
    for result in results_of(claim):
        key = result_key(result)
        pool = key[:2]
        if pool not in view.pools:
            reasons.bad.append(f"device {key[2]}: driver {key[0]} publishes no pool {key[1]}")
        elif key not in view.devices:
            newest = view.generation(pool)
            if key in view.stale:
                reasons.bad.append(
                    f"device {key[2]} is only in generation {view.stale[key]} of pool {key[1]}, which is stale; the newest"
                    f" is {newest}"
                )
            else:
                reasons.bad.append(f"pool {key[1]} of {key[0]} has no device {key[2]} (generation {newest})")
    for pool in sorted({result_key(result)[:2] for result in results_of(claim)} & set(view.pools)):
        for problem in problems_of([facts_of(slice_) for slice_ in view.pools[pool]]):
            if problem.kind in (INCOMPLETE, DUPLICATE):
                reasons.bad.append(f"pool {pool[1]} of {pool[0]}: {problem.words}")
    return reasons


def _count(view: View, claim: Object, selectors: Selectors) -> Reasons:
    """As many devices as asked for, of each request, and of one alternative only."""
    reasons, told = Reasons(), []
    known = {one.name for alternatives in requests_of(claim) for one in alternatives}
    for result in results_of(claim):
        if result.get("request") not in known:
            reasons.bad.append(f"a device was given for {result.get('request')!r}, which the claim does not ask for")
    for alternatives in requests_of(claim):
        chosen = [one for one in alternatives if _given(claim, one)]
        parent = alternatives[0].parent
        if len(chosen) != 1:
            names = ", ".join(one.name for one in chosen or alternatives)
            reasons.bad.append(
                f"request {parent} got nothing" if not chosen else f"request {parent} got several alternatives: {names}"
            )
            continue
        request, given = chosen[0], len(_given(claim, chosen[0]))
        if request.mode == ALL:
            told.append(_all(view, claim, request, selectors, reasons))
        elif given != request.number:
            reasons.bad.append(f"request {request.name} asks for {request.number} and got {given}")
        else:
            told.append(f"{request.name}: {given}")
    reasons.good = f"as many as asked for ({', '.join(told)})"
    return reasons


def _all(view: View, claim: Object, request: Request, selectors: Selectors, reasons: Reasons) -> str:
    given = {result_key(result) for result in _given(claim, request)}
    nodes = {view.devices[key].node for key in given if key in view.devices}
    wanted = set()
    for node in nodes:
        for device in view.on_node(node):
            verdict = selectors.judge(view, request, device)
            if verdict.unknown:
                reasons.unknown.append(verdict.unknown)
            elif verdict.matches and not tolerated(device, request):
                wanted.add(device.key)
    missing = sorted(key[2] for key in wanted - given)
    if missing and not reasons.unknown:
        reasons.bad.append(f"request {request.name} asks for all and did not get {_some(missing)}")
    return f"{request.name}: all {len(given)}"


def _given(claim: Object, request: Request) -> list[Object]:
    return [result for result in results_of(claim) if result.get("request") == request.name]


def _selectors(view: View, claim: Object, selectors: Selectors) -> Reasons:
    """Every device satisfies its class and its request, as evaluated here."""
    reasons = Reasons("every device satisfies the selectors of its class and request, evaluated again")
    requests = {one.name: one for alternatives in requests_of(claim) for one in alternatives}
    for result in results_of(claim):
        request, device = requests.get(str(result.get("request"))), view.devices.get(result_key(result))
        if request is None or device is None:
            # Told by other checks.
            reasons.unknown.append(f"{result.get('device')} of {result.get('pool')} cannot be looked at")
            continue
        verdict = selectors.judge(view, request, device)
        if verdict.unknown:
            reasons.unknown.append(verdict.unknown)
        elif verdict.error:
            reasons.bad.append(f"{device.words}, given for {request.name}: {verdict.error}")
        elif not verdict.matches:
            reasons.bad.append(f"{device.words}, given for {request.name}, does not satisfy {verdict.because!r}")
    return reasons


def _constraints(view: View, claim: Object, _selectors: Selectors) -> Reasons:
    found = constraints_of(claim)
    reasons = Reasons(
        f"{len(found)} {'constraint holds' if len(found) == 1 else 'constraints hold'}: "
        + "; ".join(constraint.words for constraint in found)
        if found
        else "the claim has no constraints"
    )
    requests = {one.name: one for alternatives in requests_of(claim) for one in alternatives}
    for constraint in found:
        devices: list[Device] = []
        for result in results_of(claim):
            request, device = requests.get(str(result.get("request"))), view.devices.get(result_key(result))
            if request is None or not constraint.covers(request):
                continue
            if device is None:
                reasons.unknown.append(f"{result.get('device')} of {result.get('pool')} cannot be looked at")
            else:
                devices.append(device)
        problem = broken(constraint, devices)
        if problem:
            reasons.bad.append(f"{constraint.words} does not hold: {problem}")
    return reasons


def _reserved(view: View, claim: Object, _selectors: Selectors) -> Reasons:
    """The pods that use the claim are those that it is reserved for."""
    users = [pod for pod in view.users_of(claim) if (pod["spec"].get("nodeName"))]
    entries = reserved_for(claim)
    reasons = Reasons(f"reservedFor names {', '.join(str(entry.get('name')) for entry in entries) or 'nobody'}")
    for pod in users:
        name, uid = str(pod["metadata"]["name"]), pod["metadata"].get("uid")
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or pod["metadata"].get(
            "deletionTimestamp"
        ):
            continue
        same = [entry for entry in entries if entry.get("name") == name]
        if not same:
            reasons.bad.append(f"reservedFor does not name pod {name}, which runs on {pod['spec']['nodeName']} with it")
        elif uid and all(entry.get("uid") not in (None, uid) for entry in same):
            reasons.bad.append(f"reservedFor names an earlier pod {name} (uid {same[0].get('uid')}, not {uid})")
    pods = {str(pod["metadata"]["name"]) for pod in view.users_of(claim)}
    gone = [
        str(entry.get("name")) for entry in entries if entry.get("resource") == "pods" and entry["name"] not in pods
    ]
    if gone:
        reasons.bad.append(f"reservedFor names {', '.join(gone)}, which do not use the claim or do not exist")
    return reasons


def _node(view: View, claim: Object, _selectors: Selectors) -> Reasons:
    """The devices are where the pods are."""
    nodes = sorted({view.devices[key].node for key in map(result_key, results_of(claim)) if key in view.devices} - {""})
    reasons = Reasons(f"the devices are on {', '.join(nodes) or 'no particular node'}, and so are the pods")
    if len(nodes) > 1:
        reasons.bad.append(f"the devices are on {len(nodes)} nodes: {', '.join(nodes)}")
    for pod in view.users_of(claim):
        where = pod["spec"].get("nodeName")
        if where and nodes and where not in nodes:
            reasons.bad.append(f"pod {pod['metadata']['name']} is on {where}, the devices are on {', '.join(nodes)}")
    return reasons


_CHECKS: tuple[tuple[str, Callable[[View, Object, Selectors], Reasons]], ...] = (
    ("claim.devices", _devices),
    ("claim.count", _count),
    ("claim.selectors", _selectors),
    ("claim.constraints", _constraints),
    ("claim.reserved", _reserved),
    ("claim.node", _node),
)


def _evidence(claim: Object) -> dict[str, Any]:
    status: Optional[Object] = claim.get("status")
    return {"claim": claim_name(claim), "status": status or {}}


def _some(texts: list[str]) -> str:
    different = list(dict.fromkeys(texts))
    more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
    return "; ".join(different[:_SHOWN]) + more
