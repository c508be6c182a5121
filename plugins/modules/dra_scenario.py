#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: dra_scenario
short_description: Run scenarios of dynamic resource allocation in a cluster, and check what becomes of them
version_added: 0.1.0
description:
  - A scenario is a YAML file with manifests, steps and expectations. Each runs in a namespace of its own, on nodes that no other scenario uses meanwhile,
    and is removed whatever happens. Several run at a time.
  - A scenario that the cluster cannot show, for want of a device, a feature gate or a Kubernetes version, is skipped with the reason. Where a node would
    do but its slices are broken, the scenario runs and fails.
  - The checks are those of M(gpulab.fleet.dra_check). Beside them, every pool of the cluster is judged.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group_kubernetes
  - gpulab.fleet.cluster
attributes:
  check_mode:
    support: full
    details:
      - Says which scenarios would run and on which nodes, and judges the pools. Nothing is made.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - What a scenario makes is removed again, so nothing is ever changed.
options:
  paths:
    description:
      - Files with scenarios and folders of such files. A later scenario replaces an earlier one of the same name.
    type: list
    elements: path
    required: true
  only:
    description:
      - The names of the scenarios to run. Unset, all.
    type: list
    elements: str
  skip:
    description:
      - The names of scenarios to leave out.
    type: list
    elements: str
    default: []
  variables:
    description:
      - Variables for the templates of scenarios. C(classes) has the names of the DeviceClasses for V(gpu), V(mig) and V(nic).
    type: dict
    default: {}
  nodes:
    description:
      - Only these nodes are used. Unset, any that is ready and has devices which are free.
    type: list
    elements: str
    default: []
  node_selector:
    description:
      - Labels that pods ask of their node, beside its name.
    type: dict
    default: {}
  tolerations:
    description:
      - Tolerations of pods that have none of their own.
    type: list
    elements: dict
    default:
      - key: kwok.x-k8s.io/node
        operator: Exists
  image:
    description:
      - The image of containers that have none of their own. KWOK pulls nothing.
    type: str
    default: pause
  features:
    description:
      - For feature gates by name, whether they are on. Unset, the API server's metrics say so.
    type: dict
    default: {}
  parallel:
    description:
      - How many scenarios run at a time, at most.
    type: int
    default: 8
  within_s:
    description:
      - Seconds for each expectation of a scenario to come true, unless it has a time of its own.
    type: int
    default: 30
  timeout_s:
    description:
      - Seconds for the whole call. Scenarios that have not begun by then fail.
    type: int
    default: 600
  cluster:
    description:
      - The name of the cluster that the checks are filed under. Unset, it is O(context), or the address of the API server.
    type: str
  keep_dir:
    description:
      - A folder that gets a folder for each scenario that failed, with its claims, pods, events, and the slices of its nodes.
    type: path
  progress_path:
    description:
      - A file to which lines of progress are appended, as JSON.
      - Unset, it is one below C($XDG_STATE_HOME/gpulab-fleet/progress), where the callback P(gpulab.fleet.progress#callback) finds it.
    type: path
  fail_on:
    description:
      - Whether failed checks make the task fail.
    type: str
    choices: [never, failed]
    default: failed
requirements:
  - PyYAML and Jinja2 for the Python interpreter that runs the module
  - common-expression-language for the Python interpreter that runs the module
seealso:
  - module: gpulab.fleet.dra_check
  - module: gpulab.fleet.lab_report
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Run the scenarios of a folder against the cluster of a kubeconfig
  gpulab.fleet.dra_scenario:
    kubeconfig: ~/.kube/lab
    paths: [scenarios]
  register: validation

- name: Only one, on nodes of our choice, and whatever comes out
  gpulab.fleet.dra_scenario:
    paths: [scenarios]
    only: [one_pod_one_gpu]
    nodes: [p5-000, p5-001]
    fail_on: never
"""

RETURN = r"""
checks:
  description: A check for every statement, in the form that M(gpulab.fleet.lab_report) takes.
  returned: when scenarios were run
  type: list
  elements: dict
  sample:
    - host: lab
      claim: pod-1:gpu
      test: one_pod_one_gpu
      name: claim.count
      status: passed
      reason: 'as many as asked for (gpu: 1)'
      evidence: null
      seconds: 1.2
summary:
  description: How many checks passed, failed and were skipped.
  returned: when scenarios were run
  type: dict
  sample: {passed: 212, failed: 0, skipped: 1}
scenarios:
  description: The scenarios in order of their names.
  returned: when scenarios were run
  type: list
  elements: dict
  contains:
    name:
      description: The name of its file.
      type: str
      returned: always
    description:
      description: What holds when it passes.
      type: str
      returned: always
    status:
      description: C(passed), C(failed), C(skipped), or C(would run) in check mode.
      type: str
      returned: always
    reason:
      description: Why it failed or was skipped.
      type: str
      returned: always
    nodes:
      description: The nodes that it had.
      type: list
      elements: str
      returned: always
    seconds:
      description: How long it took.
      type: float
      returned: always
    kept:
      description: The folder with what was kept of it; empty unless it failed.
      type: str
      returned: always
kept:
  description: The folders with what was kept of failed scenarios.
  returned: when scenarios were run
  type: list
  elements: str
swept:
  description: Namespaces of earlier runs that had been killed, which were removed.
  returned: when scenarios were run
  type: list
  elements: str
"""

import uuid
from typing import Any, Mapping

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import FAILED, summarise
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import FEATURES, enabled_gates
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ApiError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import (
    cluster_arguments,
    connect,
    open_progress,
    secrets_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.dress import RUN_LABEL
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.observe import Observer
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.run import Setting
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.scenario import (
    Scenario,
    find_scenarios,
    load_scenario,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.suite import Result, run_scenarios

CLASSES = {"gpu": "gpu.nvidia.com", "mig": "mig.nvidia.com", "nic": "dra.net"}

ARGUMENT_SPEC: dict[str, Any] = {
    **cluster_arguments(),
    "paths": {"type": "list", "elements": "path", "required": True},
    "only": {"type": "list", "elements": "str"},
    "skip": {"type": "list", "elements": "str", "default": []},
    "variables": {"type": "dict", "default": {}},
    "nodes": {"type": "list", "elements": "str", "default": []},
    "node_selector": {"type": "dict", "default": {}},
    "tolerations": {
        "type": "list",
        "elements": "dict",
        "default": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
    },
    "image": {"type": "str", "default": "pause"},
    "features": {"type": "dict", "default": {}},
    "parallel": {"type": "int", "default": 8},
    "within_s": {"type": "int", "default": 30},
    "timeout_s": {"type": "int", "default": 600},
    "cluster": {"type": "str"},
    "keep_dir": {"type": "path"},
    "progress_path": {"type": "path"},
    "fail_on": {"type": "str", "choices": ["never", "failed"], "default": "failed"},
}


def chosen(params: Mapping[str, Any]) -> list[Scenario]:
    """The scenarios to run; a name that no file has is an error."""
    found = find_scenarios(params["paths"])
    for option in ("only", "skip"):
        unknown = sorted(set(params[option] or ()) - set(found))
        if unknown:
            raise FleetError(f"{option} has {unknown[0]!r}; there are {', '.join(sorted(found))}", option=option)
    names = params["only"] if params["only"] is not None else sorted(found)
    wanted = [name for name in names if name not in params["skip"]]
    if not wanted:
        raise FleetError("no scenario is left to run; look at only and skip", option="only")
    return [load_scenario(name, found[name]) for name in wanted]


class Features:
    """Which feature gates are on, as far as the cluster or the user says."""

    def __init__(self, kubernetes: Kubernetes, minor: int, given: Mapping[str, Any]) -> None:
        self.kubernetes = kubernetes
        self.minor = minor
        self.given = {str(name): bool(on) for name, on in given.items()}
        self._gates: dict[str, bool] | None = None
        self._why = ""

    def lacks(self, name: str) -> str:
        """Why a feature, by the name that control planes know it by, cannot be used; empty when it can."""
        feature = FEATURES.get(name)
        if feature is None:
            raise FleetError(f"a scenario needs the feature {name!r}; there are {', '.join(sorted(FEATURES))}")
        gate = next(iter(feature.gates))
        if self.minor < feature.since:
            return (
                f"needs the feature gate {gate}, which Kubernetes has since 1.{feature.since}; this is 1.{self.minor}"
            )
        on = self.given.get(gate, self.given.get(name))
        if on is None:
            on = self._reported().get(gate)
        if on is None:
            why = self._why or "the API server does not say"
            return f"needs the feature gate {gate}; whether it is on is not known ({why}), say so with features"
        return "" if on else f"needs the feature gate {gate}, which is off"

    def _reported(self) -> dict[str, bool]:
        if self._gates is None:
            try:
                self._gates = enabled_gates(self.kubernetes.raw("GET", "/metrics").body.decode(errors="replace"))
            except ApiError as error:
                self._gates, self._why = {}, error.message
        return self._gates


def run(params: Mapping[str, Any], kubernetes: Kubernetes, deadline: Deadline, dry: bool) -> Result:
    scenarios = chosen(params)
    progress = open_progress(params, "dra_scenario", "validation")
    version = kubernetes.server_version()
    mark = uuid.uuid4().hex[:8]
    given = dict(params["variables"])
    classes = {**CLASSES, **(given.pop("classes", None) or {})}
    setting = Setting(
        host=params["cluster"] or params["context"] or kubernetes.host,
        run=mark,
        version=kubernetes.dra_version(),
        kubernetes_minor=version.minor,
        lacks=Features(kubernetes, version.minor, params["features"]).lacks,
        variables={**given, "classes": classes},
        tolerations=params["tolerations"],
        image=params["image"],
        node_selector={str(key): str(value) for key, value in params["node_selector"].items()},
        within_s=params["within_s"],
        keep_dir=params["keep_dir"] or "",
        deadline=deadline,
    )
    observer = Observer(kubernetes, setting.version, pod_labels=f"{RUN_LABEL}={mark}")
    return run_scenarios(scenarios, setting, observer, params["parallel"], params["nodes"], dry, progress.say)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.no_log_values.update(secrets_of(module.params))
    params = module.params
    try:
        for option in ("parallel", "within_s", "timeout_s"):
            if params[option] < 1:
                raise FleetError(f"{option} is {params[option]}; give 1 or more", option=option)
        # What is wrong with the scenarios is told without a cluster.
        chosen(params)
        deadline = Deadline(params["timeout_s"])
        # Cleaning up goes on when the time is up.
        kubernetes = connect(params, Deadline(params["timeout_s"] + 120))
        result = run(params, kubernetes, deadline, module.check_mode)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    for text in kubernetes.warnings:
        module.warn(text)
    if result.left:
        module.warn(f"namespaces that are not gone yet: {', '.join(result.left)}")
    checks = result.checks()
    scenarios = [outcome.to_dict() for outcome in result.outcomes]
    answer: dict[str, Any] = {
        "changed": False,
        "checks": checks,
        "summary": summarise(checks),
        "scenarios": scenarios,
        "kept": [one["kept"] for one in scenarios if one["kept"]],
        "swept": result.swept,
    }
    if all(one["status"] == "skipped" for one in scenarios):
        module.fail_json(
            msg=f"none of {len(scenarios)} scenarios could run, so nothing was validated; {scenarios[0]['name']}: {scenarios[0]['reason']}",
            **answer,
        )
    if answer["summary"][FAILED] and params["fail_on"] == "failed":
        failed = [check for check in checks if check["status"] == FAILED]
        told = "; ".join(f"{one['test']} {one['claim']} {one['name']}: {one['reason']}" for one in failed[:5])
        module.fail_json(msg=f"{len(failed)} checks failed: {told}", **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
