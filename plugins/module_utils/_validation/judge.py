# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expectations next to what was seen: the checks of one look. Pure. Private to the collection."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Callable, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.claims import check_claim, not_allocated
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import (
    DISTINCT,
    MATCH,
    Constraint,
    Selectors,
    broken,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import (
    Object,
    View,
    allocated,
    claim_name,
    reserved_for,
    result_key,
    results_of,
    subject_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pods import (
    check_pending,
    check_pod_claims,
    check_running,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.expectations import (
    ALLOCATED,
    ANY,
    UNALLOCATED,
    ClaimExpectation,
    Expectations,
    PodExpectation,
)

Scope = Callable[[Object], bool]


def judge(subject: Subject, view: View, expectations: Expectations, scope: Scope, selectors: Selectors) -> list[Check]:
    """All checks of the claims and pods that are in scope. Claims of others matter, too: they hold devices."""
    pods = [pod for pod in view.pods if scope(pod)]
    claims = [claim for claim in view.claims if scope(claim)]
    checks: list[Check] = []
    settled: set[str] = set()
    for pod_expectation in expectations.pods:
        matching = [pod for pod in pods if fnmatchcase(str(pod["metadata"]["name"]), pod_expectation.name)]
        checks += _number(subject, f"pod/{pod_expectation.name}", "pod.number", matching, pod_expectation.number, "pod")
        for pod in matching:
            settled.add(_id(pod))
            checks += _pod(subject, view, pod, pod_expectation, selectors)
            if pod_expectation.claims != ALLOCATED:
                # The claim of a pod that waits is no fault, unless something else is said of it.
                settled.update(_id(claim) for claim in view.claims_of(pod).values() if claim is not None)
    for claim_expectation in expectations.claims:
        matching = [claim for claim in claims if claim_fits(claim, claim_expectation.name)]
        checks += _number(subject, claim_expectation.name, "claim.number", matching, claim_expectation.number, "claim")
        for claim in matching:
            settled.add(_id(claim))
            checks += _claim(subject, view, claim, claim_expectation, selectors)
    for pod in pods:
        if _id(pod) not in settled:
            checks += _pod(subject, view, pod, PodExpectation(str(pod["metadata"]["name"])), selectors)
    for claim in claims:
        # A claim that nobody uses need not be allocated; when it is, it has to be right.
        if _id(claim) not in settled and (allocated(claim) or view.users_of(claim)):
            checks += check_claim(subject, view, claim, selectors)
    for node in expectations.free:
        checks.append(_free(subject, view, node))
    return checks


def _id(obj: Object) -> str:
    metadata = obj["metadata"]
    return str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata['name']}")


def claim_fits(claim: Object, pattern: str) -> bool:
    """Whether an expectation means a claim: by its own name, or by `POD:NAME`."""
    return fnmatchcase(str(claim["metadata"]["name"]), pattern) or fnmatchcase(subject_of(claim), pattern)


def _number(
    subject: Subject, name: str, check: str, matching: Sequence[Object], wanted: int | None, what: str
) -> list[Check]:
    names = ", ".join(str(one["metadata"]["name"]) for one in matching[:5])
    if wanted is None:
        return [] if matching else [subject.failed(name, check, f"there is no such {what}")]
    text = f"there {'is' if len(matching) == 1 else 'are'} {len(matching)}{f' ({names})' if names else ''}"
    if len(matching) == wanted:
        return [subject.passed(name, check, text)]
    return [subject.failed(name, check, f"{text}, expected are {wanted}")]


def _pod(subject: Subject, view: View, pod: Object, expected: PodExpectation, selectors: Selectors) -> list[Check]:
    if expected.pending:
        return check_pending(subject, view, pod, expected.pending, selectors, expected.says)
    checks = [check_running(subject, pod, expected.phase)]
    name, where = f"pod/{pod['metadata']['name']}", str(pod["spec"].get("nodeName") or "")
    if expected.node:
        checks.append(
            subject.passed(name, "pod.node", f"is on {where}")
            if where == expected.node
            else subject.failed(name, "pod.node", f"is on {where or 'no node'} and not on {expected.node}")
        )
    found = check_pod_claims(subject, view, pod)
    if expected.claims == ALLOCATED and found is not None:
        checks.append(found)
    elif expected.claims == UNALLOCATED:
        checks.append(_past_the_scheduler(subject, name, found))
    return checks


def _past_the_scheduler(subject: Subject, name: str, found: Check | None) -> Check:
    """The check of a pod's claims has to fail: it is what tells such a pod from one that has its devices."""
    if found is not None and found.status == "failed":
        return subject.passed(name, "pod.unallocated", f"told from an allocated pod: {found.reason}", found.evidence)
    text = found.reason if found is not None else "it has no claims"
    return subject.failed(name, "pod.unallocated", f"should be found without an allocation, but {text}")


def _claim(
    subject: Subject, view: View, claim: Object, expected: ClaimExpectation, selectors: Selectors
) -> list[Check]:
    name = subject_of(claim)
    if expected.state == UNALLOCATED:
        if allocated(claim):
            devices = ", ".join("/".join(result_key(result)) for result in results_of(claim))
            return [subject.failed(name, "claim.unallocated", f"{claim_name(claim)} still has {devices}")]
        if reserved_for(claim):
            return [subject.failed(name, "claim.unallocated", f"{claim_name(claim)} is still reserved")]
        return [subject.passed(name, "claim.unallocated", not_allocated(view, claim))]
    if expected.state == ANY:
        return []
    checks = check_claim(subject, view, claim, selectors)
    if not allocated(claim):
        return checks
    for check, reason, problem in _further(view, claim, expected):
        checks.append(subject.failed(name, check, problem) if problem else subject.passed(name, check, reason))
    return checks + [_where(subject, name, view, claim, expression, selectors) for expression in expected.where]


def _where(subject: Subject, name: str, view: View, claim: Object, expression: str, selectors: Selectors) -> Check:
    """Every device satisfies an expression; what cannot be evaluated here is skipped, as it is for the claim's own expressions."""
    check, unknown = "claim.expected_selector", ""
    for key in map(result_key, results_of(claim)):
        device = view.devices.get(key)
        if device is None:
            unknown = f"{key[2]} of {key[1]} cannot be looked at"
            continue
        verdict = selectors.verdict([expression], device)
        if verdict.unknown:
            unknown = verdict.unknown
        elif not verdict.matches:
            return subject.failed(name, check, f"{device.words}: {verdict.error or f'does not satisfy {expression!r}'}")
    if unknown:
        return subject.skipped(name, check, unknown)
    return subject.passed(name, check, f"every device satisfies {expression!r}")


def _further(view: View, claim: Object, expected: ClaimExpectation) -> list[tuple[str, str, str]]:
    """Triples of a check, what it says when it holds, and what is wrong."""
    results = results_of(claim)
    devices = [view.devices[key] for key in map(result_key, results) if key in view.devices]
    found: list[tuple[str, str, str]] = []
    if expected.devices is not None:
        wrong = (
            "" if len(results) == expected.devices else f"has {len(results)} devices, expected are {expected.devices}"
        )
        found.append(("claim.expected_devices", f"has {len(results)}", wrong))
    for request, alternative in expected.chosen.items():
        names = {
            str(result.get("request")) for result in results if str(result.get("request")).startswith(f"{request}/")
        }
        good = names == {f"{request}/{alternative}"}
        told = ", ".join(sorted(names)) or "nothing"
        found.append(
            ("claim.expected_choice", f"{told} was chosen", "" if good else f"{told} was chosen, not {alternative}")
        )
    for kind, attributes in ((MATCH, expected.same), (DISTINCT, expected.distinct)):
        for attribute in attributes:
            wrong = broken(Constraint(kind, attribute, ()), devices)
            words = "the same" if kind == MATCH else "a different one"
            found.append(("claim.expected_attribute", f"all devices have {words}: {attribute}", wrong))
    if expected.reserved_for is not None:
        names_now = sorted(str(entry.get("name")) for entry in reserved_for(claim))
        wanted = sorted(expected.reserved_for)
        wrong = "" if names_now == wanted else f"is reserved for {names_now}, expected is {wanted}"
        found.append(("claim.expected_pods", f"is reserved for {', '.join(names_now) or 'nobody'}", wrong))
    if expected.node:
        nodes = sorted({device.node for device in devices})
        wrong = (
            "" if nodes == [expected.node] else f"is on {', '.join(nodes) or 'no node'}, expected is {expected.node}"
        )
        found.append(("claim.expected_node", f"is on {expected.node}", wrong))
    return found


def _free(subject: Subject, view: View, node: str) -> Check:
    """No device of a node is allocated."""
    name = f"node/{node}"
    held = {
        f"{device.key[2]} by {holder.words}"
        for device in view.on_node(node)
        for holder in view.holders.get(device.key, ())
        if not holder.result.get("adminAccess")
    }
    if held:
        return subject.failed(name, "node.free", f"devices are still allocated: {', '.join(sorted(held)[:5])}")
    return subject.passed(name, "node.free", f"none of {len(view.on_node(node))} devices is allocated")
