# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection asks of LXD, typed: instances, their state, operations, logs and images. Private to the collection."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.transport import (
    CONNECT_PATIENCE_S,
    HAS_PYLXD,
    PYLXD_IMPORT_ERROR,
    LxdBusy,
    LxdError,
    LxdEtagMismatch,
    LxdNotFound,
    LxdUnreachable,
    Transport,
    failure,
)

__all__ = [
    "HAS_PYLXD",
    "PYLXD_IMPORT_ERROR",
    "Instance",
    "Lxd",
    "LxdBusy",
    "LxdError",
    "LxdEtagMismatch",
    "LxdNotFound",
    "LxdTimeout",
    "LxdUnreachable",
    "connect",
]

# Codes of LXD's operations (shared/api/status_code.go): 100..199 still going on, 200 success, 400 failure, 401 cancelled.
_SUCCESS = 200
# One request waits at most this long, so that a deadline or a restart of LXD is noticed in between.
_WAIT_STEP_S = 5.0
_BUSY_PAUSE_S = 5.0
_RETRY_PAUSE_S = 0.5
_LOG_LIMIT_BYTES = 256 * 1024


class LxdTimeout(LxdError):
    """An operation of LXD did not end before its deadline."""


@dataclass(frozen=True)
class Instance:
    """An instance as LXD describes it, with the ETag that guards an update."""

    data: Mapping[str, Any]
    etag: str

    @property
    def name(self) -> str:
        return str(self.data["name"])

    @property
    def kind(self) -> str:
        """`virtual-machine` or `container`."""
        return str(self.data["type"])

    @property
    def status(self) -> str:
        """`Running`, `Stopped`, `Error`, `Frozen`, …"""
        return str(self.data.get("status", ""))

    @property
    def running(self) -> bool:
        # A paused or broken VM still has its QEMU process, and with it the devices.
        return self.status not in ("Stopped", "")

    @property
    def config(self) -> dict[str, str]:
        """The instance's own keys, without those of its profiles."""
        return dict(self.data.get("config") or {})

    @property
    def expanded_config(self) -> dict[str, str]:
        return dict(self.data.get("expanded_config") or {})

    @property
    def devices(self) -> dict[str, dict[str, str]]:
        return {name: dict(device) for name, device in (self.data.get("devices") or {}).items()}

    @property
    def expanded_devices(self) -> dict[str, dict[str, str]]:
        return {name: dict(device) for name, device in (self.data.get("expanded_devices") or {}).items()}

    @property
    def profiles(self) -> tuple[str, ...]:
        return tuple(self.data.get("profiles") or ())


def connect(socket_path: str | None = None, project: str | None = None, patience_s: float = CONNECT_PATIENCE_S) -> Lxd:
    """Reach LXD over its local socket; None takes the socket and the project that `lxc` would take."""
    return Lxd(Transport.open(socket_path, project, patience_s), project or "default")


