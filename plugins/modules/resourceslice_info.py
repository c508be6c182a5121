#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: resourceslice_info
short_description: Look at the ResourceSlices of a cluster, and at who has been given which device
version_added: 0.1.0
description:
  - Lists ResourceSlices, or the pools and devices in them, selected by driver, node, pool, labels and a CEL expression over devices.
  - Pools are judged as the scheduler judges them. Only their newest generation counts, and only if all of its slices are there.
  - Captures slices in a form that M(gpulab.fleet.resourceslice) and M(gpulab.fleet.fake_gpu_node) publish elsewhere.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group_kubernetes
  - gpulab.fleet.cluster
attributes:
  check_mode:
    support: full
    details:
      - The cluster is never changed. O(dest) is not written in check mode.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  driver:
    description:
      - Only slices of this driver.
    type: str
  node:
    description:
      - Only slices of this node (C(spec.nodeName)).
    type: str
  pool:
    description:
      - Only slices of pools of this name.
    type: str
  name:
    description:
      - Only the slice of this name.
    type: str
  label_selector:
    description:
      - Only slices with these labels, as C(kubectl --selector) takes them.
    type: str
  cel:
    description:
      - A CEL expression over C(device), as in a DeviceClass. Only devices that it is true for count, and only pools that have one.
      - A device that lacks an attribute the expression uses is left out, with a warning that says how many there were.
    type: str
  gather:
    description:
      - What to return. V(pools), V(devices) and V(slices) are long lists in large clusters.
    type: list
    elements: str
    choices: [summary, pools, devices, slices]
    default: [summary, pools]
  normalise:
    description:
      - Whether RV(slices) are in the form of resource.k8s.io/v1, without what the cluster put there, and only those of the newest generation.
        Otherwise they are as the server returns them.
    type: bool
    default: false
  dest:
    description:
      - A file to write the normalised slices to, as YAML, to be published elsewhere.
    type: path
  timeout_s:
    description:
      - Seconds for the whole call.
    type: int
    default: 120
seealso:
  - module: gpulab.fleet.resourceslice
  - module: gpulab.fleet.fake_gpu_node
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: How many devices of each driver are free
  gpulab.fleet.resourceslice_info:
    gather: [summary]
  delegate_to: localhost
  register: fleet

- name: The Hopper GPUs with at least 80 GB, and who uses them
  gpulab.fleet.resourceslice_info:
    driver: gpu.nvidia.com
    cel: >-
      device.attributes['gpu.nvidia.com'].architecture == 'Hopper' &&
      device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('79Gi')) >= 0
    gather: [devices]
  delegate_to: localhost

- name: Capture a node, to publish it elsewhere with fake_gpu_node
  gpulab.fleet.resourceslice_info:
    node: gpu-node-7
    gather: []
    dest: captured/gpu-node-7.yml
  delegate_to: localhost
"""

RETURN = r"""
summary:
  description: Numbers of all that was selected. C(lost_devices) are allocated to a claim, but no pool has them; without a filter only.
  returned: if O(gather) has V(summary)
  type: dict
  sample:
    slices: 300
    pools: 300
    incomplete_pools: []
    nodes: 100
    devices: 4200
    allocated: 16
    free: 4184
    drivers:
      gpu.nvidia.com: {pools: 100, devices: 800, allocated: 16, free: 784}
    lost_devices: []
pools:
  description: The pools, sorted by driver and name.
  returned: if O(gather) has V(pools)
  type: list
  elements: dict
  contains:
    driver:
      description: The driver.
      type: str
      returned: always
    name:
      description: The pool's name.
      type: str
      returned: always
    node:
      description: Its node; empty if it belongs to none.
      type: str
      returned: always
    generation:
      description: Its newest generation.
      type: int
      returned: always
    slices:
      description: The slices of that generation.
      type: list
      elements: str
      returned: always
    stale_slices:
      description: Slices of older generations.
      type: list
      elements: str
      returned: always
    complete:
      description: Whether the scheduler can use it.
      type: bool
      returned: always
    problems:
      description: Why it cannot.
      type: list
      elements: str
      returned: always
    devices:
      description: How many devices it has that were selected.
      type: int
      returned: always
    allocated:
      description: How many of them are allocated.
      type: int
      returned: always
    free:
      description: How many of them are not.
      type: int
      returned: always
devices:
  description: The devices of the newest generations.
  returned: if O(gather) has V(devices)
  type: list
  elements: dict
  sample:
    - driver: gpu.nvidia.com
      pool: p5-000
      node: p5-000
      slice: 00000-gpu.nvidia.com-p5-000-abcde
      name: gpu-0
      attributes: {type: gpu, architecture: Hopper}
      capacity: {memory: 81559Mi}
      free: false
      allocated_to:
        - {namespace: default, claim: one-gpu, request: gpu, admin_access: false, reserved_for: [pod-1]}
slices:
  description: The slices.
  returned: if O(gather) has V(slices)
  type: list
  elements: dict
dest:
  description: The file that the slices were written to.
  returned: with O(dest)
  type: str
