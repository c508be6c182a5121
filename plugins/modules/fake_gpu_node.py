#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fake_gpu_node
short_description: Fill a Kubernetes cluster with fake GPU nodes
version_added: 0.1.0
description:
  - Makes any number of nodes without a kubelet out of one machine description, and publishes for each the ResourceSlices that the DRA
    drivers of such a machine would publish. KWOK, which has to run for the cluster, plays the kubelets.
  - One call brings a whole set of nodes to its description. It scales up and down, and changes the machine of nodes that exist.
  - Objects of a set have the label C(gpulab.fleet/set). What does not have it, and what is of another set, is never changed or deleted.
  - 'The cluster is asked once for its nodes and once for the metadata of its slices. What differs is written with O(concurrency)
    requests at a time: nodes before their slices, slices gone before their nodes, and a pool of several slices as a new generation
    that is complete before the old one goes. A run that was cut short is repaired by the next one.'
  - What can be refused is refused before anything is written, by a look at the limits of the API, at RBAC, at pools that others
    publish, and by a dry run.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group_kubernetes
  - gpulab.fleet.cluster
  - gpulab.fleet.cluster_writes
attributes:
  check_mode:
    support: full
    details:
      - Every write is sent to the API server as a dry run, so that admission and validation have their say. Nothing is waited for.
  diff_mode:
    support: full
    details:
      - It shows up to 50 objects.
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) makes the set consist of exactly these nodes. Other nodes of the set go.
      - V(absent) deletes the nodes that O(name) or O(nodes) names with their slices, or the whole set if neither is given.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - The name of the nodes, with V({n}) where the number of each should be, or V({n:04}) for a number with zeros.
      - One of O(name) and O(nodes) is required with O(state=present).
    type: str
  count:
    description:
      - How many nodes O(name) means. V(0) leaves none.
    type: int
    default: 1
  first:
    description:
      - The number of the first node.
    type: int
    default: 0
  nodes:
    description:
      - The names of the nodes, instead of O(name) and O(count). O(set) has to be given with it.
    type: list
    elements: str
  set:
    description:
      - The name of the set, as the value of a label. A set is made by one task; others use sets of their own.
      - Unset, it is O(name) without the number.
    type: str
  keep_others:
    description:
      - Leave other nodes of the set alone, so that several tasks can add to one set.
    type: bool
    default: false
  machine:
    description:
      - The machine that each node is, as the name of a preset, the path of a YAML or JSON file, or a mapping.
      - One of O(machine) and O(recording) is required with O(state=present).
    type: raw
  recording:
    description:
      - ResourceSlices that were captured from one node, as the path of a YAML or JSON file or as a list, to be published for each node
        with its own name, UUIDs and addresses. M(gpulab.fleet.resourceslice_info) captures them.
    type: raw
  drivers:
    description:
      - The DRA drivers of the machine. Unset, they are those that find something on it.
    type: list
    elements: dict
    suboptions:
      name:
        description: The driver's name, such as V(gpu.nvidia.com), V(compute-domain.nvidia.com) or V(dra.net).
        type: str
        required: true
      release:
        description: The driver's release, such as V("25.8"). Unset, it is the newest that is known.
        type: str
      mode:
        description: How it publishes, such as V(full) or V(static-mig).
        type: str
        default: full
      options:
        description: Options of the mode, such as the MIG layout of each GPU.
        type: dict
        default: {}
  kubernetes_version:
    description:
      - The version of Kubernetes that the nodes run, such as V(v1.36.2). The drivers publish in the layout of that release.
      - Unset, it is that of the API server.
    type: str
  labels:
    description:
      - Labels of the nodes, beside C(kubernetes.io/hostname), C(kubernetes.io/os), C(kubernetes.io/arch), C(type=kwok) and
        C(gpulab.fleet/machine).
    type: dict
    default: {}
  annotations:
    description:
      - Annotations of the nodes.
    type: dict
    default: {}
  taints:
    description:
      - Taints of the nodes. The default keeps pods away that do not tolerate fake nodes.
    type: list
    elements: dict
    default:
      - key: kwok.x-k8s.io/node
        value: fake
        effect: NoSchedule
    suboptions:
      key:
        description: The taint's key.
        type: str
        required: true
      value:
        description: Its value.
        type: str
        default: ''
      effect:
        description: What it does.
        type: str
        choices: [NoSchedule, PreferNoSchedule, NoExecute]
        required: true
  capacity:
    description:
      - Capacity of the nodes, which is allocatable as well. What is not given is the machine's C(cpu) and C(memory), 110 C(pods) and
        1Ti of C(ephemeral-storage).
    type: dict
    default: {}
  architecture:
    description:
      - The architecture that the nodes report, in the words of Go.
    type: str
    default: amd64
  kwok:
    description:
      - Whether the nodes have the annotation C(kwok.x-k8s.io/node=fake) and the label C(type=kwok), by which KWOK takes them over.
    type: bool
    default: true
  api_version:
    description:
      - The version of resource.k8s.io to write the slices in. Unset, it is the newest that the server serves.
    type: str
    choices: [v1, v1beta2, v1beta1]
  wait:
    description:
      - Wait until all nodes are ready, or gone.
    type: bool
    default: true
