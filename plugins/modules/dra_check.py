#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: dra_check
short_description: Check that ResourceClaims have what they ask for, and that their pods run with it
version_added: 0.1.0
description:
  - Waits until the claims and pods of a namespace are as expected, with one list of each kind at a time, and returns a check for every statement, with a
    reason and the evidence.
  - The scheduler is not believed. The selectors of claims and classes are evaluated again here, constraints and counts are verified, devices are looked
    up in the newest complete generation of their pools, and all claims of the cluster are searched for devices that were given twice and counters that
    are over-committed.
  - A pod that should wait has to wait for the cause that is named, which is found out here as well, and for no other.
  - What cannot be evaluated here is reported as skipped with the reason.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.info
  - gpulab.fleet.attributes.group_kubernetes
  - gpulab.fleet.cluster
options:
  namespace:
    description:
      - The namespace of the claims and pods.
    type: str
    required: true
  claims:
    description:
      - Only claims with these names are checked. Claims that were made from a template can also be named C(POD:NAME).
      - Unset, these are the claims of the pods that O(pods) and O(label_selector) leave, and those that O(expect) names; without either, all of the namespace.
    type: list
    elements: str
  pods:
    description:
      - Only pods with these names are checked. Others still count as users of the claims that they share.
    type: list
    elements: str
  label_selector:
    description:
      - Only pods with these labels are checked, as C(kubectl --selector) takes them. Others still count as users of the claims that they share.
    type: str
  expect:
    description:
      - What is expected beyond the usual, which is that every pod runs, that every claim which a pod uses is allocated as it asks, and that it is reserved
        for that pod.
    type: dict
    suboptions:
      pods:
        description:
          - Expectations of pods.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: The name, with C(*) for any letters.
            type: str
            required: true
          count:
            description: How many such pods there are. Unset, at least one.
            type: int
          phase:
            description: The phase that the pod has.
            type: str
            choices: [Pending, Running, Succeeded, Failed]
          node:
            description: The node that the pod is on.
            type: str
          pending:
            description:
              - The pod waits, for this cause and no other. The scheduler's own condition has to say that it cannot allocate.
              - V(no_match) no device is what a claim asks for, V(too_few) not enough devices are, V(exhausted) others have them, V(constraint) no devices
                satisfy a constraint, V(tainted) taints keep it away, V(cel_error) an expression fails, V(broken_pool) a pool cannot be used.
            type: str
            choices: [broken_pool, cel_error, no_match, too_few, tainted, exhausted, constraint]
          says:
            description: A part of what the scheduler says, when it is not what it usually says about claims.
            type: str
          claims:
            description: Whether the pod's claims are allocated. V(unallocated) is for pods that went past the scheduler by C(spec.nodeName).
            type: str
            choices: [allocated, unallocated, any]
      claims:
        description:
          - Expectations of claims.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: The name, or C(POD:NAME) for one made from a template, with C(*) for any letters.
            type: str
            required: true
          count:
            description: How many such claims there are. Unset, at least one.
            type: int
          state:
            description: Whether the claim is allocated.
            type: str
            choices: [allocated, unallocated, any]
          devices:
            description: How many devices it has.
            type: int
          chosen:
            description: For requests with alternatives, the one that was taken.
            type: dict
          where:
            description: CEL expressions that every device of the claim satisfies.
            type: list
            elements: str
          same:
            description: Attributes of which all devices of the claim have the same value.
            type: list
            elements: str
          distinct:
            description: Attributes of which every device of the claim has another value.
            type: list
            elements: str
          reserved_for:
            description: The pods that the claim is reserved for, all of them.
            type: list
            elements: str
          node:
            description: The node that its devices are on.
            type: str
      free:
        description:
          - Nodes of which no device is allocated to anybody.
        type: list
        elements: str
        default: []
  cluster:
    description:
      - The name of the cluster that the checks are filed under. Unset, it is O(context), or the address of the API server.
    type: str
  label:
    description:
      - The test that the checks are filed under. Unset, it is O(namespace).
    type: str
  wait:
    description:
      - Whether to wait until there is something to check and everything is as expected. Otherwise one look decides.
    type: bool
    default: true
  timeout_s:
    description:
      - Seconds for the whole call, waiting included.
    type: int
    default: 60
  hold_s:
    description:
      - Seconds for which something that should not happen must not have happened. They are part of O(timeout_s), which has to be longer; what is as expected
        only so late that they are not over fails as C(expect.held).
    type: int
    default: 2
  fail_on:
    description:
      - Whether failed checks make the task fail.
    type: str
    choices: [never, failed]
    default: failed
seealso:
  - module: gpulab.fleet.dra_scenario
  - module: gpulab.fleet.lab_report
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Everything in the namespace runs, with what it asks for
  gpulab.fleet.dra_check:
    namespace: training
  delegate_to: localhost

