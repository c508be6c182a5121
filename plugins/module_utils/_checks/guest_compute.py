# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tier `compute`: the GPUs calculate, by gpu-burn or the ROCm Validation Suite, judged by what they print. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_pci import ExpectedGpu
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject

NAME = "compute.burn"
# gpu-burn waits this long for its children after the burn (SIGTERM_TIMEOUT_THRESHOLD_SECS in gpu_burn-drv.cpp).
BURN_SHUTDOWN_S = 30

# The end of gpu-burn's output: "Tested 2 GPUs:" and a line "\tGPU 0: OK" or "\tGPU 1: FAULTY" for each. Anchored, since the list of
# nvidia-smi at its beginning has lines "GPU 0: NVIDIA ..." as well.
_TESTED = re.compile(r"^Tested (\d+) GPUs:", re.MULTILINE)
_VERDICT = re.compile(r"^\s*GPU (?P<index>\d+): (?P<verdict>OK|FAULTY)\s*$", re.MULTILINE)
_DIED = re.compile(r"\(DIED!\)|No clients are alive|Couldn't init|Failure during compute|No CUDA devices")

# "[RESULT] [1102003.86] [action] [GPU:: 28851] GFLOPS 1687129 Target GFLOPS: 1215000 met: TRUE"; other modules of rvs end with "pass: TRUE".
_RVS = re.compile(
    r"\[(?P<action>[^\]\[]+)\]\s*\[?GPU\s*(?:::)?\s*(?P<gpu>\d+)\]?.*?\b(?:met|pass):\s*(?P<verdict>TRUE|FALSE)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Burn:
    """A tool that puts load on the GPUs of one vendor."""

    tool: str
    argv: tuple[str, ...]
    timeout_s: float


def choose_burn(vendor: str, tools: Mapping[str, str], seconds: int, timeout_s: float) -> Optional[Burn]:
    """How to burn in this guest; None when it has no tool for this vendor."""
    if vendor == "10de":
        for tool in ("gpu-burn", "gpu_burn"):
            if tool in tools:
                return Burn(
                    tool, _in_own_folder(tools[tool], str(seconds)), max(timeout_s, seconds + BURN_SHUTDOWN_S + 30.0)
                )
    if vendor == "1002" and "rvs" in tools:
        return Burn("rvs", (tools["rvs"], "-r", "1"), timeout_s)
    return None


def _in_own_folder(tool: str, seconds: str) -> tuple[str, ...]:
    """gpu-burn looks for compare.ptx where it is started; a snap has it elsewhere and does not mind."""
    return ("sh", "-c", 'cd "${1%/*}" && exec "$1" "$2"', "gpulab-burn", tool, seconds)


def check_burn(
    subject: Subject, gpus: Sequence[ExpectedGpu], burn: Burn, rc: int, output: str, seconds: float
) -> Check:
    """The verdict over all GPUs of one vendor."""
    if burn.tool == "rvs":
        verdicts = _rvs_verdicts(output)
    else:
        verdicts = _burn_verdicts(output)
    device = subject.whole
    evidence = {"tool": burn.tool, "argv": list(burn.argv), "rc": rc, "verdicts": verdicts, "output": _tail(output)}
    bad = sorted(gpu for gpu, good in verdicts.items() if not good)
    if bad:
        return subject.failed(device, NAME, f"{burn.tool} found faults on {', '.join(bad)}", evidence, seconds)
    died = _DIED.search(output)
    if died:
        return subject.failed(
            device, NAME, f"{burn.tool} stopped early: {_line_of(output, died.start())}", evidence, seconds
        )
    if rc != 0:
        return subject.failed(device, NAME, f"{burn.tool} ended with {rc}: {_last_line(output)}", evidence, seconds)
    if not verdicts:
        return subject.failed(
            device, NAME, f"{burn.tool} ended with 0 but gave no verdict: {_last_line(output)}", evidence, seconds
        )
    if burn.tool != "rvs" and len(verdicts) != len(gpus):
        return subject.failed(
            device, NAME, f"{burn.tool} tested {len(verdicts)} GPUs, {len(gpus)} were passed", evidence, seconds
        )
    return subject.passed(device, NAME, f"{burn.tool}: {', '.join(sorted(verdicts))} OK", evidence, seconds)


def skip_burn(subject: Subject, gpus: Sequence[ExpectedGpu], vendor: str) -> Check:
    tools = {"10de": "gpu-burn", "1002": "rvs"}.get(vendor)
    device = subject.whole
    if tools is None:
        return subject.skipped(device, NAME, f"no load test is known for GPUs of PCI vendor {vendor}")
    return subject.skipped(device, NAME, f"there is no {tools} in the guest")


def _burn_verdicts(output: str) -> dict[str, bool]:
    found = _TESTED.search(output)
    if found is None:
        return {}
    return {f"GPU {match['index']}": match["verdict"] == "OK" for match in _VERDICT.finditer(output, found.end())}


def _rvs_verdicts(output: str) -> dict[str, bool]:
    """The last word on each action and GPU counts: rvs also prints how it stands in between."""
    verdicts: dict[str, bool] = {}
    for line in output.splitlines():
        match = _RVS.search(line)
        if match:
            verdicts[f"{match['action']} GPU {match['gpu']}"] = match["verdict"].upper() == "TRUE"
    return verdicts


def _tail(output: str) -> str:
    # gpu-burn rewrites one line with carriage returns, ten times a second.
    return "\n".join(line.split("\r")[-1] for line in output.split("\n"))[-4000:]


def _line_of(output: str, position: int) -> str:
    start = max(output.rfind("\n", 0, position), output.rfind("\r", 0, position)) + 1
    end = output.find("\n", position)
    return output[start : end if end >= 0 else len(output)].strip()


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
