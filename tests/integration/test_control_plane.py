# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control planes as people meet them: reachable, closed to others, unchanged by a second run, repaired after a crash, gone without a trace."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab import recap
from planes import Plane, Planes

from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import wait_gone
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.state import COMPONENTS

POD_LIMIT_S = 60.0

# A node with one GPU, and a pod that claims it.
MANIFESTS = """
apiVersion: v1
kind: Node
metadata:
  name: cp-node
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {gpulab.test: control-plane}
status:
  capacity: {cpu: "8", memory: 64Gi, pods: "110"}
  allocatable: {cpu: "8", memory: 64Gi, pods: "110"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: cp-node-gpu}
spec:
  driver: cp.gpulab.test
  nodeName: cp-node
  pool: {name: cp-node, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: cp.gpulab.test}
spec: {selectors: [{cel: {expression: "device.driver == 'cp.gpulab.test'"}}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: cp-test}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: cp-test}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: cp.gpulab.test}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: claims-one, namespace: cp-test}
spec:
  containers: [{name: c, image: none, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""


@pytest.fixture
def small(planes: Planes) -> Iterator[Plane]:
    """A control plane that tests may break; the one that others share stays out of it."""
    name = "breakable"
    yield planes.started[name] if name in planes.started else planes.start(name)


def pid_of(plane: Plane, component: str) -> int:
    return {one.name: one.pid for one in plane.paths.started()}[component]


def until(what: str, test: Callable[[], bool]) -> None:
    end = time.monotonic() + POD_LIMIT_S
    while not test():
        assert time.monotonic() < end, f"{what}: not within {POD_LIMIT_S:.0f} s"
        time.sleep(1)


def apply(plane: Plane) -> None:
    # The controller manager makes a namespace's service account a moment after the namespace, and no pod is let in before.
    until("pod", lambda: plane.kubectl("apply", "-f", "-", stdin=MANIFESTS, check=False).returncode == 0)


def phase(plane: Plane) -> str:
    return str(plane.get("pod", "claims-one", "-n", "cp-test")["status"]["phase"])


def test_the_scheduler_allocates_and_the_pod_runs(control_plane: Plane):
    try:
        apply(control_plane)
        until("pod Running", lambda: phase(control_plane) == "Running")
        claims = control_plane.get("resourceclaims", "-n", "cp-test")["items"]
        results = [result for claim in claims for result in claim["status"]["allocation"]["devices"]["results"]]
        assert [(result["driver"], result["device"]) for result in results] == [("cp.gpulab.test", "gpu-0")]
        assert [user["name"] for claim in claims for user in claim["status"]["reservedFor"]] == ["claims-one"]
    finally:
        control_plane.kubectl("delete", "-f", "-", "--ignore-not-found", "--wait", stdin=MANIFESTS, check=False)


def test_it_is_closed_to_others(control_plane: Plane):
    """Only loopback, only TLS with certificates, RBAC on, and secrets for their owner alone."""
    pids = {one.pid for one in control_plane.paths.started()}
    listeners = listening(pids)
    assert len(listeners) == 6 and {address for address, _port in listeners} == {"127.0.0.1"}
    args = Path(f"/proc/{pid_of(control_plane, 'kube-apiserver')}/cmdline").read_bytes().decode().split("\0")
    assert "--authorization-mode=Node,RBAC" in args
    assert any(word.startswith("--etcd-servers=https://127.0.0.1:") for word in args)
    for path in (
        control_plane.kubeconfig,
        *(os.path.join(control_plane.paths.pki, name) for name in ("ca.key", "admin.key")),
    ):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
    assert stat.S_IMODE(os.stat(control_plane.paths.folder).st_mode) == 0o700
    denied = control_plane.kubectl("auth", "can-i", "create", "pods", "--as", "somebody", check=False)
    assert denied.stdout.strip() == "no"
    state = control_plane.paths.load()
    assert state is not None and {port for _address, port in listeners} == set(state.ports.values())
    for name, port in state.ports.items():
        if name == "kwok-controller":
            # It offers the same without TLS: its health and metrics, and logs of pods that nobody writes.
            continue
        assert not speaks_plain_http(port), f"{name} answers without TLS"


def test_a_second_run_changes_nothing(planes: Planes, small: Plane):
    before = small.paths.started()
    done = planes.play("playbooks/control_plane.yml", {"control_plane_name": small.name})
    assert done.returncode == 0 and recap(done.output)["localhost"]["changed"] == 0
    assert small.paths.started() == before and len(before) == len(COMPONENTS)


def test_a_crashed_component_is_named_and_started_again_with_its_data(planes: Planes, small: Plane):
    small.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    others = {one.name: one.pid for one in small.paths.started() if one.name != "etcd"}
    etcd = next(one for one in small.paths.started() if one.name == "etcd")
    os.kill(etcd.pid, signal.SIGKILL)
    assert wait_gone(etcd.ref, 10.0)
    status = planes.play(
        "playbooks/control_plane.yml", {"control_plane_name": small.name, "control_plane_state": "status"}
    )
    assert status.returncode != 0
    assert "etcd (pid" in status.output and "is gone" in status.output
    done = planes.play("playbooks/control_plane.yml", {"control_plane_name": small.name})
    assert done.returncode == 0 and recap(done.output)["localhost"]["changed"] == 1
    assert f"control plane {small.name} had crashed: etcd (pid {etcd.pid}) is gone" in " ".join(done.output.split())
    assert small.get("configmap", "kept")["data"] == {"a": "b"}
    still = {one.name: one.pid for one in small.paths.started()}
    assert still["etcd"] != etcd.pid
    assert still["kube-apiserver"] == others["kube-apiserver"], "what did not crash was not to be disturbed"


def test_gates_by_name_restart_it_with_the_same_data(planes: Planes, small: Plane):
    small.kubectl("create", "configmap", "older", "--from-literal=a=b")
    variables = {"control_plane_name": small.name, "control_plane_features": ["list-attributes"]}
    assert not planes.plane(small.name).feature_gates["DRAListTypeAttributes"]
    done = planes.play("playbooks/control_plane.yml", variables)
    assert done.returncode == 0
    assert planes.plane(small.name).feature_gates["DRAListTypeAttributes"]
    assert small.get("configmap", "older")["data"] == {"a": "b"}
    back = planes.play("playbooks/control_plane.yml", {"control_plane_name": small.name})
    assert back.returncode == 0 and not planes.plane(small.name).feature_gates["DRAListTypeAttributes"]


def test_a_start_that_cannot_work_says_why_and_leaves_nothing_running(planes: Planes, small: Plane):
    variables = {"control_plane_name": small.name, "control_plane_feature_gates": {"NoSuchGate": True}}
    done = planes.play("playbooks/control_plane.yml", variables)
    assert done.returncode != 0
    assert "unrecognized feature gate: NoSuchGate" in done.output
    assert small.paths.started() == []
    again = planes.play("playbooks/control_plane.yml", {"control_plane_name": small.name})
    assert again.returncode == 0


def test_stop_start_and_absent(planes: Planes, small: Plane):
    small.kubectl("create", "configmap", "survives", "--from-literal=a=b")
    before = small.paths.started()
    name = {"control_plane_name": small.name}
    stopped = planes.play("playbooks/control_plane.yml", {**name, "control_plane_state": "stopped"})
    assert stopped.returncode == 0 and not any(one.ref.is_alive() for one in before)
    again = planes.play("playbooks/control_plane.yml", {**name, "control_plane_state": "stopped"})
    assert again.returncode == 0 and recap(again.output)["localhost"]["changed"] == 0
    started = planes.play("playbooks/control_plane.yml", name)
    assert started.returncode == 0
    # The same ports, so a kubeconfig that somebody has copied is still right.
    assert planes.plane(small.name).server == small.server
    assert small.get("configmap", "survives")["data"] == {"a": "b"}
    running = small.paths.started()
    absent = planes.play("playbooks/control_plane.yml", {**name, "control_plane_state": "absent"})
    planes.started.pop(small.name)
    assert absent.returncode == 0
    assert not any(one.ref.is_alive() for one in running) and not Path(small.paths.folder).exists()
    gone = planes.play("playbooks/control_plane.yml", {**name, "control_plane_state": "absent"})
    assert gone.returncode == 0 and recap(gone.output)["localhost"]["changed"] == 0


def test_a_cluster_of_the_users_own_is_only_looked_at(planes: Planes, control_plane: Plane, tmp_path: Path):
    """The shared control plane plays the user's cluster: for this run it is somebody else's."""
    variables = {"control_plane_kubeconfig": control_plane.kubeconfig}
    done = planes.play("playbooks/control_plane.yml", variables, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0 and recap(done.output)["localhost"]["changed"] == 0
    assert control_plane.server in done.output
    assert not (tmp_path / "gpulab-fleet" / "control-planes").exists()
    wants = {**variables, "control_plane_features": ["list-attributes"]}
    refused = planes.play("playbooks/control_plane.yml", wants, XDG_STATE_HOME=str(tmp_path))
    assert refused.returncode != 0 and "DRAListTypeAttributes is off" in refused.output


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"control_plane_kubernetes_version": "1.31"}, "kubernetes_version is '1.31'"),
        ({"control_plane_kubernetes_version": "1.34", "control_plane_features": ["list-attributes"]}, "since 1.36"),
        ({"control_plane_features": ["time-travel"]}, "features has 'time-travel'"),
        ({"control_plane_name": "Not A Name"}, "name is 'Not A Name'"),
        ({"control_plane_kubeconfig": "/no/such/file"}, "kubeconfig is '/no/such/file'"),
        ({"control_plane_extra_args": {"kubelet": {"v": 4}}}, "extra_args has 'kubelet'"),
    ],
)
def test_bad_input_is_one_clear_message(planes: Planes, variables: dict[str, object], says: str, tmp_path: Path):
    done = planes.play("playbooks/control_plane.yml", variables, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode != 0
    assert says in " ".join(done.output.replace("\\", "").split())
    assert not (tmp_path / "gpulab-fleet" / "control-planes").exists()


def listening(pids: set[int]) -> set[tuple[str, int]]:
    """The TCP sockets on which these processes listen."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(descriptor)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                name = "127.0.0.1" if address == "0100007F" else address
                found.add((name, int(port, 16)))
    return found


def speaks_plain_http(port: int) -> bool:
    """Whether a server does what it is asked for without TLS; TLS servers of Go answer 400 to that."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/version")
        return connection.getresponse().status not in (400, 401, 403)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
