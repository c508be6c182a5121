# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What vendor tools and load tests print, and what it is worth."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_compute import (
    Burn,
    check_burn,
    choose_burn,
    skip_burn,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_driver import check_driver, list_nvidia
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_pci import ExpectedGpu
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_probe import GuestFacts, ToolOutput
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Subject

SUBJECT = Subject("alpha", "vm", "all")
NVIDIA = ExpectedGpu("0000:41:00.0", "10de:2330")
AMD = ExpectedGpu("0000:c1:00.0", "1002:74a5")
DISPLAY = ExpectedGpu("0000:05:00.0", "1af4:1050")

SMI_ONE = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-0000-1111-2222-333344445555)"
SMI_MIG = SMI_ONE + "\n  MIG 1g.10gb     Device  0: (UUID: MIG-0a1b2c3d-0000-1111-2222-333344445555)"
ROCM = """
======================= ROCm System Management Interface =======================
GPU[0]\t\t: Device Name: \t\tAMD Instinct MI325X
GPU[0]\t\t: Device ID: \t\t0x74a5
GPU[1]\t\t: Device Name: \t\tAMD Instinct MI325X
============================= End of ROCm SMI Log ==============================
"""


@pytest.mark.parametrize(
    ("gpus", "tool", "rc", "text", "status", "message"),
    [
        ([NVIDIA], "nvidia-smi", 0, SMI_ONE, "passed", "1 of 1"),
        ([NVIDIA], "nvidia-smi", 0, SMI_MIG, "passed", "1 of 1"),
        ([NVIDIA], "nvidia-smi", 0, "GPU 0: NVIDIA H100 80GB HBM3", "passed", "1 of 1"),
        ([NVIDIA, NVIDIA], "nvidia-smi", 0, SMI_ONE, "failed", "lists 1 GPUs, 2 were passed"),
        ([NVIDIA], "nvidia-smi", 0, "No devices were found", "failed", "No devices were found"),
        (
            [NVIDIA],
            "nvidia-smi",
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "failed",
            "couldn't communicate",
        ),
        ([NVIDIA], "nvidia-smi", 137, "", "failed", "60 s"),
        ([AMD, AMD], "rocm-smi", 0, ROCM, "passed", "2 of 2"),
        ([AMD], "rocm-smi", 0, ROCM, "failed", "lists 2 GPUs, 1 were passed"),
        ([AMD], "rocm-smi", 0, "WARNING: No AMD GPUs specified", "failed", "No AMD GPUs specified"),
        ([AMD], "rocm-smi", 1, "", "failed", "printed nothing"),
    ],
)
def test_driver_tools(gpus: list[ExpectedGpu], tool: str, rc: int, text: str, status: str, message: str) -> None:
    facts = GuestFacts(tools={tool: f"/usr/bin/{tool}"}, outputs={tool: ToolOutput(rc, text)})
    (check,) = check_driver(SUBJECT, gpus, facts)
    assert (check.status, message in check.reason) == (status, True)


@pytest.mark.parametrize(
    ("gpu", "message"), [(NVIDIA, "no nvidia-smi in the guest"), (AMD, "no rocm-smi"), (DISPLAY, "vendor 1af4")]
)
def test_without_a_tool_the_driver_tier_is_skipped_with_its_reason(gpu: ExpectedGpu, message: str) -> None:
    (check,) = check_driver(SUBJECT, [gpu], GuestFacts())
    assert (check.status, message in check.reason) == ("skipped", True)


def test_a_mixed_guest_has_a_check_per_vendor() -> None:
    facts = GuestFacts(tools={"nvidia-smi": "/usr/bin/nvidia-smi"}, outputs={"nvidia-smi": ToolOutput(0, SMI_ONE)})
    assert [check.status for check in check_driver(SUBJECT, [NVIDIA, AMD], facts)] == ["passed", "skipped"]


def test_nvidia_names_and_uuids_are_read() -> None:
    assert list_nvidia(SMI_ONE) == [
        {"index": "0", "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-0a1b2c3d-0000-1111-2222-333344445555"}
    ]


# The shape of gpu-burn's output: nvidia-smi's list first, one line that is rewritten, the verdicts last.
def burn_output(*verdicts: str, errors: str = "0 ") -> str:
    head = SMI_ONE + "\nBurning for 10 seconds.\nInitialized device 0 with 81008 MB of memory\n"
    progress = f"\r10.0%  proc'd: 12 (5300 Gflop/s)   errors: {errors}  temps: 40 C \r100.0%  proc'd: 99 (5300 Gflop/s)   errors: {errors}  temps: 41 C "
    tail = "\nKilling processes with SIGTERM (soft kill)\ndone\n"
    return (
        head
        + progress
        + tail
        + (
            f"\nTested {len(verdicts)} GPUs:\n" + "".join(f"\tGPU {n}: {v}\n" for n, v in enumerate(verdicts))
            if verdicts
            else ""
        )
    )


