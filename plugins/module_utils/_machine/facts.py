# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads and writes what software says of devices: MIG tables and layouts, network adapters, the driver; private to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import refuse
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    MigInstance,
    MigProfile,
    NetworkFacts,
    NicFacts,
    NvidiaDriver,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.reader import Reader

NIC_KEYS = tuple(NicFacts.__dataclass_fields__)
NETWORK_KEYS = tuple(NetworkFacts.__dataclass_fields__)
NVIDIA_DRIVER_KEYS = tuple(NvidiaDriver.__dataclass_fields__)
MIG_INSTANCE_KEYS = tuple(MigInstance.__dataclass_fields__)
MIG_PROFILE_KEYS = tuple(key for key in MigProfile.__dataclass_fields__ if key != "name")

# NVML's words; a driver that knows no modes tells none.
ADDRESSING_MODES = ("HMM", "ATS", "None")

# As go-nvlib spells profiles, with compute instances and attributes: 1g.10gb, 1g.10gb+me, 1c.3g.40gb.
_PROFILE = re.compile(r"(?:[0-9]+c\.)?[0-9]+g\.[0-9]+gb(?:[+-][a-z.]+)?")
_PROFILE_REMEDY = 'write it as nvidia-smi does, such as "1g.10gb" or "1g.10gb+me"'
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}")
_VERSION_REMEDY = 'write up to three numbers with dots, in quotes, such as "580.105.08"'
_INTERFACE = re.compile(r"[^\s/:]{1,15}")
_COUNT_LIMIT = 1 << 16
_MEMORY_LIMIT_MIB = 1 << 40
_SLICES_LIMIT = 32


def read_mig_profiles(value: object, path: str) -> Optional[tuple[MigProfile, ...]]:
    """A MIG table: profile names to what an instance has."""
    if value is None:
        return None
    remedy = 'write a mapping of profile names, such as "1g.10gb", to their figures'
    if not isinstance(value, Mapping):
        raise refuse(path, value, "is not a mapping", remedy)
    return tuple(sorted((_read_profile(str(name), item, f"{path}.{name}") for name, item in value.items()), key=_order))


def mig_profiles_to_dict(profiles: tuple[MigProfile, ...]) -> dict[str, object]:
    """A MIG table as a description has it."""
    return {
        profile.name: {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in vars(profile).items()
            if key != "name"
        }
        for profile in profiles
    }


def read_mig_layout(value: object, path: str) -> Optional[tuple[MigInstance, ...]]:
    """The instances of a GPU: profile names, or mappings with where they start and their UUIDs."""
    if value is None:
        return None
    remedy = (
        'write a list of profiles, such as ["3g.40gb", {profile: 1g.10gb, start: 4}]; [] is MIG mode without instances'
    )
    if not isinstance(value, (list, tuple)):
        raise refuse(path, value, "is not a list", remedy)
    return tuple(_read_instance(item, f"{path}[{number}]") for number, item in enumerate(value))


def mig_layout_to_list(layout: tuple[MigInstance, ...]) -> list[object]:
    """The instances of a GPU as a description has them."""
    return [
        instance.profile
        if instance.start is None and instance.uuid is None
        else {key: value for key, value in vars(instance).items() if value is not None}
        for instance in layout
    ]


def read_nic(value: object, path: str) -> Optional[NicFacts]:
    """What a network adapter's board is to Linux."""
    if value is None:
        return None
    reader = Reader(value, path, NIC_KEYS, "write a mapping of facts")
    return NicFacts(rdma=reader.optional_boolean("rdma"), rdma_prefix=reader.optional_text("rdma_prefix"))


def read_network(value: object, path: str) -> Optional[NetworkFacts]:
    """How a network adapter is set up."""
    if value is None:
        return None
    reader = Reader(value, path, NETWORK_KEYS, "write a mapping of facts")
    interface = reader.optional_text("interface")
    if interface is not None and not _INTERFACE.fullmatch(interface):
        raise refuse(
            reader.at("interface"),
            interface,
            "is not the name of a network interface",
            "Linux takes up to 15 characters",
        )
    return NetworkFacts(
        interface=interface,
        mtu=reader.optional_integer("mtu", 68, 65536),
        rdma_device=reader.optional_text("rdma_device"),
        uplink=reader.boolean("uplink", False),
    )