- name: Eight GPUs of one node for the first job, and the second waits for them
  gpulab.fleet.dra_check:
    namespace: training
    expect:
      claims:
        - name: first:gpus
          devices: 8
          same: [gpu.nvidia.com/productName]
      pods:
        - name: second
          pending: exhausted
  delegate_to: localhost
"""

RETURN = r"""
checks:
  description: A check for every statement, in the form that M(gpulab.fleet.lab_report) takes.
  returned: always
  type: list
  elements: dict
  sample:
    - host: lab
      claim: first:gpus
      test: training
      name: claim.selectors
      status: passed
      reason: every device satisfies the selectors of its class and request, evaluated again
      evidence: null
      seconds: 1.2
summary:
  description: How many passed, failed and were skipped.
  returned: always
  type: dict
  sample: {passed: 12, failed: 0, skipped: 0}
"""

import time
from copy import copy
from dataclasses import replace
from typing import AbstractSet as Set
from typing import Any, Mapping

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import Selectors
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import Object, View, allocated, subject_of
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pending_cause import CAUSES
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pods import HOSTNAME
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import FAILED, Check, Subject, summarise
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import POD
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import (
    cluster_arguments,
    connect,
    secrets_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.expectations import (
    PHASES,
    STATES,
    Expectations,
    parse_expectations,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.judge import claim_fits, judge
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.observe import Observer, Seen

INTERVAL_S = 1.0

ARGUMENT_SPEC: dict[str, Any] = {
    **cluster_arguments(),
    "namespace": {"type": "str", "required": True},
    "claims": {"type": "list", "elements": "str"},
    "pods": {"type": "list", "elements": "str"},
    "label_selector": {"type": "str"},
    "expect": {
        "type": "dict",
        "options": {
            "pods": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "count": {"type": "int"},
                    "phase": {"type": "str", "choices": list(PHASES)},
                    "node": {"type": "str"},
                    "pending": {"type": "str", "choices": list(CAUSES)},
                    "says": {"type": "str"},
                    "claims": {"type": "str", "choices": list(STATES)},
                },
            },
            "claims": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "count": {"type": "int"},
                    "state": {"type": "str", "choices": list(STATES)},
                    "devices": {"type": "int"},
                    "chosen": {"type": "dict"},
                    "where": {"type": "list", "elements": "str"},
                    "same": {"type": "list", "elements": "str"},
                    "distinct": {"type": "list", "elements": "str"},
                    "reserved_for": {"type": "list", "elements": "str"},
                    "node": {"type": "str"},
                },
            },
            "free": {"type": "list", "elements": "str", "default": []},
        },
    },
    "cluster": {"type": "str"},
    "label": {"type": "str"},
    "wait": {"type": "bool", "default": True},
    "timeout_s": {"type": "int", "default": 60},
    "hold_s": {"type": "int", "default": 2},
    "fail_on": {"type": "str", "choices": ["never", "failed"], "default": "failed"},
}


class Scope:
    """The objects that are checked; which these are by labels and by use is known for one look only."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.namespace = params["namespace"]
        self.claims = params["claims"]
        self.pods = params["pods"]
        self.labels = params["label_selector"] or ""
        self._labelled: Set[str] = frozenset()
        self._used: Set[str] | None = None

    def at(self, kubernetes: Kubernetes, seen: Seen, expectations: Expectations) -> Scope:
        """The scope of one look. All pods are listed, since those that are not checked use claims, too; the server says which have the labels."""
        scope = copy(self)
        if self.labels:
            labelled = kubernetes.list_metadata(POD, self.namespace, labels=self.labels)
            scope._labelled = {str(pod["metadata"]["uid"]) for pod in labelled}
        if self.claims is None and (self.labels or self.pods is not None):
            view = View(claims=seen.claims, pods=seen.pods)
            of_pods = [
                claim for pod in seen.pods if scope(pod) for claim in view.claims_of(pod).values() if claim is not None
            ]
            named = [claim for claim in seen.claims for one in expectations.claims if claim_fits(claim, one.name)]
            scope._used = {str(claim["metadata"]["uid"]) for claim in of_pods + named}
        return scope

    def __call__(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        if metadata.get("namespace") != self.namespace:
            return False
        if obj.get("kind") == "Pod":
            return (self.pods is None or metadata["name"] in self.pods) and (
                not self.labels or metadata["uid"] in self._labelled
            )
        if self._used is not None:
            return metadata["uid"] in self._used
        return self.claims is None or bool({metadata["name"], subject_of(obj)} & set(self.claims))


def look(
    observer: Observer, scope: Scope, expectations: Expectations, subject: Subject, selectors: Selectors
) -> list[Check]:
    """The checks of this moment."""
    seen = observer.look()
    scope = scope.at(observer.kubernetes, seen, expectations)
    pods = [pod for pod in seen.pods if scope(pod)]
    nodes = {str(pod["spec"]["nodeName"]) for pod in pods if pod["spec"].get("nodeName")} | set(expectations.free)
    # Why a claim is not allocated depends on the nodes that its pod may have, which can be any.
    everything = False
    if any(scope(claim) and not allocated(claim) for claim in seen.claims):
        bound = [
            (pod["spec"].get("nodeSelector") or {}).get(HOSTNAME) for pod in pods if not pod["spec"].get("nodeName")
        ]
        nodes |= {str(node) for node in bound if node}
        everything = not all(bound)
    view = observer.view(seen, scope, nodes, everything)
    return missing(subject, view, scope) + judge(subject, view, expectations, scope, selectors)


def missing(subject: Subject, view: View, scope: Scope) -> list[Check]:
    """What was named and does not exist."""
    pods = {str(pod["metadata"]["name"]) for pod in view.pods if scope(pod)}
    claims = {name for one in view.claims if scope(one) for name in (str(one["metadata"]["name"]), subject_of(one))}
    return [
        subject.failed(f"pod/{name}", "pod.exists", f"namespace {scope.namespace} has no pod {name}")
        for name in scope.pods or ()
        if name not in pods
    ] + [
        subject.failed(name, "claim.exists", f"namespace {scope.namespace} has no claim {name}")
        for name in scope.claims or ()
        if name not in claims
    ]


def run(params: Mapping[str, Any], observer: Observer, subject: Subject, deadline: Deadline) -> list[Check]:
    expectations = parse_expectations(_set(params["expect"]))
    if params["wait"] and expectations.of_absence and params["hold_s"] >= params["timeout_s"]:
        raise FleetError(
            f"expect has something that should not happen, which has to hold for hold_s, {params['hold_s']} s, and timeout_s, {params['timeout_s']} s,"
            " is over before; give a longer timeout_s",
            option="timeout_s",
        )
    scope, selectors = Scope(params), Selectors()
    good_since_s: float | None = None
    while True:
        started_s = deadline.elapsed_s()
        checks = look(observer, scope, expectations, subject, selectors)
        good = bool(checks) and all(check.status != FAILED for check in checks)
        if good:
            good_since_s = started_s if good_since_s is None else good_since_s
        else:
            good_since_s = None
        hold_s = params["hold_s"] if expectations.of_absence else 0
        settled = good_since_s is not None and started_s - good_since_s >= hold_s
        over = deadline.expired() if good else deadline.remaining_s() <= INTERVAL_S
        if good_since_s is not None and params["wait"] and over and not settled:
            checks.append(
                subject.failed(
                    "expect",
                    "expect.held",
                    f"everything is as expected, but for {started_s - good_since_s:.1f} s of hold_s, {hold_s} s, only"
                    f" when timeout_s, {deadline.timeout_s:.0f} s, was over",
                )
            )
        if settled or over or not params["wait"]:
            return [replace(check, seconds=deadline.elapsed_s()) for check in checks]
        time.sleep(min(INTERVAL_S, deadline.remaining_s()))


def _set(value: Any) -> Any:
    """Without the options that were not given."""
    if isinstance(value, Mapping):
        return {key: _set(item) for key, item in value.items() if item is not None}
    return [_set(item) for item in value] if isinstance(value, list) else value


def message(checks: list[dict[str, object]]) -> str:
    """What failed, for the task's own message."""
    failed = [check for check in checks if check["status"] == FAILED]
    told = "; ".join(f"{check['claim']} {check['name']}: {check['reason']}" for check in failed[:5])
    return f"{len(failed)} checks failed: {told}{f' and {len(failed) - 5} more' if len(failed) > 5 else ''}"


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.no_log_values.update(secrets_of(module.params))
    params = module.params
    try:
        for option, least in (("timeout_s", 1), ("hold_s", 0)):
            if params[option] < least:
                raise FleetError(f"{option} is {params[option]}; give {least} or more", option=option)
        deadline = Deadline(params["timeout_s"])
        kubernetes = connect(params, deadline)
        host = params["cluster"] or params["context"] or kubernetes.host
        subject = Subject(host, params["label"] or params["namespace"], kind="claim")
        observer = Observer(kubernetes, kubernetes.dra_version(), params["namespace"])
        checks = [check.to_dict() for check in run(params, observer, subject, deadline)]
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    for text in kubernetes.warnings:
        module.warn(text)
    result = {"changed": False, "checks": checks, "summary": summarise(checks)}
    if not checks:
        module.fail_json(
            msg=f"namespace {params['namespace']} has nothing to check: no such pods, and no claims; a check that looks at nothing"
            " proves nothing",
            **result,
        )
    if result["summary"][FAILED] and params["fail_on"] == "failed":  # type: ignore[index]
        module.fail_json(msg=message(checks), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
