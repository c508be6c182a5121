# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between a specification and an observed instance, and which of it needs a stopped instance. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import Instance
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.gpu_devices import (
    GpuDevice,
    free_name,
    is_gpu_device,
    same_gpu,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import VIRTUAL_MACHINE, Has
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.qemu_options import split_raw_qemu
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.spec import InstanceSpec

Value = Union[str, Mapping[str, str], tuple[str, ...], None]

# What a running VM takes at once, in 5.0.2 as in 6.9 (driver_qemu.go, liveUpdateKeys). Left out although LXD accepts them:
# boot.mode and security.secureboot work from the next start only; limits.memory moves the balloon, which gives nothing
# back while VFIO pins the guest's memory, and cannot grow.
_VM_HOT_PREFIXES = ("boot.", "cloud-init.", "environment.", "image.", "snapshots.", "user.")
_VM_HOT_KEYS = frozenset({"cluster.evacuate", "security.agent.metrics", "security.devlxd"})
_VM_COLD_KEYS = frozenset({"boot.mode", "security.secureboot", "security.csm", "boot.debug_edk2"})
_VM_COLD_DEVICES = frozenset({"gpu", "pci", "tpm", "unix-char", "unix-block", "unix-hotplug", "infiniband"})
# Containers take nearly everything at once; these shape how it is started.
_CONTAINER_COLD_PREFIXES = ("raw.", "nvidia.", "linux.", "security.idmap.", "security.syscalls.")
_CONTAINER_COLD_KEYS = frozenset({"security.privileged", "security.nesting", "security.protection.shift"})

_SIZE = re.compile(r"^\s*([0-9]+)\s*([A-Za-z]*)\s*$")
# shared/units of LXD: kB, MB, … are powers of 1000; KiB, MiB, … of 1024.
_UNITS = {"": 1, "B": 1, "bytes": 1}
_UNITS.update({f"{letter}B": 1000**power for power, letter in enumerate("kMGTPE", 1)})
_UNITS.update({f"{letter}iB": 1024**power for power, letter in enumerate("KMGTPE", 1)})


@dataclass(frozen=True)
class Change:
    """One difference: `after` None means removed. `cold` changes need a stopped instance to take effect."""

    section: str
    name: str
    before: Value
    after: Value
    cold: bool

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}" if self.name else self.section


def compare(spec: InstanceSpec, observed: Instance, has: Has) -> list[Change]:
    """All differences that the specification rules over. Keys that LXD writes itself (volatile.*) are none of them."""
    changes = []
    if spec.profiles is not None and spec.profiles != observed.profiles:
        changes.append(Change("profiles", "", observed.profiles, spec.profiles, spec.kind == VIRTUAL_MACHINE))
    own, expanded = observed.config, observed.expanded_config
    for key, wanted in sorted(spec.config.items()):
        if key.startswith("volatile.") or same_value(key, own.get(key), wanted):
            continue
        # A profile may give the same value already: then nothing changes for the running instance.
        cold = config_is_cold(spec.kind, key, own.get(key), wanted, has) and not same_value(
            key, expanded.get(key), wanted
        )
        changes.append(Change("config", key, own.get(key), wanted, cold))
    changes.extend(_device_changes(spec, observed, has))
    return changes


def wanted_devices(
    spec: InstanceSpec, existing: Mapping[str, Mapping[str, str]]
) -> dict[str, Optional[Mapping[str, str]]]:
    """The devices that the specification rules over, by name; None removes. A GPU that is there keeps its device's name."""
    wanted: dict[str, Optional[Mapping[str, str]]] = dict(spec.devices)
    if spec.gpus is None:
        return wanted
    left: list[GpuDevice] = []
    kept: set[str] = set()
    for gpu in spec.gpus:
        name = next((name for name, device in existing.items() if name not in kept and same_gpu(device, gpu)), None)
        if name is None:
            left.append(gpu)
        else:
            kept.add(name)
    for name, device in existing.items():
        if is_gpu_device(name, device) and name not in kept and name not in spec.devices:
            wanted[name] = None
    taken = [name for name in existing if wanted.get(name, ()) is not None] + [
        name for name in spec.devices if name not in existing
    ]
    for gpu in left:
        name = free_name(taken)
        taken.append(name)
        wanted[name] = gpu.device
    return wanted