def read_nvidia_driver(value: object, path: str) -> Optional[NvidiaDriver]:
    """The NVIDIA driver of a machine."""
    if value is None:
        return None
    reader = Reader(value, path, NVIDIA_DRIVER_KEYS, "write a mapping with version and cuda_version")
    for key in ("version", "cuda_version"):
        reader.require(key, _VERSION_REMEDY)
        given = reader.raw(key)
        if not isinstance(given, str) or not _VERSION.fullmatch(given):
            raise refuse(reader.at(key), given, "is not a version", _VERSION_REMEDY)
    return NvidiaDriver(
        version=reader.text("version"),
        cuda_version=reader.text("cuda_version"),
        addressing_mode=reader.choice("addressing_mode", ADDRESSING_MODES) if reader.has("addressing_mode") else None,
    )


def facts_to_dict(facts: object) -> dict[str, object]:
    """Facts without nested ones, as a description has them."""
    return {key: value for key, value in vars(facts).items() if value is not None and value is not False}


def nic_to_dict(nic: NicFacts) -> dict[str, object]:
    """Facts of a network adapter's board; that it has no RDMA is one of them."""
    return {key: value for key, value in vars(nic).items() if value is not None}


def _read_profile(name: str, value: object, path: str) -> MigProfile:
    _check_profile_name(name, path)
    reader = Reader(value, path, MIG_PROFILE_KEYS, "write a mapping of the profile's figures")
    placements = reader.raw("placements")
    if (
        not isinstance(placements, (list, tuple))
        or not placements
        or not all(isinstance(start, int) and not isinstance(start, bool) and 0 <= start < 32 for start in placements)
    ):
        remedy = "write the memory slices at which an instance can start, such as [0, 4]"
        raise refuse(reader.at("placements"), placements, "is not a list of memory slices", remedy)
    return MigProfile(
        name=name,
        profile_id=reader.integer("profile_id", 0, 255),
        memory_mib=reader.integer("memory_mib", 1, _MEMORY_LIMIT_MIB),
        multiprocessors=reader.integer("multiprocessors", 1, _COUNT_LIMIT),
        copy_engines=reader.integer("copy_engines", 0, _COUNT_LIMIT),
        decoders=reader.integer("decoders", 0, _COUNT_LIMIT),
        encoders=reader.integer("encoders", 0, _COUNT_LIMIT, default=0),
        jpeg_engines=reader.integer("jpeg_engines", 0, _COUNT_LIMIT),
        ofa_engines=reader.integer("ofa_engines", 0, _COUNT_LIMIT),
        instances=reader.integer("instances", 1, _SLICES_LIMIT),
        memory_slices=reader.integer("memory_slices", 1, _SLICES_LIMIT),
        placements=tuple(sorted(set(placements))),
    )


def _read_instance(value: object, path: str) -> MigInstance:
    if isinstance(value, str):
        return MigInstance(profile=_check_profile_name(value, path))
    reader = Reader(value, path, MIG_INSTANCE_KEYS, f"write a profile; {_PROFILE_REMEDY}")
    reader.require("profile", _PROFILE_REMEDY)
    return MigInstance(
        profile=_check_profile_name(reader.text("profile"), reader.at("profile")),
        start=reader.optional_integer("start", 0, _SLICES_LIMIT - 1),
        uuid=reader.optional_text("uuid"),
    )


def _check_profile_name(name: str, path: str) -> str:
    if not _PROFILE.fullmatch(name):
        raise refuse(path, name, "is not the name of a MIG profile", _PROFILE_REMEDY)
    return name


def _order(profile: MigProfile) -> tuple[int, int, str]:
    """As nvidia-smi lists them: the smallest first."""
    return profile.memory_slices, profile.multiprocessors, profile.name
