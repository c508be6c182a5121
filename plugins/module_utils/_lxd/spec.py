# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instance should be, typed and checked, from a module's parameters; touches nothing. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Union

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.gpu_devices import GpuDevice
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import (
    OWNER_KEY,
    VIRTUAL_MACHINE,
    Has,
    cloud_init,
    limits,
    secure_boot,
)

_CPU_SET = re.compile(r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")
# LXD's rule for instance names (shared/validate IsHostname).
_NAME = re.compile(r"^[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?$")
_NAME_LIMIT = 63
# sun_path of a unix socket is 108 bytes with its closing zero (unix(7)); QEMU listens below LXD's log folder.
_SOCKET_LIMIT_BYTES = 107


@dataclass(frozen=True)
class InstanceSpec:
    """The wanted state of one instance. In `config` and `devices` None removes; what is not mentioned stays as it is."""

    name: str
    kind: str
    state: str
    owner: str
    config: Mapping[str, Optional[str]] = field(default_factory=dict)
    devices: Mapping[str, Optional[Mapping[str, str]]] = field(default_factory=dict)
    gpus: Optional[tuple[GpuDevice, ...]] = None
    profiles: Optional[tuple[str, ...]] = None
    allow_restart: bool = False
    force: bool = False
    force_foreign: bool = False

    @property
    def wants_running(self) -> bool:
        return self.state in ("started", "restarted")


def check_name(name: str, log_folders: tuple[str, ...] = (), kind: str = VIRTUAL_MACHINE) -> None:
    """Refuse what LXD, or a socket path of its QEMU, would refuse later."""
    if not 1 <= len(name) <= _NAME_LIMIT:
        raise FleetError(
            f"name is {name!r} with {len(name)} characters; LXD takes 1 to {_NAME_LIMIT}, so choose a shorter one",
            option="name",
            value=name,
        )
    if not _NAME.fullmatch(name):
        raise FleetError(
            f"name is {name!r}; LXD takes letters, digits and hyphens, beginning with a letter and not ending with a hyphen",
            option="name",
            value=name,
        )
    if kind != VIRTUAL_MACHINE:
        return
    for folder in log_folders:
        socket_path = f"{folder}/qemu.monitor"
        if len(socket_path.encode()) > _SOCKET_LIMIT_BYTES:
            excess = len(socket_path.encode()) - _SOCKET_LIMIT_BYTES
            raise FleetError(
                f"name is {name!r}; with it the path of QEMU's socket {socket_path} is {excess} characters longer than the"
                f" {_SOCKET_LIMIT_BYTES} that a socket may have, so choose a name shorter by {excess}",
                option="name",
                value=name,
            )


def check_cpus(value: Optional[str]) -> Optional[str]:
    """A count (`4`) or a pin set (`0-3,8`), as LXD writes limits.cpu."""
    if value is None:
        return None
    text = str(value).strip()
    if not _CPU_SET.fullmatch(text) or text == "0":
        raise FleetError(
            f"cpus is {value!r}; give a count such as 4, or a set of host CPUs such as 0-3 or 0-3,8 (one CPU alone is 2-2)",
            option="cpus",
            value=value,
        )
    return text


def pinned_cpus(value: Optional[str]) -> tuple[int, ...]:
    """The host CPUs of a pin set; empty for a count."""
    if value is None or value.isdigit():
        return ()
    found: set[int] = set()
    for part in value.split(","):
        first, _dash, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def config_value(key: str, value: object, option: str) -> Optional[str]:
    """LXD's configuration is strings; YAML's true and 4 are written as LXD writes them. None stays (remove the key)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise FleetError(
        f"{option}.{key} is a {type(value).__name__}; LXD's values are strings, so quote it as text",
        option=f"{option}.{key}",
        value=value,
    )


def build_spec(
    params: Mapping[str, Any],
    kind: str,
    owner: str,
    has: Has,
    gpus: Optional[tuple[GpuDevice, ...]],
    raw_qemu: Union[str, bool, None],
) -> InstanceSpec:
    """Put a module's parameters together. `raw_qemu`: text to set, None to remove the key, False to leave it alone."""
    named: dict[str, tuple[str, Optional[str]]] = {}

    def name_keys(option: str, keys: Mapping[str, Optional[str]]) -> None:
        named.update({key: (option, value) for key, value in keys.items()})

    ram_mb = params.get("ram_mb")
    if ram_mb is not None and ram_mb < 1:
        raise FleetError(f"ram_mb is {ram_mb}; give MiB as a positive number", option="ram_mb", value=ram_mb)
    name_keys("ram_mb", limits(ram_mb, None, None))
    name_keys("cpus", limits(None, check_cpus(params.get("cpus")), None))
    name_keys("hugepages", limits(None, None, params.get("hugepages")))
    if params.get("secure_boot") is not None:
        name_keys("secure_boot", secure_boot(bool(params["secure_boot"]), has))
    documents = {key: text for key, text in (params.get("cloud_init") or {}).items() if text is not None}
    name_keys("cloud_init", cloud_init(documents, has))
    if not isinstance(raw_qemu, bool):
        name_keys("qemu_opts", {"raw.qemu": raw_qemu})
    for gpu in gpus or ():
        name_keys("gpus", dict(gpu.config))

    config = {str(key): config_value(str(key), value, "config") for key, value in (params.get("config") or {}).items()}
    for key, (option, _value) in named.items():
        # A GPU's own keys (nvidia.runtime) give way: whoever writes them in config means it.
        if key in config and option != "gpus":
            raise FleetError(
                f"config.{key} and {option} set the same thing; remove one of them",
                option=f"config.{key}",
                value=config[key],
            )
    merged = {key: value for key, (_option, value) in named.items()}
    merged.update(config)
    profiles = params.get("profiles")
    return InstanceSpec(
        name=params["name"],
        kind=kind,
        state=params["state"],
        owner=owner,
        config=merged,
        devices=_devices(params.get("devices") or {}),
        gpus=gpus,
        profiles=None if profiles is None else tuple(profiles),
        allow_restart=bool(params.get("allow_restart")),
        force=bool(params.get("force")),
        force_foreign=bool(params.get("force_foreign")),
    )


def _devices(devices: Mapping[str, Any]) -> dict[str, Optional[dict[str, str]]]:
    result: dict[str, Optional[dict[str, str]]] = {}
    for name, device in devices.items():
        if device is None:
            result[str(name)] = None
            continue
        if not isinstance(device, Mapping) or not device.get("type"):
            raise FleetError(
                f"devices.{name} is {device!r}; give a dictionary with at least type, or null to remove the device",
                option=f"devices.{name}",
                value=device,
            )
        values = {str(key): config_value(str(key), value, f"devices.{name}") for key, value in device.items()}
        result[str(name)] = {key: value for key, value in values.items() if value is not None}
    return result


def ownership(owner: str) -> dict[str, str]:
    """The mark of instances that this collection made."""
    return {OWNER_KEY: owner}
