# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both modules, run in this process: sleeping processes for a control plane, a small server for a user's own; real ones are in the integration tests."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import Child, end, spawn, wait_gone
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import (
    COMPONENTS,
    RUNNING,
    ClusterPaths,
    ClusterState,
)
from ansible_collections.gpulab.fleet.plugins.modules import control_plane, control_plane_info


class Module:
    """Calls a module and returns what it prints."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys

    def run(self, module: Any = control_plane, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"state_dir": str(self.root / "state"), **options}
        if module is control_plane:
            arguments = {"cache_dir": str(self.root / "cache"), **arguments}
        self.capsys.readouterr()
        with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
            module.main()
        result: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return result

    def info(self, **options: Any) -> list[dict[str, Any]]:
        clusters: list[dict[str, Any]] = self.run(control_plane_info, **options)["clusters"]
        return clusters


@pytest.fixture
def module(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Module:
    for name in ("K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    return Module(tmp_path, capsys)


@pytest.fixture
def sleeping(module: Module) -> Iterator[ClusterPaths]:
    """A control plane by name `lab` whose components sleep: they run, but answer nothing."""
    paths = ClusterPaths("lab", str(module.root / "state"))
    for folder in ("pids", "logs"):
        os.makedirs(os.path.join(paths.cluster, folder))
    os.makedirs(paths.etcd)
    children: list[Child] = []
    for name in COMPONENTS:
        Path(paths.log(name)).write_text(f"last word of {name}\n")
        child = spawn(["bash", "-c", f"exec -a {paths.program(name)} sleep 120"], os.path.join(paths.cluster, "log"))
        Path(paths.pid_file(name)).write_text(str(child.ref.pid))
        children.append(child)
    while len(paths.started()) < len(COMPONENTS):
        assert all(child.ref.is_alive() for child in children)
    paths.save(ClusterState("lab", RUNNING, components=paths.started(), ports=dict.fromkeys(COMPONENTS, 1)))
    yield paths
    for child in children:
        end(child.ref)


def test_nothing_is_there_and_nothing_is_to_be_done(module: Module):
    for state in ("absent", "stopped"):
        result = module.run(state=state)
        assert (result["changed"], result["clusters"][0]["status"]) == (False, "absent")
    assert module.info() == []
    assert module.info(name="lab")[0]["status"] == "absent"


def test_check_mode_says_what_would_be_made(module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("build-kubernetes.sh", "build-kwok.sh", "download_release.py"):
        (tmp_path / name).write_text("exit 1\n")
    result = module.run(check=True, sources=str(tmp_path))
    assert result["changed"]
    assert result["clusters"][0]["actions"] == ["build kubernetes", "build kwok", "start"]
    assert result["clusters"][0]["status"] == "running"
    assert not (tmp_path / "cache").exists() and not (tmp_path / "state" / "control-planes").exists()


def test_check_mode_ends_nothing(module: Module, sleeping: ClusterPaths):
    result = module.run(check=True, name="lab", state="absent")
    assert result["changed"] and result["clusters"][0]["status"] == "absent"
    assert len(sleeping.started()) == len(COMPONENTS)


def test_stop_and_absent(module: Module, sleeping: ClusterPaths):
    stopped = module.run(name="lab", state="stopped")
    assert stopped["changed"] and stopped["clusters"][0]["actions"] == ["stop"]
    assert stopped["diff"][0]["before"] == {"status": "running"} and stopped["diff"][0]["after"] == {
        "status": "stopped"
    }
    assert sleeping.started() == [] and os.path.isdir(sleeping.etcd)
    assert not module.run(name="lab", state="stopped")["changed"]
    assert module.info()[0]["status"] == "stopped"
    assert module.run(all=True, state="absent")["changed"]
    assert not os.path.exists(sleeping.folder)
    assert not module.run(all=True, state="absent")["changed"]


def test_a_crash_is_told_and_warned_of(module: Module, sleeping: ClusterPaths):
    victim = sleeping.started()[0]
    os.kill(victim.pid, signal.SIGKILL)
    assert wait_gone(victim.ref, 10)
    (seen,) = module.info()
    assert seen["status"] == "crashed" and "last word of etcd" in seen["reason"]
    assert seen["logs"] == {"etcd": ["last word of etcd"]}
    assert set(seen) == set(yaml.safe_load(control_plane_info.RETURN)["clusters"]["contains"])
    result = module.run(name="lab", state="absent")
    assert any(f"lab had crashed: etcd (pid {victim.pid}) is gone" in str(warning) for warning in result["warnings"])


def test_processes_that_do_not_answer_are_no_control_plane(module: Module, sleeping: ClusterPaths, monkeypatch):
    from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import manage

    monkeypatch.setattr(manage, "RESPONSE_TIMEOUT_S", 0.5)
    (seen,) = module.info()
    assert seen["status"] == "crashed" and "its processes run, but kube-apiserver does not answer" in seen["reason"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"all": True}, "all is true with state 'started'"),
        ({"kubernetes_version": "1.20"}, "kubernetes_version is '1.20'"),
        ({"kwok_version": "new"}, "kwok_version is 'new'"),
        ({"features": ["x"]}, "features has 'x'"),
        ({"feature_gates": {"A": "perhaps"}}, "feature_gates.A is 'perhaps'; it must be true or false"),
        ({"runtime_config": {"v": 7}}, "runtime_config.v is"),
        ({"extra_args": {"x": {}}}, "extra_args has 'x'"),
        ({"download_urls": {"x": "https://x"}}, "download_urls has the key 'x'"),
        ({"name": "a.b"}, "name is 'a.b'"),
        ({"source": "cluster", "kubeconfig": "/no/such"}, "kubeconfig is '/no/such', and there is no such file"),
        ({"source": "path"}, "PATH: no "),
    ],
)
def test_bad_input_is_one_message(module: Module, options: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result = module.run(**options)
    assert result["failed"] and says in result["msg"]
    assert not (module.root / "state" / "control-planes").exists()


def test_a_state_folder_that_cannot_be_used_is_named(module: Module, tmp_path: Path):
    (tmp_path / "state").write_text("a file")
    result = module.run(state="absent")
    assert result["failed"] and str(tmp_path / "state") in result["msg"] and "state_dir" in result["msg"]


class Server(ThreadingHTTPServer):
    """A user's API server, as far as it is asked."""

    daemon_threads = True
    metrics: str | None = None
    versions = ("v1",)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        status, body = 200, ""
        if self.path == "/version":
            body = json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.1-eks-1"})
        elif self.path == "/apis/resource.k8s.io":
            versions = [{"groupVersion": f"resource.k8s.io/{one}", "version": one} for one in self.server.versions]
            body = json.dumps({"kind": "APIGroup", "versions": versions, "preferredVersion": versions[0]})
        elif self.path == "/metrics" and self.server.metrics is not None:
            body = self.server.metrics
        else:
            status, body = 403, json.dumps({"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_arguments: object) -> None:
        return


@pytest.fixture
def users_cluster(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubeconfig = tmp_path / "users-kubeconfig"
    address = f"http://127.0.0.1:{server.server_address[1]}"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "mine",
                "contexts": [{"name": "mine", "context": {"cluster": "mine", "user": "mine"}}],
                "clusters": [{"name": "mine", "cluster": {"server": address}}],
                "users": [{"name": "mine", "user": {"token": "secret"}}],
            }
        )
    )
    yield server, str(kubeconfig)
    server.shutdown()
    server.server_close()


