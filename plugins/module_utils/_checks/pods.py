# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold of pods: that they run, or that they wait, and for one reason only. Private to the collection."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import Selectors
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import Object, View, allocated
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pending_cause import (
    AVAILABLE,
    CEL_ERROR,
    UNKNOWN,
    Cause,
    why_unallocated,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject

# kube-scheduler, plugin DynamicResources.
CANNOT_ALLOCATE = "cannot allocate all claims"
CEL_RUNTIME_ERROR = "CEL runtime error"
HOSTNAME = "kubernetes.io/hostname"
# Of nodes that a pod did not want in the first place.
_ELSEWHERE = re.compile(
    r"node\(s\) (didn't match Pod's node affinity/selector|had untolerated taint|were unschedulable"
    # Those that the pod's own choice of nodes leaves out early; what other plugins leave out is a reason of its own.
    r"|didn't satisfy plugin\(s\) \[(NodeAffinity|NodeName| )+\])"
)
_AVAILABLE = re.compile(r"\d+/\d+ nodes are available: (?P<parts>.*)", re.DOTALL)
_AFTERWARDS = re.compile(r"\.? (still not schedulable, )?preemption:|, still not schedulable")


class Blocked(NamedTuple):
    """What the scheduler says of a pod that it cannot place."""

    reason: str
    message: str
    # What it says of the nodes that the pod might have had.
    parts: tuple[str, ...]


def condition(pod: Object) -> Optional[Object]:
    """The scheduler's condition."""
    conditions: Sequence[Object] = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == "PodScheduled"), None)


def blocked(pod: Object) -> Optional[Blocked]:
    """Why a pod is not scheduled; None when the scheduler has not said that it cannot be."""
    said = condition(pod)
    if said is None or said.get("status") != "False":
        return None
    message = str(said.get("message") or "")
    match = _AVAILABLE.match(message)
    parts: tuple[str, ...] = (message,)
    if match:
        text = _AFTERWARDS.split(match.group("parts"))[0].rstrip(". ")
        every = [part.strip() for part in re.split(r", (?=\d+ )", text)]
        told = [re.sub(r"^\d+ ", "", part).rstrip(".") for part in every if part]
        parts = tuple(part for part in told if not _ELSEWHERE.match(part))
    return Blocked(str(said.get("reason") or ""), message, parts)


def check_running(subject: Subject, pod: Object, phase: str = "Running") -> Check:
    """The pod has reached a phase."""
    name = f"pod/{pod['metadata']['name']}"
    now = str((pod.get("status") or {}).get("phase") or "Unknown")
    where = pod["spec"].get("nodeName")
    if now == phase:
        return subject.passed(name, "pod.phase", f"{now}{f' on {where}' if where else ''}")
    why = blocked(pod)
    text = f"is {now} and not {phase}"
    if why is not None:
        text += f"; the scheduler says {why.reason}: {why.message}"
    elif where and now == "Pending":
        text += f"; it is bound to {where}, where nobody starts it (does a kubelet, or KWOK, look after that node?)"
    elif now == "Pending":
        text += "; the scheduler has said nothing (does it run?)"
    return subject.failed(name, "pod.phase", text, {"conditions": (pod.get("status") or {}).get("conditions")})


def check_pod_claims(subject: Subject, view: View, pod: Object) -> Optional[Check]:
    """Every claim that the pod names exists and is allocated; a phase alone says nothing, since KWOK looks at spec.nodeName only."""
    claims = view.claims_of(pod)
    if not claims:
        return None
    name = f"pod/{pod['metadata']['name']}"
    wrong = [
        f"{entry} {'does not exist' if claim is None else 'is not allocated'}"
        for entry, claim in claims.items()
        if claim is None or not allocated(claim)
    ]
    if not wrong:
        return subject.passed(name, "pod.claims", f"all of its claims are allocated: {', '.join(claims)}")
    phase, node = (pod.get("status") or {}).get("phase"), pod["spec"].get("nodeName")
    text = f"claim {', '.join(wrong)}"
    if node:
        text += f", although the pod is {phase} on {node}: it went past the scheduler by spec.nodeName"
    return subject.failed(name, "pod.claims", text, {"nodeName": node, "phase": phase})


def check_pending(
    subject: Subject, view: View, pod: Object, because: str, selectors: Selectors, message: str = ""
) -> list[Check]:
    """The pod waits, the scheduler says why, and the cause is the one that was meant and no other."""
    name = f"pod/{pod['metadata']['name']}"
    phase = str((pod.get("status") or {}).get("phase") or "Unknown")
    why = blocked(pod)
    if phase != "Pending" or pod["spec"].get("nodeName"):
        where = pod["spec"].get("nodeName")
        return [
            subject.failed(
                name, "pod.pending", f"should wait ({because}), but is {phase}{f' on {where}' if where else ''}"
            )
        ]
    evidence: dict[str, Any] = {"condition": condition(pod)}
    if why is None:
        return [subject.failed(name, "pod.pending", "waits, but the scheduler has not said why", evidence)]
    wanted = message or (CEL_RUNTIME_ERROR if because == CEL_ERROR else CANNOT_ALLOCATE)
    others = [part for part in why.parts if wanted not in part]
    if others or not why.parts:
        text = f"waits for another reason than {wanted!r}: {'; '.join(others) or why.message}"
        return [subject.failed(name, "pod.pending", text, evidence)]
    checks = [subject.passed(name, "pod.pending", f"Pending, {why.reason}: {why.message}", evidence)]
    cause = pending_cause(view, pod, selectors)
    if cause.kind == UNKNOWN:
        checks.append(subject.skipped(name, "pod.cause", cause.words))
    elif cause.kind == because:
        checks.append(subject.passed(name, "pod.cause", f"{cause.kind}: {cause.words}"))
    else:
        checks.append(
            subject.failed(
                name, "pod.cause", f"the cause should be {because}, but is {cause.kind}: {cause.words}", evidence
            )
        )
    return checks


def pending_cause(view: View, pod: Object, selectors: Selectors) -> Cause:
    """Our own finding of why the claims of a pod are not allocated, on the node that it is bound to or on every node with devices."""
    waiting = [claim for claim in view.claims_of(pod).values() if claim is not None and not allocated(claim)]
    if not waiting:
        return Cause(AVAILABLE, "it has no claim that waits to be allocated")
    bound = (pod["spec"].get("nodeSelector") or {}).get(HOSTNAME)
    nodes = [bound] if bound else sorted({device.node for device in view.devices.values()} - {""})
    if not nodes:
        return Cause(UNKNOWN, "no node has devices")
    causes = [why_unallocated(view, waiting, node, selectors) for node in nodes]
    available = next((cause for cause in causes if cause.kind == AVAILABLE), None)
    # Of several nodes, the last obstacle is the one that counts: that of the node that comes closest.
    return available or max(causes, key=lambda cause: _ORDER.index(cause.kind) if cause.kind in _ORDER else -1)


_ORDER = ("broken_pool", "no_match", "too_few", "tainted", "constraint", "exhausted", CEL_ERROR, UNKNOWN)
