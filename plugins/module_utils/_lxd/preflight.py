# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that can be refused before anything is touched. Private to the collection."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import Instance, Lxd
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.compare import size_bytes
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.gpu_devices import addresses_of, has_cdi_names, takes
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.hardware import Hardware
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import VIRTUAL_MACHINE
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.spec import InstanceSpec, pinned_cpus

# LXD's own default for VMs (doc/reference/instance_options.md, limits.memory).
DEFAULT_VM_RAM = "1GiB"
_MIB = 1024 * 1024


class GpuInUse(FleetError):
    """Another running instance has the GPU."""


def effective_config(
    lxd: Lxd, profiles: Optional[Sequence[str]], observed: Optional[Instance], own: Mapping[str, Optional[str]]
) -> dict[str, str]:
    """The config that the instance will have: its profiles' keys under its own. Refuses profiles that LXD does not have."""
    names = profiles if profiles is not None else (observed.profiles if observed is not None else ("default",))
    known, _headers = lxd.transport.request("get", "profiles", params={"recursion": "1"})
    by_name = {str(profile["name"]): profile.get("config") or {} for profile in known or ()}
    config: dict[str, str] = {}
    for name in names:
        if name not in by_name:
            raise FleetError(
                f"profiles has {name!r}, which LXD does not have; it has {', '.join(sorted(by_name)) or 'none'}",
                option="profiles",
                value=name,
            )
        config.update(by_name[name])
    if observed is not None:
        config.update(observed.config)
    for key, value in own.items():
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value
    return config


def ram_bytes(config: Mapping[str, str], host_memory_mib: int) -> Optional[int]:
    """The memory of a VM with this config; None when it cannot be told."""
    text = config.get("limits.memory") or DEFAULT_VM_RAM
    if text.endswith("%") and text[:-1].strip().isdigit():
        return host_memory_mib * _MIB * int(text[:-1]) // 100
    return size_bytes(text)


def check_static(spec: InstanceSpec, config: Mapping[str, str], hardware: Hardware, addresses: Sequence[str]) -> None:
    """What does not depend on the moment: sizes that the host does not have, groups that VFIO does not hand over."""
    wanted_bytes = ram_bytes(config, hardware.memory_mib) if config.get("limits.memory") else None
    if wanted_bytes is not None and wanted_bytes > hardware.memory_mib * _MIB:
        option = "ram_mb" if "limits.memory" in spec.config else "limits.memory of a profile"
        raise FleetError(
            f"{option} is {wanted_bytes // _MIB} MiB, but this host has {hardware.memory_mib} MiB of memory; give less",
            option="ram_mb",
            value=wanted_bytes // _MIB,
        )
    beyond = [cpu for cpu in pinned_cpus(spec.config.get("limits.cpu")) if cpu >= hardware.cpus]
    if beyond:
        raise FleetError(
            f"cpus is {spec.config['limits.cpu']!r}, but this host's CPUs are 0 to {hardware.cpus - 1}; give others, or a count",
            option="cpus",
            value=spec.config["limits.cpu"],
        )
    if spec.kind == VIRTUAL_MACHINE and addresses:
        if config.get("migration.stateful") == "true":
            raise FleetError(
                "migration.stateful is true, with which LXD passes no GPU; remove that key (config: {migration.stateful: null})",
                option="config.migration.stateful",
                value="true",
            )
        hardware.check_groups(addresses)


def check_hugepages(config: Mapping[str, str], hardware: Hardware) -> None:
    """A VM on hugepages that starts now needs all of them free now."""
    if config.get("limits.memory.hugepages") != "true":
        return
    wanted_bytes = ram_bytes(config, hardware.memory_mib)
    free_mib = hardware.free_hugepages_mib()
    if wanted_bytes is not None and wanted_bytes > free_mib * _MIB:
        raise FleetError(
            f"hugepages is true and the VM has {wanted_bytes // _MIB} MiB, but only {free_mib} MiB of hugepages are free on this host;"
            " reserve more (vm.nr_hugepages), lower ram_mb, or set hugepages: false",
            option="hugepages",
            value=True,
            wanted_mib=wanted_bytes // _MIB,
            free_mib=free_mib,
        )


def gpu_addresses(lxd: Lxd, instance: Optional[Instance]) -> tuple[str, ...]:
    """The PCI addresses of the GPUs that an instance has."""
    if instance is None:
        return ()
    devices = instance.expanded_devices
    return addresses_of(devices, lxd.resources() if has_cdi_names(devices) else None)


def running_users(lxd: Lxd, addresses: Sequence[str], except_name: str) -> dict[str, list[Instance]]:
    """Other running instances that have one of the GPUs, by address."""
    if not addresses:
        return {}
    others = [instance for instance in lxd.list_instances() if instance.running and instance.name != except_name]
    users: dict[str, list[Instance]] = {}
    for address in addresses:
        found = [one for one in others if any(takes(device, address) for device in one.expanded_devices.values())]
        if found:
            users[address] = found
    return users


def check_not_in_use(lxd: Lxd, spec: InstanceSpec, addresses: Sequence[str]) -> None:
    """A VM needs its GPUs alone; containers may share one, but not with a VM."""
    for address, users in running_users(lxd, addresses, spec.name).items():
        for user in users:
            if spec.kind == VIRTUAL_MACHINE or user.kind == VIRTUAL_MACHINE:
                raise GpuInUse(
                    f"gpus has {address}, which the running {user.kind} {user.name} has; stop that first",
                    option="gpus",
                    value=address,
                    used_by=user.name,
                )
