#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lxd_gpu_check
short_description: Check from inside an LXD instance that its GPUs are complete and work
version_added: 0.1.0
description:
  - Runs one small script in a running VM or container and compares what the guest has with what its host passed to it.
  - Every statement becomes a check that passed, failed or was skipped, with a reason and the evidence. A tier that cannot run says why, and never
    passes silently.
  - A failed check is a result, not an error. The module fails only when it cannot look, or when O(fail_on=failed).
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.info
  - gpulab.fleet.attributes.group_lxd
  - gpulab.fleet.lxd
options:
  name:
    description: The instance to look into. It must be running, and a VM needs the LXD agent.
    type: str
    required: true
  gpus:
    description:
      - The GPUs that were passed to the instance, as M(gpulab.fleet.gpu_host_info) returns them.
      - Of each, C(address) (on the host), C(vendor_id), C(device_id) and C(bars) (with C(index), C(size_bytes), C(is_io)) are used; the rest is ignored.
      - A guest gives a GPU an address of its own, so GPUs are recognised by their ids and the sizes of their BARs.
    type: list
    elements: dict
    required: true
  test:
    description: What kind of instance this is. A container shares its host's kernel, so other things can be checked there.
    type: str
    choices: [vm, container]
    default: vm
  tiers:
    description:
      - V(pci) in a VM checks that each GPU is there with its ids, that every memory BAR has an address and the host's size, and that the
        kernel log tells of no BAR without a place. BARs of ports, the ROM and virtual functions are only noted.
      - V(pci) in a container checks that sysfs shows the GPU and that its device nodes can be opened.
      - V(driver) checks that the vendor's tool (C(nvidia-smi), C(rocm-smi)) lists as many GPUs as were passed.
      - V(compute) runs C(gpu-burn) or C(rvs) and judges what they print, not only how they end.
    type: list
    elements: str
    choices: [pci, driver, compute]
    default: [pci, driver, compute]
  expected_driver:
    description: The kernel driver that must be bound to each GPU in a VM. Unset, the driver is only reported.
    type: str
  expect_ram_mb:
    description:
      - Memory in MiB that the VM was given. Unset, memory is only reported.
      - The guest's memory map may be up to 64 MiB or 1 percent smaller, which firmware keeps. Where the guest does not show its map, C(MemTotal) may
        be smaller by another 20 percent, the kernel's own share.
    type: int
  expect_cpus:
    description: Number of CPUs that the VM was given. Unset, it is only reported.
    type: int
  burn_seconds:
    description: How long C(gpu-burn) puts load on the GPUs in the V(compute) tier.
    type: int
    default: 10
  timeout_s:
    description: Seconds that the script in the guest may take.
    type: int
    default: 180
  compute_timeout_s:
    description: Seconds that the load test may take in all.
    type: int
    default: 600
  host:
    description: The host that the checks are filed under. Unset, the instance's name is used.
    type: str
  label:
    description: The test that the checks are filed under. Unset, it is the value of O(test).
    type: str
  fail_on:
    description: Whether failed checks make the task fail.
    type: str
    choices: [never, failed]
    default: never
seealso:
  - module: gpulab.fleet.gpu_host_info
  - module: gpulab.fleet.lxd_gpu_vm
  - module: gpulab.fleet.lxd_gpu_container
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Read the host's GPUs
  gpulab.fleet.gpu_host_info:
  register: host

- name: Check the first one from inside its VM
  gpulab.fleet.lxd_gpu_check:
    name: gpulab-vm-0000-41-00-0
    gpus: "{{ host.gpus[:1] }}"
    tiers: [pci]
    expect_ram_mb: 8192
    expect_cpus: 4
  register: result

- name: Stop when something is wrong
  gpulab.fleet.lxd_gpu_check:
    name: trainer
    test: container
    gpus: "{{ host.gpus }}"
    fail_on: failed
"""

RETURN = r"""
checks:
  description: All checks, in the form of C(report.json).
  returned: success
  type: list
  elements: dict
  contains:
    host:
      description: Value of O(host).
      type: str
    device:
      description: The GPU's address on the host, or V(all) for a check of a guest that has several.
      type: str
    test:
      description: Value of O(label).
      type: str
    name:
      description: What was checked, such as V(pci.bars).
      type: str
    status:
      description: V(passed), V(failed) or V(skipped).
      type: str
    reason:
      description: What was found, in one sentence.
      type: str
    evidence:
      description: What was seen in the guest; for V(pci.bars) each BAR with its address and both sizes.
      type: raw
    seconds:
      description: Time it took.
      type: float
  sample:
    - host: lab1
      device: "0000:41:00.0"
      test: vm
      name: pci.bars
      status: passed
      reason: "assigned in the guest with the host's sizes: BAR0 16 MiB, BAR1 128 GiB, BAR3 32 MiB"
      evidence:
        guest_address: "0000:06:00.0"
        bars: [{index: 1, assigned: true, start: "0x380000000000", size_bytes: 137438953472, host_size_bytes: 137438953472, io: false}]
      seconds: 0.0
