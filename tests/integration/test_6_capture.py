# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capture and replay: what gpu_host_info writes down of a virtual host is the machine that it was made of, and makes it again."""

from __future__ import annotations

import pytest
from lab import H100_HOST, MIXED_HOST, Lab, Stream

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine

# The first test that runs may have to build the hosts.
pytestmark = pytest.mark.timeout(7200)

# The kernel does not count what firmware keeps for itself.
MEMORY_TOLERANCE = 0.05


def places(machine: Machine) -> dict[str, tuple[str, int, str]]:
    """Root, NUMA node and board by address. Names of devices are not captured; a machine of one node need not name it."""
    return {device.address: (root.name, root.numa_node or 0, device.board.name) for root, device in machine.devices()}


@pytest.mark.parametrize(("host", "preset"), [(H100_HOST, "lab-h100-pair"), (MIXED_HOST, "lab-mixed")])
def test_capture_is_the_machine(host: str, preset: str, hosts: Lab, stream: Stream):
    facts = hosts.module(stream, host, "gpu_host_info", {"lxd": False})
    assert not facts["changed"]
    captured, made_of = load(facts["machine"]), load(preset)
    assert places(captured) == places(made_of)
    assert [root.name for root in captured.roots] == [root.name for root in made_of.roots]
    assert captured.numa_nodes == made_of.numa_nodes
    assert captured.phys_bits == made_of.phys_bits
    # A host may be smaller than its machine: it has no more than this computer.
    settings = hosts.state(host).settings
    assert captured.cpus == settings["cpus"]
    assert settings["memory_mb"] * (1 - MEMORY_TOLERANCE) <= captured.memory_mb <= settings["memory_mb"]
    replay = {
        "name": "replay",
        "machine": facts["machine"],
        "sources": str(hosts.checkout / "roles" / "virtual_gpu_host" / "files"),
        "guest_images": True,
    }
    result = hosts.module(stream, "localhost", "virtual_gpu_host", replay, "--check")
    (would,) = result["hosts"]
    assert (result["changed"], would["status"], would["actions"]) == (True, "running", ["start"]), result
    assert "replay" not in hosts.hosts(), "check mode made a host"
