#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: resourceslice
short_description: Publish ResourceSlices, or write them to a file
version_added: 0.1.0
description:
  - Brings the pools of a set of ResourceSlices to a description, in one call for any number of slices.
  - The slices are given as they are, read from files, or derived from a machine description.
  - A pool is never wrong on its way. One slice that differs is changed in place; more become a new generation of the pool, which is
    complete before the old one is deleted. C(pool.generation) is kept by the module, C(pool.resourceSliceCount) is filled in if
    it is not given. A run that was cut short is repaired by the next one, and so is what others have changed.
  - Slices of a set have the label C(gpulab.fleet/set). Those without it, and those of another set, are never changed or deleted, and a
    pool that has such slices is refused.
  - Slices are checked before anything is sent, against the limits of the API of that release of Kubernetes and against what the
    scheduler requires of pools.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group_kubernetes
  - gpulab.fleet.cluster
  - gpulab.fleet.cluster_writes
attributes:
  check_mode:
    support: full
    details:
      - Every write is sent to the API server as a dry run, so that admission and validation have their say.
  diff_mode:
    support: full
    details:
      - It shows up to 50 objects.
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) publishes the slices. Other pools of the set stay, unless O(prune=true).
      - V(absent) deletes pools of the set, namely those that O(slices), O(src) or O(machine) describe, else those that O(select) selects,
        else, if O(set) is given, all of them.
      - V(rendered) needs no cluster. It checks the slices, returns them, and writes them to O(dest) if that is given.
    type: str
    choices: [present, absent, rendered]
    default: present
  slices:
    description:
      - ResourceSlices, or lists of them as C(kubectl get -o yaml) prints them. C(metadata.name) may be left out.
      - What a cluster put into their metadata, owners included, is left out.
      - At least one of O(slices), O(src) and O(machine) is required with O(state=present) and O(state=rendered).
    type: list
    elements: dict
  src:
    description:
      - Files with ResourceSlices, as YAML with any number of documents, or JSON. Objects of other kinds in them are left out.
    type: list
    elements: path
  machine:
    description:
      - A machine whose slices are wanted for each of O(nodes), as the name of a preset, the path of a YAML or JSON file, or a mapping.
    type: raw
  nodes:
    description:
      - The nodes that are such machines. Required with O(machine).
    type: list
    elements: str
  drivers:
    description:
      - The DRA drivers of O(machine). Unset, they are those that find something on it.
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
  set:
    description:
      - The name of the set, as the value of a label. Tasks with different sets do not touch each other's slices.
      - Unset, it is V(default). O(state=absent) for a whole set needs it.
    type: str
  labels:
    description:
      - Labels for all of these slices.
    type: dict
    default: {}
  prune:
    description:
      - With O(state=present), delete the pools of the set that O(select) selects and that are not described any more.
    type: bool
    default: false
  select:
    description:
      - Which pools of the set O(prune) and O(state=absent) are about. Without it they are about all.
    type: dict
    suboptions:
      driver:
        description: Those of this driver.
        type: str
      pool:
        description: Those of this name.
        type: str
      node:
        description: Those of this node.
        type: str
      labels:
        description: Those whose slices have these labels.
        type: dict
        default: {}
  owned_by_node:
    description:
      - Whether slices with C(spec.nodeName) are owned by the node, if it exists, as those of real drivers are. They go when it goes.
    type: bool
    default: true
  checks:
    description:
      - V(pools) refuses what the API refuses and what makes a pool unusable, such as a device that is there twice.
      - V(api) refuses only what the API refuses, for tests with pools that are broken on purpose. C(pool.resourceSliceCount) is then written
        as it is given.
    type: str
    choices: [pools, api]
    default: pools
  api_version:
    description:
      - The version of resource.k8s.io to write. V(auto) is the newest that the server serves, and slices are converted to it.
      - Unset, each slice is written in its own version, which the server has to serve.
    type: str
    choices: [auto, v1, v1beta2, v1beta1]
  kubernetes_version:
    description:
      - The release of Kubernetes, such as V("1.36"), whose limits and layout hold with O(state=rendered). Unset, it is the newest known.
      - With the other states it is that of the API server, unless given.
    type: str
  dest:
    description:
      - With O(state=rendered), the file that the slices are written to, as YAML.
    type: path
seealso:
  - module: gpulab.fleet.fake_gpu_node
  - module: gpulab.fleet.resourceslice_info
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Publish slices of our own
  gpulab.fleet.resourceslice:
    set: fpga
    slices:
      - apiVersion: resource.k8s.io/v1
        kind: ResourceSlice
        metadata:
          name: node-a-fpga
        spec:
          driver: fpga.example.com
          nodeName: node-a
          pool:
            name: node-a
          devices:
            - name: card-0
              attributes:
                resource.kubernetes.io/pcieRoot:
                  string: "pci0000:40"
  delegate_to: localhost

