# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a control plane between two runs: its folder and its one JSON file. Private to the collection.

<state>/control-planes/<name>/state.json, kubeconfig     ours
                              etcd/, pki/                data and keys, which outlive a new layout
                              kwok/clusters/<name>/      kwokctl's own, made anew by each layout
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import state_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import boot_id, start_time_of
from ansible_collections.gpulab.fleet.plugins.module_utils._common.state_folder import (
    LoggedProcess,
    StateError,
    StateFolder,
    complete_state,
    known_fields,
    list_folders,
)

FOLDER = "control-planes"
STARTING, RUNNING, STOPPED = "starting", "running", "stopped"

ETCD, APISERVER = "etcd", "kube-apiserver"
CONTROLLER_MANAGER, SCHEDULER, KWOK = "kube-controller-manager", "kube-scheduler", "kwok-controller"
# In the order in which they are started.
COMPONENTS = (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK)

# The name becomes part of a context, of kwokctl's cluster and of a folder.
_NAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")


# A process of a control plane, with its log.
Component = LoggedProcess

_WHAT = "a control plane"


@dataclass
class ClusterState:
    """The content of state.json. `status` is what the last run left; whether it still holds is judged anew by each run."""

    name: str
    status: str = STARTING
    settings: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    kubernetes_version: str = ""
    kwok_version: str = ""
    ports: dict[str, int] = field(default_factory=dict)
    components: list[Component] = field(default_factory=list)
    # kwokctl itself, while it is at work: it outlives a run that is killed, and would go on starting components.
    starter: Optional[Component] = None
    feature_gates: dict[str, bool] = field(default_factory=dict)
    kubectl: str = ""
    boot: str = field(default_factory=boot_id)
    seconds: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> ClusterState:
        values = known_fields(cls, raw)
        with complete_state(_WHAT):
            values["components"] = [Component(**item) for item in values.get("components", [])]
            values["starter"] = Component(**values["starter"]) if values.get("starter") else None
            return cls(**values)


class ClusterPaths(StateFolder):
    """Where the files of one control plane are."""

    def __init__(self, name: str, state_root: Optional[str] = None) -> None:
        if not _NAME.match(name):
            raise StateError(
                f"name is {name!r}; a control plane is named by 1 to 40 lower-case letters, digits and '-', with a letter or digit at both ends",
                name=name,
            )
        super().__init__(clusters_root(state_root), name, _WHAT)
        self.kubeconfig = self._in("kubeconfig")
        self.etcd = self._in("etcd")
        self.pki = self._in("pki")
        self.config = self._in("kwokctl.json")
        self.kwokctl_log = self._in("kwokctl.log")
        self.kwok = self._in("kwok")
        self.cluster = os.path.join(self.kwok, "clusters", name)
        # kwokctl writes it when the layout is complete.
        self.layout = os.path.join(self.cluster, "kwok.yaml")

    @property
    def context(self) -> str:
        return f"gpulab-{self.name}"

    def log(self, component: str) -> str:
        return os.path.join(self.cluster, "logs", f"{component}.log")

    def pid_file(self, component: str) -> str:
        return os.path.join(self.cluster, "pids", f"{component}.pid")

    def program(self, component: str) -> str:
        """The path under which kwokctl starts a component: it tells our processes from any others."""
        return os.path.join(self.cluster, "bin", component)

    def certificate(self, name: str) -> str:
        """A file of the layout, whether or not its folder is a link already."""
        return os.path.join(self.cluster, "pki", name)

    def load(self) -> Optional[ClusterState]:
        raw = self.read_state()
        return None if raw is None else ClusterState.from_dict(raw)

    def save(self, state: ClusterState) -> None:
        self.write_state(state.to_dict())

    def started(self) -> list[Component]:
        """The components that kwokctl has started and that still run, whoever asked for them.

        A pid in its files is trusted only when the process was started from this very layout.
        """
        found = []
        for name in COMPONENTS:
            pid = _read_pid(self.pid_file(name))
            if pid is None:
                continue
            start_time = start_time_of(pid)
            if start_time is not None and _command(pid) == self.program(name):
                found.append(Component(name, pid, start_time, self.log(name)))
        return found


def clusters_root(state_root: Optional[str] = None) -> str:
    return os.path.join(state_root or state_dir(), FOLDER)


def list_clusters(state_root: Optional[str] = None) -> list[str]:
    """The names of all control planes that have a folder here, running or not."""
    return list_folders(clusters_root(state_root), _NAME)


def _read_pid(path: str) -> Optional[int]:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return int(stream.read().strip())
    except (OSError, ValueError):
        return None


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return os.fsdecode(stream.read().split(b"\0", 1)[0])
    except OSError:
        return ""