summary:
  description: How many checks passed, failed and were skipped.
  returned: success
  type: dict
  sample: {passed: 6, failed: 0, skipped: 2}
guest:
  description: Figures of the guest. C(boot_id) changes with every boot.
  returned: success
  type: dict
  sample: {boot_id: 6a00bf0a-54cf-4224-9a0b-6e562c8f33f4, uptime_s: 31.1, cpus: 4, memory_kib: 8040000, kernel: Linux version 6.12.0}
"""

import time
from typing import Any, Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_compute import (
    check_burn,
    choose_burn,
    skip_burn,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_container import check_container
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_driver import check_driver
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_pci import ExpectedGpu, check_pci, expected_gpu
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_probe import (
    GuestFacts,
    parse_probe,
    probe_argv,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_size import check_size
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject, summarise
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import (
    HAS_PYLXD,
    PYLXD_IMPORT_ERROR,
    Lxd,
    connect,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.guest import GuestTimeout, run_in_guest

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "gpus": {"type": "list", "elements": "dict", "required": True},
    "test": {"type": "str", "choices": ["vm", "container"], "default": "vm"},
    "tiers": {
        "type": "list",
        "elements": "str",
        "choices": ["pci", "driver", "compute"],
        "default": ["pci", "driver", "compute"],
    },
    "expected_driver": {"type": "str"},
    "expect_ram_mb": {"type": "int"},
    "expect_cpus": {"type": "int"},
    "burn_seconds": {"type": "int", "default": 10},
    "timeout_s": {"type": "int", "default": 180},
    "compute_timeout_s": {"type": "int", "default": 600},
    "host": {"type": "str"},
    "label": {"type": "str"},
    "fail_on": {"type": "str", "choices": ["never", "failed"], "default": "never"},
    "lxd_socket": {"type": "path"},
    "project": {"type": "str"},
}


def look(lxd: Lxd, params: Mapping[str, Any]) -> tuple[list[Check], GuestFacts]:
    """Look into the guest once, and put load on its GPUs where that was asked for."""
    gpus = [expected_gpu(raw, position) for position, raw in enumerate(params["gpus"])]
    if not gpus:
        raise FleetError("gpus is empty; name at least one GPU that was passed to the instance")
    name, tiers = params["name"], params["tiers"]
    subject = Subject(
        params["host"] or name, params["label"] or params["test"], gpus[0].address if len(gpus) == 1 else "all"
    )
    result = run_in_guest(lxd, name, probe_argv([gpu.ids for gpu in gpus], "driver" in tiers), params["timeout_s"])
    facts = parse_probe(result.stdout)
    checks: list[Check] = []
    if "pci" in tiers and params["test"] == "container":
        checks += check_container(subject, gpus, facts)
    elif "pci" in tiers:
        checks += check_pci(subject, gpus, facts, params["expected_driver"])
        checks += check_size(subject, facts, params["expect_ram_mb"], params["expect_cpus"])
    if "driver" in tiers:
        checks += check_driver(subject, gpus, facts)
    if "compute" in tiers:
        checks += compute(lxd, params, subject, gpus, facts)
    return checks, facts


def compute(
    lxd: Lxd, params: Mapping[str, Any], subject: Subject, gpus: Sequence[ExpectedGpu], facts: GuestFacts
) -> list[Check]:
    """One load test per vendor among the GPUs."""
    checks = []
    for vendor in dict.fromkeys(gpu.vendor for gpu in gpus):
        of_vendor = [gpu for gpu in gpus if gpu.vendor == vendor]
        burn = choose_burn(vendor, facts.tools, params["burn_seconds"], params["compute_timeout_s"])
        if burn is None:
            checks.append(skip_burn(subject, of_vendor, vendor))
            continue
        begun = time.monotonic()
        try:
            result = run_in_guest(lxd, params["name"], burn.argv, burn.timeout_s)
            rc, output = result.rc, result.stdout + result.stderr
        except GuestTimeout as error:
            # What the guest's other tiers brought is not lost for a load test that hangs.
            rc, output = 124, f"{error.details.get('stdout') or ''}\n{error.message}"
        checks.append(check_burn(subject, of_vendor, burn, rc, output, time.monotonic() - begun))
    return checks


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    if not HAS_PYLXD:
        module.fail_json(msg=missing_required_lib("pylxd"), exception=PYLXD_IMPORT_ERROR)
    try:
        checks, facts = look(connect(module.params["lxd_socket"], module.params["project"]), module.params)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    listed = [check.to_dict() for check in checks]
    guest = {
        "boot_id": facts.boot_id,
        "uptime_s": facts.uptime_s,
        "cpus": facts.cpus,
        "memory_kib": facts.memory_kib,
        "kernel": facts.kernel,
    }
    result = {"changed": False, "checks": listed, "summary": summarise(listed), "guest": guest}
    failed = [check for check in checks if check.status == "failed"]
    if failed and module.params["fail_on"] == "failed":
        reasons = "; ".join(f"{check.device} {check.name}: {check.reason}" for check in failed)
        module.fail_json(msg=f"{len(failed)} checks failed: {reasons}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