- name: Publish what was captured elsewhere, in whatever version this server has, and let go what is not in it any more
  gpulab.fleet.resourceslice:
    set: replay
    src: [captured/slices.yml]
    api_version: auto
    prune: true
  delegate_to: localhost

- name: Write the slices of a machine to a file, without a cluster
  gpulab.fleet.resourceslice:
    state: rendered
    machine: aws-p5
    nodes: [p5-a, p5-b]
    dest: slices.yml
    kubernetes_version: "1.36"
  delegate_to: localhost

- name: The slices of one driver go
  gpulab.fleet.resourceslice:
    state: absent
    set: replay
    select:
      driver: dra.net
  delegate_to: localhost
"""

RETURN = r"""
set:
  description: The name of the set.
  returned: with O(state=present) and O(state=absent)
  type: str
  sample: replay
slices:
  description: The slices, complete.
  returned: with O(state=rendered)
  type: list
  elements: dict
dest:
  description: The file that was written, or that has this content already.
  returned: with O(state=rendered) and O(dest)
  type: str
summary:
  description: What became of how many slices.
  returned: with O(state=present) and O(state=absent)
  type: dict
  sample:
    slices: {created: 3, updated: 1, deleted: 0, unchanged: 12, failed: 0}
results:
  description: What became of single slices, failures first, O(results_limit) at most. Unchanged ones are not listed.
  returned: with O(state=present) and O(state=absent)
  type: list
  elements: dict
  contains:
    kind:
      description: C(ResourceSlice).
      type: str
      returned: always
    name:
      description: The slice's name; for a pool that failed as a whole, its driver and name.
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
  sample: [{kind: ResourceSlice, name: node-a-fpga, action: updated, changed: true, reason: one slice differs}]
results_omitted:
  description: How many entries O(results_limit) kept out of RV(results).
  returned: with O(state=present) and O(state=absent)
  type: int
requests:
  description: How many requests were sent to the API server.
  returned: with O(state=present) and O(state=absent)
  type: int
seconds:
  description: How long it took.
  returned: with O(state=present) and O(state=absent)
  type: float
kubernetes:
  description: The API server's version, and the version of resource.k8s.io that was written.
  returned: when the cluster was asked
  type: dict
  sample: {version: v1.37.2, api_version: v1}
"""

import json
import os
import time
from collections import Counter
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import write_text_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import DRA_GROUP, resource_kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import check_set, clean_metadata
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.names import check_names
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
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.served import choose_version, require_served
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.set_run import Job
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.slice_set import (
    Selection,
    SliceSet,
    SliceSetSpec,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import (
    KUBERNETES,
    canonical,
    check_slices,
    chosen_drivers,
    comparable,
    convert,
    driver_arguments,
    exporter,
    read_slices,
    render_node,
    to_yaml,
)

ARGUMENT_SPEC: dict[str, Any] = {
    **cluster_arguments(),
    **writing_arguments(),
    "state": {"type": "str", "choices": ["present", "absent", "rendered"], "default": "present"},
    "slices": {"type": "list", "elements": "dict"},
    "src": {"type": "list", "elements": "path"},
    "machine": {"type": "raw"},
    "nodes": {"type": "list", "elements": "str"},
    "drivers": driver_arguments(),
    "set": {"type": "str"},
    "labels": {"type": "dict", "default": {}},
    "prune": {"type": "bool", "default": False},
    "select": {
        "type": "dict",
        "options": {
            "driver": {"type": "str"},
            "pool": {"type": "str"},
            "node": {"type": "str"},
            "labels": {"type": "dict", "default": {}},
        },
    },
    "owned_by_node": {"type": "bool", "default": True},
    "checks": {"type": "str", "choices": ["pools", "api"], "default": "pools"},
    "api_version": {"type": "str", "choices": ["auto", "v1", "v1beta2", "v1beta1"]},
    "kubernetes_version": {"type": "str"},
    "dest": {"type": "path"},
}

Params = Mapping[str, Any]
Slice = dict[str, Any]


class Described(NamedTuple):
    """The slices of all sources, in the versions in which they are given, named and with a count; `samples` stand for all of them."""

    slices: list[Slice]
    samples: list[Slice]


def described_slices(params: Params, version: str, all_nodes: bool = True) -> Described:
    """What slices, src and machine say; with `all_nodes` false, for the first node of a machine only."""
    given: list[Slice] = []
    if params["slices"]:
        given += inline_slices(params["slices"])
    for path in params["src"] or ():
        try:
            with open(path, encoding="utf-8") as stream:
                given += read_slices(stream.read(), path)
        except (OSError, UnicodeDecodeError) as error:
            raise FleetError(f"src names {path!r}, which cannot be read: {error}", option="src", value=path) from error
    derived = machine_slices(params, version, all_nodes) if params["machine"] is not None else []
    labels = {str(name): str(value) for name, value in params["labels"].items()}
    places: Counter[tuple[str, str]] = Counter()
    for slice_ in (*given, *derived):
        spec = slice_["spec"]
        key = pool_of(slice_)
        metadata = clean_metadata(slice_.get("metadata") or {})
        # A name that is always the same for the same input; a pool's name may have slashes.
        metadata.setdefault("name", f"{key[1].replace('/', '.')}-{key[0]}-{places[key]}")
        places[key] += 1
        if labels:
            metadata["labels"] = {**metadata.get("labels", {}), **labels}
        slice_["metadata"] = metadata
        spec["pool"].setdefault("generation", 1)
    # The nodes of a machine differ in names only: one of them, and whatever shares a pool with what is given, tells of all.
    pools = {pool_of(slice_) for slice_ in given}
    first = derived[0]["spec"]["nodeName"] if derived else ""
    samples = given + [slice_ for slice_ in derived if slice_["spec"]["nodeName"] == first or pool_of(slice_) in pools]
    return Described(given + derived, samples)


def pool_of(slice_: Slice) -> tuple[str, str]:
    """The driver and the name of a slice's pool."""
    return str(slice_["spec"]["driver"]), str(slice_["spec"]["pool"]["name"])