BURN = Burn("gpu-burn", ("gpu-burn", "10"), 60)
RVS = Burn("rvs", ("rvs", "-r", "1"), 60)
RVS_TRUE = "[RESULT] [1102003.864648] [gst-1215Tflops-4K4K8K-rand-fp8] [GPU:: 28851] GFLOPS 1687129 Target GFLOPS: 1215000 met: TRUE"


@pytest.mark.parametrize(
    ("burn", "gpus", "rc", "output", "status", "message"),
    [
        (BURN, [NVIDIA], 0, burn_output("OK"), "passed", "GPU 0 OK"),
        (BURN, [NVIDIA, NVIDIA], 0, burn_output("OK", "OK"), "passed", "GPU 0, GPU 1 OK"),
        # the exit code is 0 with faults as well
        (BURN, [NVIDIA], 0, burn_output("FAULTY", errors="17  (WARNING!)"), "failed", "faults on GPU 0"),
        (BURN, [NVIDIA, NVIDIA], 0, burn_output("OK", "FAULTY"), "failed", "faults on GPU 1"),
        (BURN, [NVIDIA], 0, burn_output(errors="-1  (DIED!)"), "failed", "stopped early"),
        (BURN, [NVIDIA], 0, burn_output(), "failed", "gave no verdict"),
        (BURN, [NVIDIA], 123, "\n\nNo clients are alive!  Aborting\n", "failed", "No clients are alive"),
        (
            BURN,
            [NVIDIA],
            0,
            "Couldn't init CUDA: Error in (gpu_burn-drv.cpp:1): no CUDA-capable device\n",
            "failed",
            "Couldn't init CUDA",
        ),
        (BURN, [NVIDIA], 127, "sh: gpu-burn: not found", "failed", "ended with 127: sh: gpu-burn: not found"),
        (BURN, [NVIDIA, NVIDIA], 0, burn_output("OK"), "failed", "tested 1 GPUs, 2 were passed"),
        (RVS, [AMD], 0, RVS_TRUE, "passed", "GPU 28851 OK"),
        (RVS, [AMD], 0, RVS_TRUE.replace("TRUE", "FALSE"), "failed", "faults on gst-1215Tflops"),
        # how it stands in between does not count, the last word does
        (RVS, [AMD], 0, RVS_TRUE.replace("TRUE", "FALSE") + "\n" + RVS_TRUE, "passed", "OK"),
        (RVS, [AMD], 0, "[RESULT] [12.3] [iet_1] [GPU:: 33367] pass: TRUE", "passed", "iet_1 GPU 33367"),
        (RVS, [AMD], 0, "[RESULT] [12.3] [iet_1] [GPU:: 33367] pass: FALSE", "failed", "iet_1 GPU 33367"),
        (
            RVS,
            [AMD],
            0,
            "RVS-ERROR [CLI] No platform support for the detected GPU or no GPU detected !",
            "failed",
            "gave no verdict: RVS-ERROR",
        ),
        (RVS, [AMD], 255, "", "failed", "ended with 255: it printed nothing"),
    ],
)
def test_verdicts(burn: Burn, gpus: list[ExpectedGpu], rc: int, output: str, status: str, message: str) -> None:
    check = check_burn(SUBJECT, gpus, burn, rc, output, 12.0)
    assert (check.status, message in check.reason) == (status, True), check.reason
    assert check.seconds == 12.0


@pytest.mark.parametrize(
    ("vendor", "tools", "tool"),
    [
        ("10de", {"gpu-burn": "/snap/bin/gpu-burn"}, "gpu-burn"),
        ("10de", {"gpu_burn": "/opt/gpu-burn/gpu_burn"}, "gpu_burn"),
        ("1002", {"rvs": "/opt/rocm/bin/rvs"}, "rvs"),
        ("10de", {"rvs": "/opt/rocm/bin/rvs"}, None),
        ("1002", {}, None),
        ("1af4", {"gpu-burn": "/snap/bin/gpu-burn"}, None),
    ],
)
def test_choice_of_the_load_test(vendor: str, tools: dict[str, str], tool: str | None) -> None:
    burn = choose_burn(vendor, tools, 10, 5.0)
    assert (burn.tool if burn else None) == tool
    if burn and tool != "rvs":
        # the burn itself, its 30 s of shutting down, and some room
        assert burn.timeout_s >= 40


@pytest.mark.parametrize(
    ("vendor", "message"),
    [("10de", "no gpu-burn in the guest"), ("1002", "no rvs in the guest"), ("1af4", "no load test is known")],
)
def test_without_a_load_test_the_tier_is_skipped_with_its_reason(vendor: str, message: str) -> None:
    check = skip_burn(SUBJECT, [NVIDIA], vendor)
    assert (check.status, message in check.reason) == ("skipped", True)
