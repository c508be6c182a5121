# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tier `pci` in a container: its device nodes are there and may be opened, and sysfs shows the GPU behind them. Private to the collection."""

from __future__ import annotations

from typing import Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_pci import ExpectedGpu
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_probe import GuestFacts
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.kernel_log import same_function
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject


def check_container(subject: Subject, gpus: Sequence[ExpectedGpu], facts: GuestFacts) -> list[Check]:
    """A container shares the host's kernel, so the GPU keeps its address; what it gets of its own are the device nodes."""
    checks = []
    for gpu in gpus:
        checks.append(_sysfs(subject, gpu, facts))
        checks.append(_nodes(subject, gpu, facts))
    return checks


def _sysfs(subject: Subject, gpu: ExpectedGpu, facts: GuestFacts) -> Check:
    for function in facts.functions:
        if same_function(function.address, gpu.address) and function.ids == gpu.ids:
            evidence = {
                "address": function.address,
                "ids": function.ids,
                "driver": function.driver,
                "lspci": function.lspci,
            }
            return subject.passed(
                gpu.address, "pci.present", f"sysfs in the container shows {gpu.ids} at {function.address}", evidence
            )
    seen = {
        "guest_functions": [f"{f.address} {f.ids}" for f in facts.functions],
        "other_functions": list(facts.others),
    }
    return subject.failed(
        gpu.address, "pci.present", f"sysfs in the container shows no {gpu.ids} at {gpu.address}", seen
    )


def _nodes(subject: Subject, gpu: ExpectedGpu, facts: GuestFacts) -> Check:
    name = "pci.device_nodes"
    wanted = [f"/dev/dri/{node}" for node, address in sorted(facts.drm.items()) if same_function(address, gpu.address)]
    if gpu.vendor == "10de":
        wanted += [
            f"/dev/nvidia{minor}"
            for address, minor in facts.nvidia_minors.items()
            if same_function(address, gpu.address)
        ]
    there = [node for node in wanted if node in facts.nodes]
    if gpu.vendor == "10de" and not any(node.startswith("/dev/nvidia") for node in wanted):
        # Without /proc/driver/nvidia nothing says which number is whose: any node of that kind has to do.
        there += [
            node for node in facts.nodes if node.startswith("/dev/nvidia") and node[len("/dev/nvidia") :].isdigit()
        ]
    refused = [node for node in there if not facts.nodes[node]]
    evidence = {"nodes": dict(facts.nodes), "expected": wanted}
    if not there:
        told = ", ".join(wanted) or "any node of it"
        return subject.failed(
            gpu.address, name, f"the container has no device node of {gpu.address}: expected {told}", evidence
        )
    if refused:
        return subject.failed(gpu.address, name, f"the container may not open {', '.join(refused)}", evidence)
    return subject.passed(gpu.address, name, f"{', '.join(there)} can be opened", evidence)
