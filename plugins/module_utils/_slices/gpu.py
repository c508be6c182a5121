# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu.nvidia.com: whole GPUs and static MIG as NVIDIA's driver publishes them; private to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import nearest
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.facts import read_mig_layout
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.identity import (
    derive_identity,
    derive_mig_uuid,
    derived_identities,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.mig import PlacedInstance, place_instances
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    Device,
    GpuFacts,
    Machine,
    MigInstance,
    NvidiaDriver,
    PcieRoot,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import STATIC_MIG, Release
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.settings import VENDOR_NVIDIA, DriverSettings
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.template import DeviceTemplate, Text, Value
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.values import mebibytes, semantic_version

# What a machine runs whose description says nothing: the driver of the AWS p5 in NVIDIA/aicr@bc05c6be.
DEFAULT_DRIVER = NvidiaDriver(version="580.105.08", cuda_version="13.0", addressing_mode="HMM")
# go-nvml's word for NVML_BRAND_NVIDIA, which nvidia-smi prints in capitals. Every board of a known brand has it.
_BRANDS = {None: "Nvidia", "NVIDIA": "Nvidia"}
_ALL = "*"

Attributes = dict[str, tuple[str, Value]]


@dataclass(frozen=True)
class _Gpu:
    """A GPU with its numbers: among the machine's GPUs, for its identity, and among NVIDIA's, which is its minor."""

    root: PcieRoot
    device: Device
    facts: GpuFacts
    index: int
    minor: int
    uuid: Text


def gpu_devices(machine: Machine, release: Release, settings: DriverSettings) -> list[DeviceTemplate]:
    """The devices of a node, in the order of GPUs; a whole GPU stands before its MIG devices."""
    gpus = _gpus(machine)
    layouts = _layouts(gpus, settings)
    driver = machine.nvidia_driver or DEFAULT_DRIVER
    devices: list[DeviceTemplate] = []
    for gpu in gpus:
        layout = layouts.get(gpu.device.name)
        if layout is None or release.whole_beside_mig:
            devices.append(_whole(gpu, driver, release))
        if layout is not None:
            placed = place_instances(gpu.device.board, layout, f"{gpu.device.name}.mig")
            devices.extend(_mig(gpu, driver, release, instance, number) for number, instance in enumerate(placed))
    return devices


def _gpus(machine: Machine) -> list[_Gpu]:
    derived = derived_identities(machine)
    gpus: list[_Gpu] = []
    devices = [(root, device) for root, device in machine.devices() if device.board.kind == "gpu"]
    for index, (root, device) in enumerate(devices):
        if device.board.main.vendor_id != VENDOR_NVIDIA:
            continue
        if device.board.gpu is None:
            raise SliceError(
                f"boards.{device.board.name}.gpu is missing, which slices are made from; give product_name, architecture, "
                "memory_mib and cuda_compute_capability in the machine description"
            )
        given = device.identity.get("uuid")
        uuid: Text = given if given and given != derived[device.name].get("uuid") else partial(_uuid, index)
        gpus.append(_Gpu(root, device, device.board.gpu, index, len(gpus), uuid))
    return gpus


def _uuid(index: int, node: str) -> str:
    return derive_identity(node, "gpu", index)["uuid"]


def _layouts(gpus: list[_Gpu], settings: DriverSettings) -> dict[str, tuple[MigInstance, ...]]:
    """The MIG layout of each GPU with MIG mode on, by the name of its device."""
    for option in settings.options:
        if option != "mig":
            raise SliceError(f"options: {option!r} is no option of {settings.driver}; allowed: mig")
    given = settings.options.get("mig")
    if settings.mode != STATIC_MIG:
        if given is not None:
            raise SliceError(f"options.mig does not go with mode {settings.mode}; say mode {STATIC_MIG}")
        return {}
    layouts = {gpu.device.name: gpu.device.mig for gpu in gpus}
    if given is not None:
        if not isinstance(given, Mapping):
            raise SliceError(
                f'options.mig: {given!r} is not a mapping; write a layout for each GPU by name, or for "*"'
            )
        names = {gpu.device.name for gpu in gpus}
        for name in given:
            if name not in names and name != _ALL:
                raise SliceError(f"options.mig: the machine has no GPU {name!r}; {nearest(str(name), {*names, _ALL})}")
        for name in names:
            if name in given or _ALL in given:
                key = name if name in given else _ALL
                layouts[name] = read_mig_layout(given[key], f"options.mig.{key}")
    return {name: layout for name, layout in layouts.items() if layout is not None}


def _whole(gpu: _Gpu, driver: NvidiaDriver, release: Release) -> DeviceTemplate:
    attributes = _common(gpu, driver, release)
    attributes["type"] = ("string", "gpu")
    attributes["uuid"] = ("string", gpu.uuid)
    if release.indexes:
        attributes["minor"] = ("int", gpu.minor)
        attributes["index"] = ("int", gpu.minor)
    return DeviceTemplate(f"gpu-{gpu.minor}", attributes, {"memory": mebibytes(_required(gpu, "memory_mib"))})


def _mig(gpu: _Gpu, driver: NvidiaDriver, release: Release, instance: PlacedInstance, number: int) -> DeviceTemplate:
    profile = instance.profile
    attributes = _common(gpu, driver, release)
    attributes["type"] = ("string", "mig")
    attributes["profile"] = ("string", profile.name)
    attributes["parentUUID"] = ("string", gpu.uuid)
    attributes["uuid"] = ("string", instance.uuid or partial(_mig_uuid, gpu.index, profile.profile_id, instance.start))
    if release.indexes:
        attributes["index"] = ("int", number)
        attributes["parentIndex"] = ("int", gpu.minor)
    capacity = {
        "multiprocessors": str(profile.multiprocessors),
        "copyEngines": str(profile.copy_engines),
        "decoders": str(profile.decoders),
        "encoders": str(profile.encoders),
        "jpegEngines": str(profile.jpeg_engines),
        "ofaEngines": str(profile.ofa_engines),
        "memory": mebibytes(profile.memory_mib),
        **{f"memorySlice{place}": "1" for place in instance.slices},
    }
    return DeviceTemplate(f"gpu-{gpu.minor}-mig-{_mig_name(instance, release)}", attributes, capacity)


def _mig_uuid(index: int, profile_id: int, start: int, node: str) -> str:
    return derive_mig_uuid(node, index, profile_id, start)


def _mig_name(instance: PlacedInstance, release: Release) -> str:
    profile = instance.profile
    if not release.mig_profile_in_name:
        return f"{profile.profile_id}-{instance.start}-{profile.memory_slices}"
    # 1g.10gb+me becomes 1g10gb-me: dots go, and what no DNS label may have becomes a hyphen.
    text = re.sub(r"[^a-z0-9-]", "-", profile.name.lower().replace(".", ""))
    return f"{text}-{profile.profile_id}-{instance.start}"


def _common(gpu: _Gpu, driver: NvidiaDriver, release: Release) -> Attributes:
    """What whole GPUs and their MIG devices have alike."""
    attributes: Attributes = {
        "productName": ("string", gpu.facts.product_name),
        "brand": ("string", _BRANDS.get(gpu.facts.brand, gpu.facts.brand or "")),
        "architecture": ("string", str(_required(gpu, "architecture"))),
        "cudaComputeCapability": ("version", semantic_version(str(_required(gpu, "cuda_compute_capability")))),
        "driverVersion": ("version", semantic_version(driver.version)),
        "cudaDriverVersion": ("version", semantic_version(driver.cuda_version)),
        release.bus_attribute: ("string", gpu.device.address),
        "resource.kubernetes.io/pcieRoot": ("string", gpu.root.name),
    }
    if release.addressing_mode and driver.addressing_mode:
        attributes["addressingMode"] = ("string", driver.addressing_mode)
    if release.numa_node and gpu.root.numa_node is not None:
        attributes["resource.kubernetes.io/numaNode"] = ("int", gpu.root.numa_node)
    return attributes


def _required(gpu: _Gpu, fact: str) -> int:
    value: Optional[int] = getattr(gpu.facts, fact)
    if value is None:
        board = gpu.device.board
        raise SliceError(
            f"boards.{board.name}.gpu.{fact} is missing: no public source tells it of {board.product}; give it in the machine "
            f'description: boards: {{"my-{board.name}": {{"from": "{board.name}", "gpu": {{"{fact}": ...}}}}}}'
        )
    return value