class Lxd:
    """LXD's API as the collection uses it. Raises LxdError and its kinds, nothing else."""

    def __init__(self, transport: Transport, project: str = "default") -> None:
        self.transport = transport
        self.project = project
        self.extensions: frozenset[str] = frozenset(transport.host_info.get("api_extensions") or ())
        self.environment: Mapping[str, Any] = transport.host_info.get("environment") or {}

    @property
    def server_version(self) -> str:
        return str(self.environment.get("server_version", ""))

    def has(self, extension: str) -> bool:
        return extension in self.extensions

    # Instances

    def get_instance(self, name: str) -> Optional[Instance]:
        """The instance with its ETag; None when there is none of that name."""
        try:
            data, headers = self.transport.request("get", f"instances/{name}")
        except LxdNotFound:
            return None
        return Instance(data, str(headers.get("ETag", "")))

    def list_instances(self) -> list[Instance]:
        """All instances, of every project where LXD can tell; without ETags (it gives none for a list)."""
        params = {"recursion": "1"}
        if self.project == "default" and self.has("instance_all_projects"):
            params["all-projects"] = "true"
        data, _headers = self.transport.request("get", "instances", params=params)
        return [Instance(entry, "") for entry in data or ()]

    def get_state(self, name: str) -> Optional[dict[str, Any]]:
        """`status`, `processes` (-1 while a VM's agent does not answer), `network`, …"""
        try:
            data, _headers = self.transport.request("get", f"instances/{name}/state")
        except LxdNotFound:
            return None
        return dict(data or {})

    def create(
        self, body: Mapping[str, Any], deadline: Deadline, on_progress: Callable[[str], None] | None = None
    ) -> None:
        """Create an instance (stopped) and wait until LXD has made it, its image's download included."""
        operation, _headers = self.transport.request("post", "instances", body=dict(body))
        self.wait_operation(operation, deadline, f"creating {body.get('name')}", on_progress)

    def update(self, name: str, body: Mapping[str, Any], etag: str, deadline: Deadline) -> None:
        """Replace config, devices and profiles in one request; LxdEtagMismatch when somebody else was faster."""
        operation, _headers = self.transport.request(
            "put", f"instances/{name}", body=dict(body), headers={"If-Match": etag}
        )
        self.wait_operation(operation, deadline, f"updating {name}")

    def set_state(
        self,
        name: str,
        action: str,
        force: bool,
        deadline: Deadline,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """start, stop, restart, freeze or unfreeze; a clean stop gets all the time the deadline has."""
        body = {
            "action": action,
            "force": force,
            "timeout": -1 if force else max(1, int(deadline.remaining_s())),
            "stateful": False,
        }

        def change() -> None:
            operation, _headers = self.transport.request("put", f"instances/{name}/state", body=body)
            self.wait_operation(operation, deadline, f"{action} of {name}", on_progress)

        _when_busy_again(change, deadline)

    def delete(self, name: str, deadline: Deadline) -> None:
        def remove() -> None:
            operation, _headers = self.transport.request("delete", f"instances/{name}")
            self.wait_operation(operation, deadline, f"deleting {name}")

        _when_busy_again(remove, deadline)

    # Operations

    def wait_operation(
        self,
        operation: Mapping[str, Any],
        deadline: Deadline,
        what: str = "an operation of LXD",
        on_progress: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """Wait for the operation's end and return it; LxdError with LXD's own text when it failed.

        An LXD that restarts meanwhile is asked again until the deadline; if it has forgotten the operation, LxdNotFound says so.
        """
        identifier = str(operation["id"])
        unreachable: Optional[LxdUnreachable] = None
        while True:
            step_s = min(_WAIT_STEP_S, max(deadline.remaining_s(), 0.0))
            try:
                current, _headers = self.transport.request(
                    "get",
                    f"operations/{identifier}/wait",
                    params={"timeout": str(max(1, int(step_s)))},
                    timeout_s=step_s + 10.0,
                )
                unreachable = None
            except LxdUnreachable as error:
                current, unreachable = dict(operation), error
                time.sleep(min(_RETRY_PAUSE_S, deadline.remaining_s()))
            except LxdNotFound as error:
                raise LxdNotFound(
                    f"LXD no longer knows the operation for {what}; it was restarted meanwhile", status=404
                ) from error
            code = int(current.get("status_code", 0))
            if code == _SUCCESS:
                return dict(current)
            if code > _SUCCESS:
                raise failure(str(current.get("err") or current.get("status")), code, operation=dict(current))
            if on_progress is not None:
                on_progress(f"{what}: {deadline.elapsed_s():.0f} s{_progress(current)}")
            if deadline.expired():
                if unreachable is not None:
                    raise LxdUnreachable(
                        f"LXD has not answered before the deadline of {deadline.timeout_s:.0f} s for {what}: {unreachable}"
                    )
                raise LxdTimeout(
                    f"{what} did not end within {deadline.timeout_s:.0f} s; LXD says: {current.get('status')}",
                    operation=dict(current),
                )

    # Logs and console

    def log(self, name: str, file_name: str, limit_bytes: int = _LOG_LIMIT_BYTES) -> Optional[str]:
        """The tail of a file in the instance's log folder (`qemu.log`, `lxc.log`); None when there is none."""
        try:
            return self.transport.read_text(f"instances/{name}/logs/{file_name}", limit_bytes)
        except LxdNotFound:
            return None

    def console_log(self, name: str) -> Optional[str]:
        """A container's console buffer. For VMs LXD has none (neither 5.0.2 nor 6.9), so None: read the console's socket."""
        try:
            return self.transport.read_text(f"instances/{name}/console", _LOG_LIMIT_BYTES)
        except LxdUnreachable:
            raise
        except LxdError:
            return None

    def log_folders(self, name: str) -> tuple[str, ...]:
        """Where LXD may keep the instance's logs and sockets on this host (shared/util.go LogPath; the snap's LXD_DIR)."""
        entry = name if self.project == "default" else f"{self.project}_{name}"
        base = os.path.dirname(self.transport.socket_path)
        # A packaged LXD without LXD_DIR in its environment logs to /var/log/lxd.
        folders = (
            (os.path.join(base, "logs"), "/var/log/lxd") if base == "/var/lib/lxd" else (os.path.join(base, "logs"),)
        )
        return tuple(os.path.join(folder, entry) for folder in folders)

    # Host

    def resources(self) -> dict[str, Any]:
        """LXD's own view of the host's hardware, read anew at each call."""
        data, _headers = self.transport.request("get", "resources")
        return dict(data or {})


def _when_busy_again(call: Callable[[], None], deadline: Deadline) -> None:
    """Make a call that failed because LXD's database was too slow twice more: the state was not changed, or LXD says that it was."""
    for last in (False, False, True):
        try:
            call()
            return
        except LxdBusy:
            if last or deadline.expired():
                raise
            time.sleep(min(_BUSY_PAUSE_S, deadline.remaining_s()))


def _progress(operation: Mapping[str, Any]) -> str:
    """What an operation tells of itself, such as the share of an image that has come."""
    metadata = operation.get("metadata") or {}
    return "".join(f", {text}" for key, text in metadata.items() if key.endswith("progress") and isinstance(text, str))