def updated(observed: Instance, changes: list[Change]) -> dict[str, Any]:
    """The body of one PUT that carries out the changes and leaves all else as LXD told it."""
    config: dict[str, str] = observed.config
    devices: dict[str, Any] = observed.devices
    profiles = list(observed.profiles)
    for change in changes:
        if change.section == "profiles":
            profiles = list(change.after or ())
            continue
        target: dict[str, Any] = config if change.section == "config" else devices
        if change.after is None:
            target.pop(change.name, None)
        else:
            target[change.name] = dict(change.after) if isinstance(change.after, Mapping) else change.after
    return {
        "architecture": observed.data.get("architecture", ""),
        "config": config,
        "description": observed.data.get("description", ""),
        "devices": devices,
        "ephemeral": bool(observed.data.get("ephemeral", False)),
        "profiles": profiles,
        "stateful": bool(observed.data.get("stateful", False)),
    }


def same_value(key: str, before: Optional[str], after: Optional[str]) -> bool:
    """Whether two values of a key mean the same to LXD."""
    if before == after:
        return True
    if before is None or after is None:
        return False
    if key == "raw.qemu":
        return split_raw_qemu(before) == split_raw_qemu(after)
    if key in ("limits.memory", "limits.memory.swap"):
        sizes = size_bytes(before), size_bytes(after)
        return sizes[0] is not None and sizes[0] == sizes[1]
    return False


def size_bytes(text: str) -> Optional[int]:
    """LXD's way to write sizes; None for a percentage or for no size at all."""
    match = _SIZE.match(text)
    if match is None or match.group(2) not in _UNITS:
        return None
    return int(match.group(1)) * _UNITS[match.group(2)]


def config_is_cold(kind: str, key: str, before: Optional[str], after: Optional[str], has: Has) -> bool:
    """Whether a key takes effect only while the instance is stopped (LXD refuses it, or keeps it for the next start)."""
    if kind != VIRTUAL_MACHINE:
        return key in _CONTAINER_COLD_KEYS or key.startswith(_CONTAINER_COLD_PREFIXES)
    if key in _VM_COLD_KEYS:
        return True
    if key == "limits.cpu":
        # A count can be plugged in and out where LXD has cpu_hotplug; a pin set is never changed under a running VM.
        return not (has("cpu_hotplug") and (before or "1").isdigit() and (after or "1").isdigit())
    return not (key in _VM_HOT_KEYS or key.startswith(_VM_HOT_PREFIXES))


def device_is_cold(kind: str, device: Mapping[str, str], has: Has) -> bool:
    if kind == VIRTUAL_MACHINE:
        return device.get("type") in _VM_COLD_DEVICES
    is_cdi = device.get("type") == "gpu" and "=" in device.get("id", "")
    return is_cdi and not has("gpu_cdi_hotplug")


def _device_changes(spec: InstanceSpec, observed: Instance, has: Has) -> list[Change]:
    changes = []
    for name, device in sorted(wanted_devices(spec, observed.devices).items()):
        before = observed.devices.get(name)
        if before is None and device is None:
            continue
        if before is not None and device is not None and _normal(before) == _normal(device):
            continue
        cold = any(device_is_cold(spec.kind, side, has) for side in (before, device) if side is not None)
        changes.append(Change("devices", name, before, None if device is None else dict(device), cold))
    return changes


def _normal(device: Mapping[str, str]) -> dict[str, str]:
    """LXD's own defaults and spellings out of the way."""
    normal = dict(device)
    if normal.get("type") == "gpu":
        normal.setdefault("gputype", "physical")
        if "pci" in normal:
            normal["pci"] = normal["pci"].lower()
    return normal