seealso:
  - module: gpulab.fleet.resourceslice
  - module: gpulab.fleet.resourceslice_info
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: A hundred AWS p5 nodes
  gpulab.fleet.fake_gpu_node:
    kubeconfig: ~/.kube/lab
    name: p5-{n:03}
    count: 100
    machine: aws-p5
  delegate_to: localhost

- name: The same fleet with ten nodes, as an older driver publishes it
  gpulab.fleet.fake_gpu_node:
    name: p5-{n:03}
    count: 10
    machine: aws-p5
    drivers:
      - name: gpu.nvidia.com
        release: "25.8"
      - name: dra.net
  delegate_to: localhost

- name: Two nodes out of a description of our own, with labels for the scheduler
  gpulab.fleet.fake_gpu_node:
    set: research
    nodes: [research-a, research-b]
    machine: "{{ playbook_dir }}/machines/research.yml"
    labels:
      topology.kubernetes.io/zone: east
    taints: []
  delegate_to: localhost

- name: What was captured from a node of another cluster, fifty times
  gpulab.fleet.fake_gpu_node:
    name: twin-{n}
    count: 50
    recording: captured/gpu-node-7.yml
  delegate_to: localhost

- name: The whole set goes
  gpulab.fleet.fake_gpu_node:
    set: p5
    state: absent
  delegate_to: localhost
"""

RETURN = r"""
set:
  description: The name of the set.
  returned: always
  type: str
  sample: p5
summary:
  description: What became of how many objects, by kind.
  returned: when the cluster was asked
  type: dict
  sample:
    nodes: {created: 100, updated: 0, deleted: 0, unchanged: 0, failed: 0}
    slices: {created: 300, updated: 0, deleted: 0, unchanged: 0, failed: 0}
results:
  description: What became of single objects, failures first, O(results_limit) at most. Unchanged objects are not listed.
  returned: when the cluster was asked
  type: list
  elements: dict
  contains:
    kind:
      description: C(Node) or C(ResourceSlice).
      type: str
      returned: always
    name:
      description: The object's name; for a pool that failed as a whole, its driver and name.
      type: str
      returned: always
    action:
      description: C(created), C(updated), C(deleted) or C(failed).
      type: str
      returned: always
    changed:
      description: Whether it was changed.
      type: bool
      returned: always
    reason:
      description: Why it was changed, or the API's reason for a failure.
      type: str
      returned: when there is one
    msg:
      description: What went wrong.
      type: str
      returned: when it failed
  sample: [{kind: Node, name: p5-000, action: created, changed: true, reason: ""}]
results_omitted:
  description: How many entries O(results_limit) kept out of RV(results).
  returned: when the cluster was asked
  type: int
requests:
  description: How many requests were sent to the API server.
  returned: when the cluster was asked
  type: int
seconds:
  description: How long it took.
  returned: when the cluster was asked
  type: float
kubernetes:
  description: The API server's version, and the version of resource.k8s.io that was written.
  returned: when the cluster was asked
  type: dict
  sample: {version: v1.37.2, api_version: v1}
