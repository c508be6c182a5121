# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tier `driver`: the vendor's tool answers in the guest and counts as many GPUs as were passed. Private to the collection."""

from __future__ import annotations

import re
from typing import Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_pci import ExpectedGpu
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_probe import GuestFacts, ToolOutput
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject

NAME = "driver.gpus"
# PCI vendor -> the tool that lists its GPUs.
_TOOLS = {"10de": "nvidia-smi", "1002": "rocm-smi"}
_VENDORS = {"10de": "NVIDIA", "1002": "AMD"}

# "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)"; MIG devices follow indented and are no GPUs.
_NVIDIA_GPU = re.compile(r"^GPU (?P<index>\d+): (?P<name>.*?)(?: \(UUID: (?P<uuid>GPU-[^)]+)\))?\s*$", re.MULTILINE)
# "GPU[0]		: Device ID: 0x74a5", several lines per GPU.
_AMD_GPU = re.compile(r"^GPU\[(?P<index>\d+)\]\s*:", re.MULTILINE)


def list_nvidia(text: str) -> list[dict[str, str]]:
    """The GPUs of `nvidia-smi -L`."""
    return [{key: value or "" for key, value in match.groupdict().items()} for match in _NVIDIA_GPU.finditer(text)]


def list_amd(text: str) -> list[dict[str, str]]:
    """The GPUs of `rocm-smi --showid`."""
    return [{"index": index} for index in dict.fromkeys(match["index"] for match in _AMD_GPU.finditer(text))]


def check_driver(subject: Subject, gpus: Sequence[ExpectedGpu], facts: GuestFacts) -> list[Check]:
    """One check per vendor among the GPUs that were passed."""
    checks = []
    for vendor in dict.fromkeys(gpu.vendor for gpu in gpus):
        of_vendor = [gpu for gpu in gpus if gpu.vendor == vendor]
        device = subject.whole
        checks.append(_check_vendor(subject, device, vendor, len(of_vendor), facts))
    return checks


def _check_vendor(subject: Subject, device: str, vendor: str, passed: int, facts: GuestFacts) -> Check:
    tool = _TOOLS.get(vendor)
    if tool is None:
        return subject.skipped(device, NAME, f"no vendor tool is known that lists the GPUs of PCI vendor {vendor}")
    if tool not in facts.tools:
        return subject.skipped(
            device, NAME, f"there is no {tool} in the guest: its image has no {_VENDORS[vendor]} driver"
        )
    output: Optional[ToolOutput] = facts.outputs.get(tool)
    if output is None:
        return subject.failed(device, NAME, f"{tool} was not run in the guest")
    listed = list_nvidia(output.text) if vendor == "10de" else list_amd(output.text)
    evidence = {"tool": facts.tools[tool], "rc": output.rc, "gpus": listed, "output": output.text[-4000:]}
    if output.rc in (124, 137, 143):
        return subject.failed(device, NAME, f"{tool} did not answer within its 60 s", evidence)
    # The exit code alone proves nothing: the list itself is counted below.
    if output.rc != 0:
        return subject.failed(device, NAME, f"{tool} ended with {output.rc}: {_first_line(output.text)}", evidence)
    if len(listed) != passed:
        said = "" if listed else f": {_first_line(output.text)}"
        return subject.failed(device, NAME, f"{tool} lists {len(listed)} GPUs, {passed} were passed{said}", evidence)
    return subject.passed(device, NAME, f"{tool} lists {len(listed)} of {passed} GPUs", evidence)


def _first_line(text: str) -> str:
    for line in text.splitlines():
        words = line.strip()
        # rocm-smi frames everything in rows of "=".
        if words.strip("= "):
            return words.strip("= ")
    return "it printed nothing"
