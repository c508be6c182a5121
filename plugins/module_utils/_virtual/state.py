# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a virtual host between two runs: its folder, its one JSON file, its runtime folder. Private to the collection."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import NAME, state_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import boot_id
from ansible_collections.gpulab.fleet.plugins.module_utils._common.state_folder import (
    LoggedProcess,
    StateError,
    StateFolder,
    complete_state,
    known_fields,
    list_folders,
)

HOSTS_FOLDER = "virtual-hosts"
# sun_path of unix(7) has 108 bytes, the last of which is a zero.
MAX_SOCKET_PATH_BYTES = 107
LONGEST_SOCKET_NAME = 40
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")

STARTING, RUNNING, STOPPED = "starting", "running", "stopped"


# A process of a virtual host, with its log.
Program = LoggedProcess

_WHAT = "a virtual host"


@dataclass
class HostState:
    """The content of state.json. `status` is what the last run left; whether it still holds is judged anew by each run."""

    name: str
    status: str = STARTING
    machine: str = ""
    machine_digest: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    ssh_port: int = 0
    ssh_key: str = ""
    known_hosts: str = ""
    qemu: Optional[Program] = None
    devices: Optional[Program] = None
    servers: list[Program] = field(default_factory=list)
    console: str = ""
    qmp: str = ""
    runtime: str = ""
    addresses: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    image: str = ""
    accel: str = ""
    accel_reason: str = ""
    qemu_version: str = ""
    guest_images: dict[str, str] = field(default_factory=dict)
    boot: str = field(default_factory=boot_id)
    seconds: dict[str, float] = field(default_factory=dict)

    def programs(self) -> list[Program]:
        """In the order in which they are started."""
        return [program for program in (*self.servers, self.devices, self.qemu) if program is not None]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> HostState:
        values = known_fields(cls, raw)
        with complete_state(_WHAT):
            for key in ("qemu", "devices"):
                values[key] = Program(**values[key]) if values.get(key) else None
            values["servers"] = [Program(**item) for item in values.get("servers", [])]
            return cls(**values)


class HostPaths(StateFolder):
    """Where the files of one virtual host are."""

    def __init__(self, name: str, state_root: Optional[str] = None) -> None:
        if not _NAME.match(name):
            raise StateError(
                f"name is {name!r}; a virtual host is named by 1 to 63 letters, digits, '.', '_' and '-', beginning with a letter or digit",
                name=name,
            )
        super().__init__(hosts_root(state_root), name, _WHAT)
        self.disk = self._in("disk.qcow2")
        self.console = self._in("console.log")
        self.qemu_log = self._in("qemu.log")
        self.devices_log = self._in("devices.log")
        self.devices_config = self._in("devices.json")
        self.known_hosts = self._in("known_hosts")
        self.server_folder = self._in("server")
        self.nested_folder = self._in("nested")

    def server_log(self, device: str) -> str:
        return self._in(f"server-{device}.log")

    def load(self) -> Optional[HostState]:
        raw = self.read_state()
        return None if raw is None else HostState.from_dict(raw)

    def save(self, state: HostState) -> None:
        self.write_state(state.to_dict())


def hosts_root(state_root: Optional[str] = None) -> str:
    return os.path.join(state_root or state_dir(), HOSTS_FOLDER)


def list_hosts(state_root: Optional[str] = None) -> list[str]:
    """The names of all virtual hosts that have a folder here, running or not."""
    return list_folders(hosts_root(state_root), _NAME)


def runtime_dir(paths: HostPaths, environ: Optional[Mapping[str, str]] = None, run: str = "/run") -> str:
    """A short folder for sockets, whose paths the kernel limits; one per host and state folder."""
    environ = os.environ if environ is None else environ
    if os.access(run, os.W_OK):
        base = run
    else:
        base = environ.get("XDG_RUNTIME_DIR") or os.path.join("/tmp", f"{NAME}-{os.getuid()}")
    mark = hashlib.sha256(os.path.abspath(paths.folder).encode()).hexdigest()[:10]
    folder = os.path.join(base, NAME, mark)
    if len(os.fsencode(folder)) + 1 + LONGEST_SOCKET_NAME > MAX_SOCKET_PATH_BYTES:
        raise StateError(
            f"XDG_RUNTIME_DIR is {base!r}: too long for unix sockets, whose whole path has {MAX_SOCKET_PATH_BYTES} bytes at most; set a shorter one"
        )
    return folder
