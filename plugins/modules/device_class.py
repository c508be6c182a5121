#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: device_class
short_description: Install the DeviceClasses that DRA drivers bring
version_added: 0.1.0
description:
  - Makes the DeviceClasses that the installation of a DRA driver would make, so that claims written for a real cluster work with fake nodes.
  - A class that is there and was not made by this module, as on a cluster with the real driver, is left as it is. When it differs, a warning says so.
  - Classes of this module have the label C(gpulab.fleet/set=device-classes).
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group_kubernetes
  - gpulab.fleet.cluster
attributes:
  check_mode:
    support: full
    details:
      - Every write is sent to the API server as a dry run.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(absent) deletes classes that this module has made, those of O(drivers), or all when neither O(drivers) nor O(classes) is given.
    type: str
    choices: [present, absent]
    default: present
  drivers:
    description:
      - The drivers whose classes are meant.
      - V(gpu.nvidia.com) brings C(gpu.nvidia.com) (with the extended resource C(nvidia.com/gpu), where the API has it), C(mig.nvidia.com) and
        C(vfio.gpu.nvidia.com). V(compute-domain.nvidia.com) brings C(compute-domain-daemon.nvidia.com) and
        C(compute-domain-default-channel.nvidia.com). V(dra.net) brings C(dra.net).
      - Unset, all of these with O(state=present), unless O(classes) is given.
    type: list
    elements: str
  classes:
    description: Classes of your own.
    type: list
    elements: dict
    suboptions:
      name:
        description: The class's name.
        type: str
        required: true
      selector:
        description: The CEL expression by which it selects devices.
        type: str
        required: true
      extended_resource_name:
        description: The extended resource that it stands for. It needs resource.k8s.io/v1.
        type: str
  api_version:
    description: The version of resource.k8s.io to write in. Unset, it is the newest that the server serves.
    type: str
    choices: [v1, v1beta2, v1beta1]
  timeout_s:
    description: Seconds for the whole call.
    type: int
    default: 60
seealso:
  - module: gpulab.fleet.fake_gpu_node
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Install the classes of all drivers that fake nodes can have
  gpulab.fleet.device_class:
    kubeconfig: ~/.kube/lab

- name: Those of NVIDIA's GPU driver, and one of our own
  gpulab.fleet.device_class:
    drivers: [gpu.nvidia.com]
    classes:
      - name: large-gpu
        selector: >-
          device.driver == 'gpu.nvidia.com' && device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0

- name: Remove all that this module has made
  gpulab.fleet.device_class:
    state: absent
"""

RETURN = r"""
results:
  description: What became of each class.
  returned: when the cluster was asked
  type: list
  elements: dict
  contains:
    kind:
      description: C(DeviceClass).
      type: str
      returned: always
    name:
      description: The class's name.
      type: str
      returned: always
    action:
      description: C(created), C(updated), C(deleted), C(unchanged), or C(foreign) for one that others have made.
      type: str
      returned: always
    changed:
      description: Whether it was changed.
      type: bool
      returned: always
api_version:
  description: The version of resource.k8s.io that was spoken.
  returned: when the cluster was asked
  type: str
  sample: v1
"""

from typing import Any, Mapping

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.classes import Settled, remove, settle
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import resource_kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import (
    cluster_arguments,
    connect,
    secrets_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.served import choose_version
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.classes import CLASSES, GROUP, device_classes

MARK = "device-classes"

ARGUMENT_SPEC: dict[str, Any] = {
    **cluster_arguments(),
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "drivers": {"type": "list", "elements": "str"},
    "classes": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "selector": {"type": "str", "required": True},
            "extended_resource_name": {"type": "str"},
        },
    },
    "api_version": {"type": "str", "choices": ["v1", "v1beta2", "v1beta1"]},
    "timeout_s": {"type": "int", "default": 60},
}


def described(params: Mapping[str, Any], version: str) -> list[dict[str, Any]]:
    """The classes that the options mean."""
    given = params["classes"] or []
    drivers = params["drivers"]
    if drivers is None:
        drivers = [] if given else list(CLASSES)
    wanted = device_classes(drivers, version)
    names = {obj["metadata"]["name"] for obj in wanted}
    for entry in given:
        if entry["name"] in names:
            raise FleetError(f"classes names {entry['name']!r} twice, or a driver brings it already", option="classes")
        names.add(entry["name"])
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": entry["selector"].strip()}}]}
        if entry["extended_resource_name"]:
            if version != "v1":
                raise FleetError(
                    f"classes: {entry['name']!r} has extended_resource_name, which needs {GROUP}/v1, but {version} is spoken",
                    option="classes",
                )
            spec["extendedResourceName"] = entry["extended_resource_name"]
        wanted.append(
            {
                "apiVersion": f"{GROUP}/{version}",
                "kind": "DeviceClass",
                "metadata": {"name": entry["name"]},
                "spec": spec,
            }
        )
    return wanted


def run(params: Mapping[str, Any], kubernetes: Kubernetes) -> tuple[Settled, str]:
    version = choose_version(kubernetes, params["api_version"])
    kind = resource_kind("DeviceClass", version)
    wanted = described(params, version)
    if params["state"] == "present":
        return settle(kubernetes, kind, wanted, MARK), version
    everything = params["drivers"] is None and params["classes"] is None
    names = None if everything else [str(obj["metadata"]["name"]) for obj in wanted]
    return remove(kubernetes, kind, names, MARK), version


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.no_log_values.update(secrets_of(module.params))
    try:
        # What is wrong with the options is told without a cluster.
        described(module.params, module.params["api_version"] or "v1")
        kubernetes = connect(module.params, Deadline(module.params["timeout_s"]), dry_run=module.check_mode)
        done, version = run(module.params, kubernetes)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    for warning in (*done.warnings, *kubernetes.warnings):
        module.warn(warning)
    result: dict[str, Any] = {"changed": done.changed, "results": done.results, "api_version": version}
    if module._diff:
        result["diff"] = done.diffs
    module.exit_json(**result)


if __name__ == "__main__":
    main()