kubernetes:
  description: The API server's version, and the version of resource.k8s.io that was read.
  returned: always
  type: dict
  sample: {version: v1.37.2, api_version: v1}
"""

from typing import Any, Iterator, Mapping, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import write_text_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.device_cel import compile_selector
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import resource_kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import clean_metadata
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import (
    cluster_arguments,
    connect,
    expect_many_objects,
    secrets_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.survey import Survey
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import as_v1, normalise, to_yaml

# Slices are large.
PAGE = 200

ARGUMENT_SPEC: dict[str, Any] = {
    **cluster_arguments(),
    "driver": {"type": "str"},
    "node": {"type": "str"},
    "pool": {"type": "str"},
    "name": {"type": "str"},
    "label_selector": {"type": "str"},
    "cel": {"type": "str"},
    "gather": {
        "type": "list",
        "elements": "str",
        "choices": ["summary", "pools", "devices", "slices"],
        "default": ["summary", "pools"],
    },
    "normalise": {"type": "bool", "default": False},
    "dest": {"type": "path"},
    "timeout_s": {"type": "int", "default": 120},
}


def selected(kubernetes: Kubernetes, api_version: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The slices that the options select, but for the CEL expression, as the server has them."""
    fields = {"spec.driver": params["driver"], "spec.nodeName": params["node"], "metadata.name": params["name"]}
    selector = ",".join(f"{name}={value}" for name, value in fields.items() if value)
    kind = resource_kind("ResourceSlice", api_version)
    for slice_ in kubernetes.list(kind, labels=params["label_selector"] or "", fields=selector, limit=PAGE):
        if params["pool"] is None or slice_["spec"]["pool"]["name"] == params["pool"]:
            yield slice_


def look(kubernetes: Kubernetes, params: Mapping[str, Any], check_mode: bool) -> tuple[dict[str, Any], Optional[str]]:
    """What the module returns, and a warning."""
    gather = set(params["gather"])
    selector = compile_selector(params["cel"]) if params["cel"] is not None else None
    version = kubernetes.server_version()
    api_version = kubernetes.dra_version()
    survey = Survey(selector, keep_devices="devices" in gather)
    kept: list[dict[str, Any]] = []
    matching: set[tuple[str, str]] = set()
    for slice_ in selected(kubernetes, api_version, params):
        if survey.add_slice(as_v1(slice_)):
            matching.add(pool_of(slice_))
        if "slices" in gather or params["dest"]:
            kept.append(slice_)
    # A pool without some of its slices would be of no use to anybody.
    kept = [slice_ for slice_ in kept if pool_of(slice_) in matching]
    result: dict[str, Any] = {"changed": False, "kubernetes": {"version": version.git, "api_version": api_version}}
    if gather - {"slices"}:
        for claim in kubernetes.list(resource_kind("ResourceClaim", api_version)):
            survey.add_claim(claim)
    filtered = any(params[name] for name in ("driver", "node", "pool", "name", "label_selector"))
    if gather & {"summary", "pools"}:
        pools = survey.pool_list()
        if selector is not None:
            pools = [pool for pool in pools if pool["devices"]]
        if "summary" in gather:
            result["summary"] = survey.summary(pools, filtered)
        if "pools" in gather:
            result["pools"] = pools
    if "devices" in gather:
        result["devices"] = survey.device_list()
    clean = cleaned(kept) if params["normalise"] or params["dest"] else []
    if "slices" in gather:
        result["slices"] = clean if params["normalise"] else kept
    if params["dest"]:
        result["dest"] = params["dest"]
        result["changed"] = write(params["dest"], to_yaml(clean), check_mode)
    warning = None
    if survey.cel_errors:
        warning = (
            f"cel could not be evaluated for {survey.cel_errors} devices, which were left out: {survey.first_cel_error}"
        )
    return result, warning


def pool_of(slice_: Mapping[str, Any]) -> tuple[str, str]:
    """The driver and the name of a slice's pool."""
    return str(slice_["spec"]["driver"]), str(slice_["spec"]["pool"]["name"])


def cleaned(slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The slices as another cluster could have them, without our own marks."""
    return normalise([{**slice_, "metadata": clean_metadata(slice_["metadata"])} for slice_ in slices])


def write(path: str, text: str, check_mode: bool) -> bool:
    """Write the file if its content differs; whether it does."""
    try:
        try:
            with open(path, encoding="utf-8") as stream:
                if stream.read() == text:
                    return False
        except FileNotFoundError:
            pass
        if not check_mode:
            write_text_atomic(path, text, 0o644)
    except (OSError, UnicodeDecodeError) as error:
        raise FleetError(f"dest is {path!r} and cannot be written: {error}", option="dest", value=path) from error
    return True


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.no_log_values.update(secrets_of(module.params))
    expect_many_objects()
    try:
        if module.params["timeout_s"] < 1:
            raise FleetError(f"timeout_s is {module.params['timeout_s']}; give 1 or more", option="timeout_s")
        kubernetes = connect(module.params, Deadline(module.params["timeout_s"]))
        result, warning = look(kubernetes, module.params, module.check_mode)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    for text in [*kubernetes.warnings, *([warning] if warning else [])]:
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
