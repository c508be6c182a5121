# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two rows of the table of holes, live: an H100 in a VM whose CPU is an Intel one with 40 address bits."""

from __future__ import annotations

import json

import pytest
from lab import H100, H100_BARS, H100_HOST, Lab, Run, Stream, bars_of

# The first test that runs may have to build the hosts.
pytestmark = [pytest.mark.live, pytest.mark.timeout(7200)]

# QEMU takes the last -cpu; edk2 does not believe an Intel CPU with 40 bits and keeps to its classic window of 32 GiB.
INTEL_40_BITS = ["-cpu", "host,vendor=GenuineIntel,host-phys-bits=off,phys-bits=40"]


def play(lab: Lab, stream: Stream, qemu_opts: list[str]) -> Run:
    variables = {"gpus": [H100], "tests": ["vm"], "tiers": ["pci"], "qemu_opts": qemu_opts}
    return lab.play(stream, "playbooks/passthrough.yml", "--limit", H100_HOST, "-e", json.dumps(variables))


def test_default_hole_is_too_small(hosts: Lab, stream: Stream):
    run = play(hosts, stream, INTEL_40_BITS)
    assert run.returncode != 0
    report = run.report()
    assert report.only(name="start")["status"] == "passed"
    bars = report.only(name="pci.bars")
    assert bars["status"] == "failed"
    assert "(128 GiB on the host) is not assigned" in bars["reason"], bars
    assert report.only(name="pci.present")["status"] == "passed", "the GPU is there, only without its large BAR"
    assert report.only(name="release")["status"] == "passed"


def test_auto_makes_room(hosts: Lab, stream: Stream):
    run = play(hosts, stream, ["auto", *INTEL_40_BITS])
    report = run.report()
    assert run.returncode == 0, report.failures()
    report.assert_passed()
    assert bars_of(report.only(name="pci.bars")) == H100_BARS
    start = report.only(name="start")["evidence"]
    tokens, explanation = start["qemu_opts"]["tokens"], start["qemu_opts"]["explanation"]
    assert [token for token in tokens if token.startswith("q35-pcihost.pci-hole64-size=")], tokens
    assert "1 × (128 GiB + " in explanation and "40 bits" in explanation, explanation
    raw = start["config"]["raw.qemu"]
    assert all(token in raw for token in (*tokens, INTEL_40_BITS[1])), raw