def inline_slices(given: Sequence[Any]) -> list[Slice]:
    """The slices of the option slices; those that do not say how many their pool has are counted."""
    counts: Counter[tuple[Any, Any]] = Counter()
    counted = []
    for item in given:
        spec = item.get("spec") if isinstance(item, Mapping) else None
        pool = spec.get("pool") if isinstance(spec, Mapping) else None
        if isinstance(spec, Mapping) and isinstance(pool, Mapping):
            key = (str(spec.get("driver")), str(pool.get("name")))
            counts[key] += 1
            counted.append((pool, key))
    for pool, key in counted:
        if isinstance(pool, dict):
            pool.setdefault("resourceSliceCount", counts[key])
    try:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(given)})
    except (TypeError, ValueError) as error:
        raise FleetError(
            f"slices holds what is no JSON ({error}); put dates and the like in quotes", option="slices"
        ) from error
    return read_slices(text, "slices")


def machine_slices(params: Params, version: str, all_nodes: bool) -> list[Slice]:
    """The slices of a machine for each of the nodes."""
    machine = load(params["machine"])
    drivers = chosen_drivers(machine, params["drivers"])
    nodes = check_names(params["nodes"] or (), "nodes")
    return [
        slice_
        for node in (nodes if all_nodes else nodes[:1])
        for slice_ in render_node(machine, node=node, node_uid=None, drivers=drivers, kubernetes=version)
    ]


def render(module: AnsibleModule) -> dict[str, Any]:
    """What state rendered returns; the file is written when its content differs."""
    params = module.params
    version = params["kubernetes_version"] or KUBERNETES[-1]
    slices, samples = described_slices(params, version)
    check_slices(samples, version, pools=params["checks"] == "pools")
    wanted = params["api_version"]
    if wanted not in (None, "auto"):
        slices = [convert(slice_, f"{DRA_GROUP}/{wanted}") for slice_ in slices]
    slices = [canonical(slice_) for slice_ in slices]
    result: dict[str, Any] = {"changed": False, "slices": slices}
    path = params["dest"]
    if path is None:
        return result
    text = to_yaml(slices)
    before = ""
    try:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                before = stream.read()
        result.update(changed=text != before, dest=path)
        if text != before and not module.check_mode:
            write_text_atomic(path, text, 0o644)
    except (OSError, UnicodeDecodeError) as error:
        raise FleetError(f"dest is {path!r} and cannot be written: {error}", option="dest", value=path) from error
    if module._diff:
        result["diff"] = {"before": before, "after": text, "before_header": path, "after_header": path}
    return result


