# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control planes for integration tests: started through the role, in a state folder of this session's own, and always removed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import FileLock
from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import NAME, cache_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import lifecycle
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import ClusterPaths, list_clusters

# The first start on a computer builds Kubernetes. No test is about speed: this only keeps a hang from lasting for ever.
START_LIMIT_S, PLAY_LIMIT_S, KUBECTL_LIMIT_S = 7500.0, 600.0, 120.0
# What would steer a playbook, or a module, from outside of its test.
STEERING = ("ANSIBLE_CONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "KUBECONFIG")

Stream = Callable[..., Any]


@dataclass(frozen=True)
class Plane:
    """A control plane that runs, and how to reach it."""

    name: str
    kubeconfig: str
    context: str
    server: str
    kubernetes_version: str
    kubectl_path: str
    state_root: str
    feature_gates: dict[str, bool] = field(default_factory=dict)

    @property
    def binaries(self) -> str:
        return os.path.dirname(self.kubectl_path)

    @property
    def paths(self) -> ClusterPaths:
        return ClusterPaths(self.name, self.state_root)

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.kubectl_path, "--kubeconfig", self.kubeconfig, *arguments],
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=KUBECTL_LIMIT_S,
            check=False,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done

    def get(self, *arguments: str) -> Any:
        """What kubectl get prints, as data."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json").stdout)


@dataclass
class Planes:
    """The control planes of this session."""

    checkout: Path
    state_home: Path
    stream: Stream
    started: dict[str, Plane] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    @property
    def state_root(self) -> str:
        return str(self.state_home / NAME)

    def play(
        self,
        playbook: str | Path,
        variables: dict[str, object],
        *arguments: str,
        timeout_s: float = PLAY_LIMIT_S,
        **environment: str,
    ) -> Any:
        """Runs a playbook as a person would, with extra variables."""
        unset = [word for name in STEERING if name not in environment for word in ("-u", name)]
        argv = ["env", *unset, "ansible-playbook", str(playbook), "-e", json.dumps(variables), *arguments]
        environment = {"XDG_STATE_HOME": str(self.state_home), **environment}
        return self.stream(argv, cwd=self.checkout, timeout_s=timeout_s, **environment)

    def start(self, name: str = "gpulab", **role_variables: object) -> Plane:
        """One control plane by the playbook; what takes minutes and failed is not tried again by every test."""
        assert name not in self.failed, f"control plane {name}: failed in an earlier test"
        self.failed.add(name)
        variables = {
            "control_plane_name": name,
            **{f"control_plane_{key}": value for key, value in role_variables.items()},
        }
        done = self.play("playbooks/control_plane.yml", variables, timeout_s=START_LIMIT_S)
        assert done.returncode == 0, f"control plane {name} did not start; the output above says why"
        self.failed.discard(name)
        self.started[name] = self.plane(name)
        return self.started[name]

    def plane(self, name: str) -> Plane:
        paths = ClusterPaths(name, self.state_root)
        state = paths.load()
        assert state is not None, f"{name} has no state in {self.state_root}"
        return Plane(
            name=name,
            kubeconfig=paths.kubeconfig,
            context=paths.context,
            server=f"https://127.0.0.1:{state.ports['kube-apiserver']}",
            kubernetes_version=state.kubernetes_version,
            kubectl_path=state.kubectl,
            state_root=self.state_root,
            feature_gates=dict(state.feature_gates),
        )

    def remove(self, name: str) -> None:
        self.started.pop(name, None)
        paths = ClusterPaths(name, self.state_root)
        if os.path.isdir(paths.folder):
            lifecycle.remove(paths)

    def remove_all(self) -> None:
        for name in list_clusters(self.state_root):
            self.remove(name)


@contextmanager
def open_planes(checkout: Path, stream: Stream) -> Iterator[Planes]:
    """A state folder for one session; several may run at once, and those that were killed are cleaned up after."""
    mark = hashlib.sha256(str(checkout).encode()).hexdigest()[:10]
    base = Path(cache_dir()) / "integration-tests" / mark / "planes"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sweep(checkout, base, stream)
    home = base / str(os.getpid())
    lock = FileLock(str(base / f".{home.name}.lock"), 5.0)
    lock.acquire()
    home.mkdir(mode=0o700, exist_ok=True)
    planes = Planes(checkout, home, stream)
    try:
        yield planes
    finally:
        try:
            planes.remove_all()
            shutil.rmtree(home)
        finally:
            os.unlink(lock.path)
            lock.release()


def _sweep(checkout: Path, base: Path, stream: Stream) -> None:
    for path in base.glob(".*.lock"):
        lock = FileLock(str(path), 0.0)
        try:
            lock.acquire()
        except DeadlineExpired:
            continue
        home = base / path.name.removeprefix(".").removesuffix(".lock")
        try:
            if home.is_dir():
                Planes(checkout, home, stream).remove_all()
                shutil.rmtree(home)
        finally:
            path.unlink(missing_ok=True)
            lock.release()