"""

import json
import time
from typing import Any, Callable, Mapping, Optional, Sequence

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.content import by_pool
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.fleet import PLACEHOLDER, Fleet, FleetSpec
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import resource_kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import check_set, digest
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.names import base_of, check_names, expand
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.nodes import KWOK_ANNOTATION, NodeTemplate
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import (
    check_limits,
    cluster_arguments,
    connect,
    expect_many_objects,
    open_progress,
    secrets_of,
    writing_arguments,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.outcome import finish, warn_of_dropped
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.report import Report
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.served import choose_version
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.set_run import Job
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import (
    KUBERNETES,
    Recording,
    check_slices,
    chosen_drivers,
    comparable,
    driver_arguments,
    exporter,
    read_slices,
    render_node,
)

FAKE_TAINT = {"key": KWOK_ANNOTATION, "value": "fake", "effect": "NoSchedule"}

ARGUMENT_SPEC: dict[str, Any] = {
    **cluster_arguments(),
    **writing_arguments(),
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "name": {"type": "str"},
    "count": {"type": "int", "default": 1},
    "first": {"type": "int", "default": 0},
    "nodes": {"type": "list", "elements": "str"},
    "set": {"type": "str"},
    "keep_others": {"type": "bool", "default": False},
    "machine": {"type": "raw"},
    "recording": {"type": "raw"},
    "drivers": driver_arguments(),
    "kubernetes_version": {"type": "str"},
    "labels": {"type": "dict", "default": {}},
    "annotations": {"type": "dict", "default": {}},
    "taints": {
        "type": "list",
        "elements": "dict",
        "default": [FAKE_TAINT],
        "options": {
            "key": {"type": "str", "required": True, "no_log": False},
            "value": {"type": "str", "default": ""},
            "effect": {"type": "str", "choices": ["NoSchedule", "PreferNoSchedule", "NoExecute"], "required": True},
        },
    },
    "capacity": {"type": "dict", "default": {}},
    "architecture": {"type": "str", "default": "amd64"},
    "kwok": {"type": "bool", "default": True},
    "api_version": {"type": "str", "choices": ["v1", "v1beta2", "v1beta1"]},
    "wait": {"type": "bool", "default": True},
}

Params = Mapping[str, Any]
# Node name, its uid and the Kubernetes version -> its slices.
Renderer = Callable[[str, Optional[str], str], Sequence[dict[str, Any]]]


def named_nodes(params: Params) -> tuple[str, ...]:
    """The nodes that the options name; none when they name none."""
    if params["nodes"] is not None:
        return check_names(params["nodes"], "nodes")
    return expand(params["name"], params["count"], params["first"]) if params["name"] is not None else ()


def set_name_of(params: Params) -> str:
    """The set, given or derived."""
    if params["set"]:
        return check_set(params["set"])
    if params["name"] is None:
        raise FleetError("set is unset, and there is no name to derive it from; give the name of the set", option="set")
    name = base_of(params["name"])
    if not name:
        raise FleetError(
            f"set is unset, and nothing is left of name {params['name']!r} without its number; give set", option="set"
        )
    return check_set(name, "set (unset, so derived from name)")


def renderer_of(params: Params, machine: Optional[Machine]) -> Renderer:
    """How the slices of a node are made."""
    if machine is not None:
        drivers = chosen_drivers(machine, params["drivers"])
        described = machine
        return lambda node, uid, version: render_node(
            described, node=node, node_uid=uid, drivers=drivers, kubernetes=version
        )
    recording = Recording(recorded_slices(params["recording"]))
    return recording.on


def recorded_slices(given: object) -> list[dict[str, Any]]:
    """The slices of the option recording."""
    if isinstance(given, str):
        try:
            with open(given, encoding="utf-8") as stream:
                return read_slices(stream.read(), given)
        except (OSError, UnicodeDecodeError) as error:
            raise FleetError(
                f"recording is {given!r} and cannot be read: {error}", option="recording", value=given
            ) from error
    if isinstance(given, list):
        return read_slices(json.dumps({"apiVersion": "v1", "kind": "List", "items": given}), "recording")
    raise FleetError("recording is neither the path of a file nor a list of slices", option="recording")


def capacity_of(params: Params, machine: Optional[Machine]) -> dict[str, str]:
    """Capacity of a node; what is given wins."""
    capacity = {"ephemeral-storage": "1Ti", "pods": "110"}
    if machine is not None:
        capacity.update({"cpu": str(machine.cpus), "memory": f"{machine.memory_mb}Mi"})
    else:
        capacity.update({"cpu": "64", "memory": "1Ti"})
    return {**capacity, **{str(name): str(value) for name, value in params["capacity"].items()}}


def template_of(params: Params, machine: Optional[Machine], set_name: str, version: str) -> NodeTemplate:
    """What all nodes of the set look like."""
    labels = {"kubernetes.io/arch": params["architecture"], "kubernetes.io/os": "linux"}
    annotations: dict[str, str] = {}
    if params["kwok"]:
        labels["type"] = "kwok"
        annotations[KWOK_ANNOTATION] = "fake"
    if machine is not None:
        labels["gpulab.fleet/machine"] = machine.name[:63].strip("-._")
    labels.update({str(name): str(value) for name, value in params["labels"].items()})
    annotations.update({str(name): str(value) for name, value in params["annotations"].items()})
    return NodeTemplate(
        set_name=set_name,
        labels=labels,
        annotations=annotations,
        taints=tuple({key: value for key, value in taint.items() if value} for taint in params["taints"]),
        capacity=capacity_of(params, machine),
        node_info={
            "architecture": params["architecture"],
            "kubeletVersion": version if version.startswith("v") else f"v{version}",
            "operatingSystem": "linux",
        },
    )


def describe_set(params: Params, set_name: str, names: tuple[str, ...], server_version: str) -> FleetSpec:
    """The options as a specification; what cannot be is refused. Without a server's version its limits are not known yet."""
    machine = load(params["machine"]) if params["machine"] is not None else None
    version = params["kubernetes_version"] or server_version or KUBERNETES[-1]
    render = renderer_of(params, machine)
    sample = [dict(slice_) for slice_ in render(PLACEHOLDER, None, version)]
    compared = [comparable(slice_) for slice_ in sample]
    # Every node has the same devices, so one of them shows what the API would refuse.
    if server_version or params["kubernetes_version"]:
        check_slices(render(names[0] if names else PLACEHOLDER, None, version), version)
    pools = tuple(
        (driver, pool, tuple(digest(slice_["spec"], slice_["metadata"]["name"]) for slice_ in slices))
        for (driver, pool), slices in by_pool(compared).items()
    )
    # All nodes are rendered alike: what is canonical once need not be made so each time.
    refine = dict if compared == sample else comparable
    return FleetSpec(
        template=template_of(params, machine, set_name, version),
        names=names,
        render=lambda node, uid: [refine(slice_) for slice_ in render(node, uid or None, version)],
        pools=pools,
        sample=sample,
        keep_others=params["keep_others"],
        wait=params["wait"],
        continue_on_error=params["continue_on_error"],
        tolerate_dropped=params["dropped_fields"] == "warn",
    )