def describe(params: Params, slices: Sequence[Slice], samples: Sequence[Slice]) -> SliceSetSpec:
    """The options as a specification."""
    given = params["select"]
    selection = (
        Selection(
            driver=given["driver"],
            pool=given["pool"],
            node=given["node"],
            labels={str(name): str(value) for name, value in (given["labels"] or {}).items()},
        )
        if given
        else Selection()
    )
    absent = params["state"] == "absent"
    described = any(params[option] is not None for option in ("slices", "src", "machine"))
    inspected = [comparable(slice_) for slice_ in samples]
    # What is derived is rendered alike: when that of one node is canonical, that of all is.
    refine = dict if params["slices"] is None and params["src"] is None and inspected == list(samples) else comparable
    return SliceSetSpec(
        set_name=params["set"] or "default",
        slices=[] if absent else [refine(slice_) for slice_ in slices],
        samples=[] if absent else inspected,
        prune=selection if params["prune"] or (absent and not described) else None,
        remove=frozenset(pool_of(slice_) for slice_ in slices) if absent else frozenset(),
        owned_by_node=params["owned_by_node"],
        continue_on_error=params["continue_on_error"],
        tolerate_dropped=params["dropped_fields"] == "warn",
    )


def check_options(params: Params) -> None:
    """What the argument specification cannot say."""
    check_limits(params)
    check_set(params["set"] or "default")
    named = any(params[option] is not None for option in ("slices", "src", "machine", "select", "set"))
    if params["state"] == "absent" and not named:
        raise FleetError(
            "state is 'absent', but nothing says what should go; give slices, src, machine, select, or set for a whole set",
            option="state",
        )
    if params["dest"] is not None and params["state"] != "rendered":
        raise FleetError(f"dest goes with state 'rendered' only, and state is {params['state']!r}", option="dest")


def choose(kubernetes: Kubernetes, params: Params, slices: Sequence[Slice]) -> str:
    """The version of the API to write in, which the server has to serve."""
    wanted = params["api_version"]
    if wanted == "auto" or params["state"] == "absent":
        return choose_version(kubernetes, None)
    if wanted is not None:
        return choose_version(kubernetes, wanted)
    if params["slices"] is None and params["src"] is None:
        # What is derived has no version of its own.
        return choose_version(kubernetes, None)
    return require_served(kubernetes, [str(slice_["apiVersion"]).rpartition("/")[2] for slice_ in slices])


def publish(module: AnsibleModule, report: Report) -> tuple[dict[str, Any], Optional[FleetError], Optional[Kubernetes]]:
    """Do what the options say; what goes wrong comes back, so that what was done is told as well."""
    params = module.params
    extra: dict[str, Any] = {"set": params["set"] or "default"}
    kubernetes: Optional[Kubernetes] = None
    try:
        check_options(params)
        # A description that is wrong is told without a cluster.
        known = params["machine"] is None or params["kubernetes_version"] is not None
        slices, samples = described_slices(params, params["kubernetes_version"] or KUBERNETES[-1], all_nodes=known)
        deadline = Deadline(params["timeout_s"])
        kubernetes = connect(params, deadline, dry_run=module.check_mode)
        version = kubernetes.server_version()
        release = params["kubernetes_version"] or version.git
        if not known:
            # Its layout depends on the release.
            slices, samples = described_slices(params, release)
        if params["state"] == "present":
            check_slices(samples, release, pools=params["checks"] == "pools")
        api_version = choose(kubernetes, params, slices)
        extra["kubernetes"] = {"version": version.git, "api_version": api_version}
        kind = resource_kind("ResourceSlice", api_version)
        progress = open_progress(params, f"slices-{extra['set']}", extra["set"])
        spec = describe(params, slices, samples)
        job = Job(kubernetes, kind, comparable, exporter(kind.api_version), report, progress, deadline, module._diff)
        work = SliceSet(job, spec)
        work.run()
        warn_of_dropped(module, work.left_out)
    except FleetError as error:
        return extra, error, kubernetes
    return extra, None, kubernetes


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        supports_check_mode=True,
        required_if=[
            ("state", "present", ("slices", "src", "machine"), True),
            ("state", "rendered", ("slices", "src", "machine"), True),
        ],
        required_by={"machine": ("nodes",), "nodes": ("machine",), "drivers": ("machine",)},
    )
    module.no_log_values.update(secrets_of(module.params))
    expect_many_objects()
    if module.params["state"] == "rendered":
        try:
            check_options(module.params)
            rendered = render(module)
        except FleetError as error:
            module.fail_json(msg=error.message, **error.details)
        module.exit_json(**rendered)
    change(module)


def change(module: AnsibleModule) -> None:
    """States that need a cluster."""
    started_s = time.monotonic()
    report = Report(("ResourceSlice",), module.params["results_limit"])
    extra, error, kubernetes = publish(module, report)
    finish(module, report, error, kubernetes, extra, started_s)


if __name__ == "__main__":
    main()
