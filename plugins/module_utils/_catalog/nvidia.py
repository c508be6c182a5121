# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's boards: GPUs and NVSwitches, each figure with its source; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog import mig, sources
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.build import (
    CLASS_3D,
    CLASS_BRIDGE,
    GIB,
    MIB,
    NVIDIA,
    before_hopper,
    board,
    memory64,
    since_hopper,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Bar, Board, GpuFacts, MigProfile

_REVISION_A1 = 0xA1
# The facts of an NVIDIA GPU that the catalog tells or lists as unknown.
FACTS = ("architecture", "memory_mib", "bar1_mib", "cuda_compute_capability", "brand", "mig_capable", "mig_profiles")


def _gpu(
    name: str,
    product: str,
    device_id: int,
    subsystem_id: int,
    facts: GpuFacts,
    class_source: str,
    bars: Sequence[Bar] = (),
    bars_source: str = "",
    revision_source: str = "",
    subsystem_source: str = sources.NVIDIA_NAMES,
    facts_sources: Optional[Mapping[str, str]] = None,
    unknown: Sequence[str] = (),
) -> Board:
    told = {
        "device_id": sources.PCI_IDS,
        "subsystem_id": subsystem_source,
        "class_code": class_source,
        "gpu.product_name": sources.NVIDIA_NAMES,
        **{f"gpu.{fact}": text for fact, text in (facts_sources or {}).items()},
    }
    if facts.mig_profiles:
        told["gpu.mig_profiles"] = mig.SOURCES[name]
    elif facts.mig_profiles is not None:
        told["gpu.mig_profiles"] = told["gpu.mig_capable"]
    if bars:
        told["bars"] = bars_source
    if revision_source:
        told["revision"] = revision_source
    return board(
        name=name,
        kind="gpu",
        vendor="NVIDIA Corporation",
        product=product,
        ids=(NVIDIA, device_id),
        class_code=CLASS_3D,
        subsystem=(NVIDIA, subsystem_id),
        revision=_REVISION_A1 if revision_source else None,
        bars=bars,
        gpu=facts,
        sources=told,
        unknown=(*unknown, *(f"gpu.{fact}" for fact in FACTS if getattr(facts, fact) is None)),
    )


def _facts(
    product_name: str,
    architecture: str,
    cuda_compute_capability: Optional[str] = None,
    memory_mib: Optional[int] = None,
    bar1_mib: Optional[int] = None,
    brand: Optional[str] = None,
    mig_capable: Optional[bool] = None,
    mig_profiles: Optional[Sequence[MigProfile]] = None,
) -> GpuFacts:
    return GpuFacts(
        product_name=product_name,
        architecture=architecture,
        memory_mib=memory_mib,
        bar1_mib=bar1_mib,
        cuda_compute_capability=cuda_compute_capability,
        brand=brand,
        mig_capable=mig_capable,
        mig_profiles=() if mig_capable is False else tuple(mig_profiles) if mig_profiles else None,
    )


def _captured(name: str, capability_profile: str = "") -> dict[str, str]:
    """The sources of the facts that a stored nvidia-smi output tells."""
    text = sources.nvidia_smi(name)
    told = dict.fromkeys(("architecture", "memory_mib", "bar1_mib", "brand", "mig_capable"), text)
    if capability_profile:
        told["cuda_compute_capability"] = sources.nvml_profile(capability_profile)
    return told


_CHIP_NAME = "the chip's name in " + sources.PCI_IDS
_MIG_TYPES = "MIG-backed vGPU types in " + sources.NVIDIA_NAMES
_NO_MIG_TYPES = "no MIG-backed vGPU type in " + sources.NVIDIA_NAMES


def _told(
    mig_capable: str, architecture: str = _CHIP_NAME, capability: str = sources.CAPABILITY_LIST, memory: str = ""
) -> dict[str, str]:
    """The sources of the facts of a board without a stored nvidia-smi output."""
    told = {
        "architecture": architecture,
        "cuda_compute_capability": capability,
        "memory_mib": memory,
        "mig_capable": mig_capable,
    }
    return {fact: text for fact, text in told.items() if text}


GPUS: tuple[Board, ...] = (
    _gpu(
        "nvidia-t4", "TU104GL [Tesla T4]", 0x1EB8, 0x12A2,
        _facts("Tesla T4", "Turing", "7.5", memory_mib=15360, bar1_mib=256, brand="NVIDIA", mig_capable=False),
        class_source=sources.LSPCI_T4, revision_source=sources.LSPCI_T4,
        bars=before_hopper(256 * MIB), bars_source=sources.LSPCI_T4,
        facts_sources=_captured("t4", "t4"),
    ),
    _gpu(
        "nvidia-a10", "GA102GL [A10]", 0x2236, 0x1482,
        _facts("NVIDIA A10", "Ampere", "8.6", memory_mib=23028, mig_capable=False),
        class_source=sources.LSPCI_A10, revision_source=sources.LSPCI_A10,
        bars=before_hopper(32 * GIB), bars_source=sources.LSPCI_A10,
        facts_sources=_told(mig_capable=_NO_MIG_TYPES, capability=sources.LSPCI_A10, memory=sources.MODAL_MEMORY),
    ),
    _gpu(
        "nvidia-a30", "GA100GL [A30 PCIe]", 0x20B7, 0x1532,
        _facts("NVIDIA A30", "Ampere", "8.0", mig_capable=True),
        class_source=sources.LSPCI_A30, revision_source=sources.LSPCI_A30,
        bars=before_hopper(32 * GIB), bars_source=sources.LSPCI_A30,
        facts_sources=_told(mig_capable=_MIG_TYPES),
    ),
    _gpu(
        "nvidia-a100-sxm4-40gb", "GA100 [A100 SXM4 40GB]", 0x20B0, 0x134F,
        _facts("NVIDIA A100-SXM4-40GB", "Ampere", "8.0", memory_mib=40960, bar1_mib=65536, brand="NVIDIA", mig_capable=True, mig_profiles=mig.A100_40GB),
        class_source=sources.DMESG_A100_SXM_40, revision_source=sources.LSPCI_P4D,
        bars=before_hopper(64 * GIB), bars_source=sources.DMESG_A100_SXM_40,
        subsystem_source=sources.nvidia_smi("a100"), facts_sources=_captured("a100", "a100"),
    ),
    _gpu(
        "nvidia-a100-pcie-40gb", "GA100 [A100 PCIe 40GB]", 0x20F1, 0x145F,
        _facts("NVIDIA A100-PCIE-40GB", "Ampere", "8.0", mig_capable=True),
        class_source=sources.DMESG_A100_PCIE_40, revision_source=sources.DMESG_A100_PCIE_40,
        bars=before_hopper(64 * GIB), bars_source=sources.DMESG_A100_PCIE_40,
        facts_sources=_told(mig_capable=_MIG_TYPES),
    ),
    _gpu(
        "nvidia-a100-sxm4-80gb", "GA100 [A100 SXM4 80GB]", 0x20B2, 0x1463,
        _facts("NVIDIA A100-SXM4-80GB", "Ampere", "8.0", memory_mib=81920, mig_capable=True),
        class_source=sources.LSPCI_A100_SXM_80, revision_source=sources.LSPCI_A100_SXM_80,
        bars=before_hopper(128 * GIB), bars_source=sources.LSPCI_A100_SXM_80,
        facts_sources=_told(mig_capable=_MIG_TYPES, memory=sources.MODAL_MEMORY),
    ),
    _gpu(
        "nvidia-a100-pcie-80gb", "GA100 [A100 PCIe 80GB]", 0x20B5, 0x1533,
        _facts("NVIDIA A100 80GB PCIe", "Ampere", "8.0", mig_capable=True),
        class_source=sources.LSPCI_A100_PCIE_80,
        bars=before_hopper(128 * GIB), bars_source=sources.LSPCI_A100_PCIE_80,
        facts_sources=_told(mig_capable=_MIG_TYPES),
    ),
    _gpu(
        "nvidia-l4", "AD104GL [L4]", 0x27B8, 0x16EE,
        _facts("NVIDIA L4", "Ada Lovelace", "8.9", memory_mib=23034, mig_capable=False),
        class_source=sources.LSPCI_L4, revision_source=sources.LSPCI_L4,
        bars=before_hopper(32 * GIB), bars_source=sources.LSHW_L4,
        facts_sources=_told(mig_capable=_NO_MIG_TYPES, memory=sources.MODAL_MEMORY),
    ),
    _gpu(
        "nvidia-l40s", "AD102GL [L40S]", 0x26B9, 0x1851,
        _facts("NVIDIA L40S", "Ada Lovelace", "8.9", memory_mib=46068, bar1_mib=65536, brand="NVIDIA", mig_capable=False),
        class_source=sources.LSPCI_L40S_CLASS, revision_source=sources.LSPCI_L40S_CLASS,
        bars=before_hopper(64 * GIB), bars_source=sources.LSPCI_L40S,
        facts_sources=_captured("l40s", "l40s"),
    ),
    _gpu(
        "nvidia-h100-sxm5-80gb", "GH100 [H100 SXM5 80GB]", 0x2330, 0x16C1,
        _facts("NVIDIA H100 80GB HBM3", "Hopper", "9.0", memory_mib=81559, bar1_mib=131072, brand="NVIDIA", mig_capable=True, mig_profiles=mig.H100_80GB),
        class_source=sources.DMESG_H100_SXM, revision_source=sources.CONFIG_H100_SXM,
        bars=since_hopper(16 * MIB, 128 * GIB), bars_source=sources.DMESG_H100_SXM,
        facts_sources=_captured("h100", "h100"),
    ),
    _gpu(
        "nvidia-h100-pcie", "GH100 [H100 PCIe]", 0x2331, 0x1626,
        _facts("NVIDIA H100 PCIe", "Hopper", "9.0", mig_capable=True),
        class_source="lspci -D of an H100 PCIe (3D controller, rev a1) in OpenNebula's guide on GPU passthrough",
        revision_source="lspci -D of an H100 PCIe (3D controller, rev a1) in OpenNebula's guide on GPU passthrough",
        facts_sources=_told(mig_capable=_MIG_TYPES),
    ),
    _gpu(
        "nvidia-h100-nvl", "GH100 [H100L 94GB]", 0x2321, 0x1839,
        _facts("NVIDIA H100 NVL", "Hopper", "9.0", mig_capable=True),
        class_source=sources.LSPCI_H100_NVL, revision_source=sources.LSPCI_H100_NVL,
        bars=since_hopper(16 * MIB, 128 * GIB), bars_source=sources.LSPCI_H100_NVL,
        facts_sources=_told(mig_capable=_MIG_TYPES),
    ),
    _gpu(
        "nvidia-h200-sxm-141gb", "GH100 [H200 SXM 141GB]", 0x2335, 0x18BE,
        _facts("NVIDIA H200", "Hopper", "9.0", memory_mib=143771, mig_capable=True, mig_profiles=mig.H200_141GB),
        class_source="lspci -vvvnn of an H200 in " + sources.PASSTHROUGH_H200,
        bars=since_hopper(16 * MIB, 256 * GIB), bars_source=sources.PASSTHROUGH_H200,
        facts_sources=_told(
            mig_capable="nvidia-smi mig -lgip in https://github.com/NVIDIA/mig-parted/issues/120",
            architecture="nvidia-smi in https://github.com/NVIDIA/mig-parted/issues/120",
            memory=sources.MODAL_MEMORY,
        ),
    ),
    _gpu(
        "nvidia-b200", "GB100 [B200]", 0x2901, 0x1999,
        _facts("NVIDIA B200", "Blackwell", "10.0", memory_mib=183359, bar1_mib=262144, brand="NVIDIA", mig_capable=True, mig_profiles=mig.B200),
        class_source=sources.LSPCI_B200_CLASS, revision_source=sources.LSPCI_B200_CLASS,
        bars=since_hopper(64 * MIB, 256 * GIB), bars_source=sources.LSPCI_B200,
        facts_sources=_captured("b200", "b200"),
    ),
    _gpu(
        "nvidia-b300-sxm6", "GB110 [B300 SXM6 AC]", 0x3182, 0x20E6,
        _facts("NVIDIA B300 SXM6 AC", "Blackwell", mig_capable=True),
        class_source="lspci -nn of B300 (3D controller [0302]) in public reports on Fabric Manager",
        bars=(memory64(2, 512 * GIB),), bars_source=sources.PASSTHROUGH_B300,
        unknown=("bars.0", "bars.4"),
        facts_sources=_told(mig_capable=_MIG_TYPES, capability=""),
    ),
    _gpu(
        "nvidia-gb200", "GB100 [HGX GB200]", 0x2941, 0x2046,
        _facts("NVIDIA GB200", "Blackwell", "10.0", memory_mib=189471, bar1_mib=262144, brand="NVIDIA", mig_capable=True),
        class_source=sources.nvidia_smi("gb200"),
        facts_sources=_captured("gb200", "gb200"),
    ),
    _gpu(
        "nvidia-gb300", "GB110 [GB300]", 0x31C2, 0x21F1,
        _facts("NVIDIA GB300", "Blackwell", "10.3", memory_mib=284208, bar1_mib=524288, brand="NVIDIA", mig_capable=True),
        class_source=sources.nvidia_smi("gb300"),
        facts_sources={**_captured("gb300"), "cuda_compute_capability": sources.DRANET_GB300},
    ),
)  # fmt: skip

SWITCHES: tuple[Board, ...] = (
    board(
        name="nvidia-nvswitch-a100", kind="nvswitch", vendor="NVIDIA Corporation", product="GA100 [A100 NVSwitch]",
        ids=(NVIDIA, 0x1AF1), class_code=CLASS_BRIDGE, revision=_REVISION_A1,
        sources={"device_id": sources.PCI_IDS, "class_code": sources.NVSWITCH_LISTINGS, "revision": sources.DGX_A100_LSPCI},
    ),
    board(
        name="nvidia-nvswitch-h100", kind="nvswitch", vendor="NVIDIA Corporation", product="GH100 [H100 NVSwitch]",
        ids=(NVIDIA, 0x22A3), class_code=CLASS_BRIDGE, revision=_REVISION_A1, bars=(Bar(0, 32 * MIB, prefetchable=False),),
        sources={
            "device_id": sources.PCI_IDS, "class_code": sources.NVSWITCH_H100,
            "revision": sources.NVSWITCH_LISTINGS, "bars": sources.NVSWITCH_H100,
        },
    ),
)  # fmt: skip

BOARDS = {item.name: item for item in (*GPUS, *SWITCHES)}