def describe_removal(params: Params, set_name: str, names: tuple[str, ...]) -> FleetSpec:
    """A specification that lets nodes go."""
    named = params["name"] is not None or params["nodes"] is not None
    return FleetSpec(
        template=NodeTemplate(set_name),
        names=(),
        render=lambda _node, _uid: (),
        pools=(),
        sample=(),
        remove=frozenset(names) if named else None,
        wait=params["wait"],
        continue_on_error=params["continue_on_error"],
    )


def run(module: AnsibleModule, report: Report) -> tuple[dict[str, Any], Optional[FleetError], Optional[Kubernetes]]:
    """Do what the options say; what goes wrong comes back, so that what was done is told as well."""
    params = module.params
    extra: dict[str, Any] = {}
    kubernetes: Optional[Kubernetes] = None
    try:
        check_limits(params)
        names = named_nodes(params)
        set_name = set_name_of(params)
        extra["set"] = set_name
        present = params["state"] == "present"
        # A description that is wrong is told without a cluster.
        if present:
            describe_set(params, set_name, names, "")
        deadline = Deadline(params["timeout_s"])
        kubernetes = connect(params, deadline, dry_run=module.check_mode)
        version = kubernetes.server_version()
        api_version = choose_version(kubernetes, params["api_version"])
        extra["kubernetes"] = {"version": version.git, "api_version": api_version}
        spec = (
            describe_set(params, set_name, names, version.git) if present else describe_removal(params, set_name, names)
        )
        kind = resource_kind("ResourceSlice", api_version)
        progress = open_progress(params, f"fake-nodes-{set_name}", set_name)
        job = Job(kubernetes, kind, comparable, exporter(kind.api_version), report, progress, deadline, module._diff)
        fleet = Fleet(job, spec)
        fleet.run()
        warn_of_dropped(module, fleet.left_out)
    except FleetError as error:
        return extra, error, kubernetes
    return extra, None, kubernetes


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        supports_check_mode=True,
        mutually_exclusive=[("name", "nodes"), ("machine", "recording"), ("recording", "drivers")],
        required_if=[
            ("state", "present", ("name", "nodes"), True),
            ("state", "present", ("machine", "recording"), True),
        ],
    )
    module.no_log_values.update(secrets_of(module.params))
    expect_many_objects()
    started_s = time.monotonic()
    report = Report(("Node", "ResourceSlice"), module.params["results_limit"])
    extra, error, kubernetes = run(module, report)
    finish(module, report, error, kubernetes, extra, started_s)


if __name__ == "__main__":
    main()