def test_a_users_cluster_is_only_looked_at(module: Module, users_cluster: tuple[Server, str]):
    server, kubeconfig = users_cluster
    server.metrics = 'kubernetes_feature_enabled{name="DRAListTypeAttributes",stage="ALPHA"} 0\n'
    result = module.run(kubeconfig=kubeconfig)
    (cluster,) = result["clusters"]
    assert not result["changed"] and cluster["source"] == "cluster" and cluster["status"] == "running"
    assert (cluster["kubeconfig"], cluster["kubernetes_version"]) == (kubeconfig, "1.36.1-eks-1")
    assert cluster["feature_gates"] == {"DRAListTypeAttributes": False} and cluster["components"] == {}
    assert set(cluster) == set(yaml.safe_load(control_plane.RETURN)["clusters"]["contains"])
    refused = module.run(kubeconfig=kubeconfig, features=["list-attributes"])
    assert refused["failed"] and "DRAListTypeAttributes is off" in refused["msg"]
    assert not (module.root / "state" / "control-planes").exists()


def test_one_that_hides_its_metrics_is_taken_as_it_is(module: Module, users_cluster: tuple[Server, str]):
    _server, kubeconfig = users_cluster
    result = module.run(kubeconfig=kubeconfig, features=["list-attributes"])
    assert "failed" not in result and result["clusters"][0]["feature_gates"] == {}


def test_one_without_dynamic_resource_allocation_is_refused(module: Module, users_cluster: tuple[Server, str]):
    server, kubeconfig = users_cluster
    server.versions = ("v1alpha3",)
    result = module.run(kubeconfig=kubeconfig)
    assert result["failed"] and "serves no usable version of resource.k8s.io" in result["msg"]


def test_a_users_cluster_is_never_ended(module: Module, users_cluster: tuple[Server, str]):
    _server, kubeconfig = users_cluster
    result = module.run(kubeconfig=kubeconfig, source="cluster", state="absent")
    assert (result["changed"], result["clusters"], result["diff"]) == (False, [], [])


def test_the_environment_names_a_cluster_too_but_not_for_ending(
    module: Module, users_cluster: tuple[Server, str], sleeping: ClusterPaths, monkeypatch: pytest.MonkeyPatch
):
    """A teardown must end our control planes, whatever cluster the user works with."""
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", users_cluster[1])
    assert module.run(name="lab")["clusters"][0]["source"] == "cluster"
    assert module.run(all=True, state="absent")["clusters"][0]["actions"] == ["remove"]
    assert sleeping.started() == []
