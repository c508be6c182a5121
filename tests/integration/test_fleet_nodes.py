# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake GPU nodes in a real cluster: made, found unchanged, scaled, changed, repaired, used by the scheduler, and gone."""

from __future__ import annotations

import datetime
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from modcall import Modules, counts
from planes import Plane, Planes

# No test is about speed: this only keeps a hang from lasting for ever.
UNTIL_S = 300.0


@pytest.fixture
def modules(control_plane: Plane, tmp_path: Path) -> Iterator[Modules]:
    """The modules, and a cluster that is as it was afterwards."""
    yield Modules(control_plane.kubeconfig, tmp_path)
    control_plane.kubectl("delete", "resourceslices,nodes", "--all", "--wait=false")
    until("an empty cluster", lambda: not control_plane.get("nodes,resourceslices")["items"])


def until(what: str, test: Any) -> None:
    end = time.monotonic() + UNTIL_S
    while not test():
        assert time.monotonic() < end, f"still waiting for {what}"
        time.sleep(1)


def slices_of(plane: Plane, driver: str = "") -> list[dict[str, Any]]:
    items = plane.get("resourceslices")["items"]
    return [item for item in items if driver in ("", item["spec"]["driver"])]


FLEET = {"name": "n{n:02}", "count": 12, "machine": "aws-p5"}


def test_a_fleet_from_nothing_to_nothing(control_plane: Plane, modules: Modules):
    assert counts(modules.nodes(check_mode=True, **FLEET), "slices") == {"created": 36}
    assert control_plane.get("nodes")["items"] == []
    first = modules.nodes(**FLEET)
    assert (counts(first, "nodes"), counts(first, "slices")) == ({"created": 12}, {"created": 36})
    node = control_plane.get("node", "n07")
    # The API keeps the status that a new node comes with; KWOK has completed it.
    assert node["status"]["capacity"]["cpu"] == "192"
    assert node["status"]["nodeInfo"]["kubeletVersion"] == f"v{control_plane.kubernetes_version}"
    assert {c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"} == {"True"}
    assert {
        s["metadata"]["ownerReferences"][0]["uid"] for s in slices_of(control_plane) if s["spec"]["nodeName"] == "n07"
    } == {node["metadata"]["uid"]}
    second = modules.nodes(**FLEET)
    assert (second["changed"], counts(second, "nodes"), counts(second, "slices")) == (
        False,
        {"unchanged": 12},
        {"unchanged": 36},
    )
    # Version, API group, nodes, slices, and nodes once more to see that they are ready.
    assert second["requests"] == 5
    assert modules.nodes(check_mode=True, **FLEET)["changed"] is False
    assert counts(modules.nodes(**{**FLEET, "count": 14}), "nodes") == {"created": 2, "unchanged": 12}
    fewer = modules.nodes(**{**FLEET, "count": 3})
    assert (counts(fewer, "nodes")["deleted"], counts(fewer, "slices")["deleted"]) == (11, 33)
    assert len(slices_of(control_plane)) == 9
    gone = modules.nodes(state="absent", name=FLEET["name"], count=3)
    assert counts(gone, "nodes") == {"deleted": 3}
    assert slices_of(control_plane) == []
    assert modules.nodes(state="absent", set="n")["changed"] is False


@pytest.mark.parametrize(
    ("before", "after"), [("aws-p5", "aws-g4dn"), ("aws-p4d", "oci-gb200"), ("dgx-a100", "aws-p5")]
)
def test_the_machine_changes(control_plane: Plane, modules: Modules, before: str, after: str):
    modules.nodes(name="n{n}", count=3, machine=before)
    assert modules.nodes(name="n{n}", count=3, machine=after, check_mode=True)["changed"] is True
    changed = modules.nodes(name="n{n}", count=3, machine=after, diff=True)
    assert counts(changed, "nodes") == {"updated": 3}
    assert changed["diff"]["before"] != changed["diff"]["after"]
    assert modules.nodes(name="n{n}", count=3, machine=after)["changed"] is False
    info = modules.info()
    assert info["summary"]["incomplete_pools"] == []
    modules.nodes(state="absent", set="n")
    modules.nodes(name="n{n}", count=3, machine=after)
    fresh = modules.info(gather=["devices"])["devices"]
    modules.nodes(name="n{n}", count=3, machine=before)
    modules.nodes(name="n{n}", count=3, machine=after)
    assert modules.info(gather=["devices"])["devices"] == fresh


def test_what_others_change_is_repaired_and_nothing_else_is_touched(control_plane: Plane, modules: Modules):
    modules.nodes(**FLEET)
    gpu = slices_of(control_plane, "gpu.nvidia.com")
    edited, removed = gpu[0]["metadata"]["name"], gpu[1]["metadata"]["name"]
    patch = [{"op": "replace", "path": "/spec/devices/0/attributes/type", "value": {"string": "toaster"}}]
    control_plane.kubectl("patch", "resourceslice", edited, "--type=json", "-p", json.dumps(patch))
    control_plane.kubectl("delete", "resourceslice", removed)
    # A copy with fewer devices, under the same name and with our label and annotation.
    copied = gpu[2]
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        copied["metadata"].pop(key, None)
    copied["spec"]["devices"].pop()
    control_plane.kubectl("replace", "--force", "-f", "-", stdin=json.dumps(copied))
    control_plane.kubectl("taint", "node", "n03", "kwok.x-k8s.io/node-", "theirs=yes:NoSchedule")
    control_plane.kubectl("label", "node", "n03", "theirs=yes", "kubernetes.io/os=plan9", "--overwrite")
    control_plane.kubectl("delete", "node", "n05")
    until("the garbage collector", lambda: not [s for s in slices_of(control_plane) if s["spec"]["nodeName"] == "n05"])
    untouched = {s["metadata"]["uid"]: s["metadata"]["resourceVersion"] for s in slices_of(control_plane)}
    result = modules.nodes(**FLEET)
    assert counts(result, "nodes") == {"created": 1, "updated": 1, "unchanged": 10}
    assert counts(result, "slices") == {"created": 4, "updated": 2, "unchanged": 30}
    after = {s["metadata"]["uid"]: s["metadata"]["resourceVersion"] for s in slices_of(control_plane)}
    assert len([uid for uid, version in untouched.items() if after.get(uid) == version]) == 30
    node = control_plane.get("node", "n03")
    assert (node["metadata"]["labels"]["theirs"], node["metadata"]["labels"]["kubernetes.io/os"]) == ("yes", "linux")
    assert {taint["key"] for taint in node["spec"]["taints"]} == {"theirs", "kwok.x-k8s.io/node"}
    assert modules.nodes(**FLEET)["changed"] is False
    assert "toaster" not in json.dumps(slices_of(control_plane))


def test_two_sets_at_once_do_not_disturb_each_other(control_plane: Plane, modules: Modules):
    stranger = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "stranger"}}
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(stranger))
    for machine in ("aws-p5", "aws-p4d", "aws-p5"):
        calls = [modules.start("fake_gpu_node", name=f"{name}-{{n}}", count=20, machine=machine) for name in ("a", "b")]
        for call in calls:
            assert call.result()["summary"]["slices"]["failed"] == 0
    calls = [
        modules.start("fake_gpu_node", name="a-{n}", count=5, machine="aws-p5"),
        modules.start("fake_gpu_node", set="b", state="absent"),
    ]
    for call in calls:
        call.result()
    names = [node["metadata"]["name"] for node in control_plane.get("nodes")["items"]]
    assert names == [*(f"a-{n}" for n in range(5)), "stranger"]
    assert "not of the set 'stranger': stranger" in modules.nodes(fails=True, name="stranger", machine="aws-p5")["msg"]
    assert modules.nodes(name="a-{n}", count=5, machine="aws-p5")["changed"] is False


def test_two_runs_for_one_set_at_once_end_well(control_plane: Plane, modules: Modules):
    """Whoever comes second finds what the first has made; the next run has nothing to do."""
    calls = [modules.start("fake_gpu_node", **FLEET, timeout_s=60) for _time in range(2)]
    for call in calls:
        call.process.wait(timeout=120)
    modules.nodes(**FLEET)
    assert modules.nodes(**FLEET)["changed"] is False
    assert len(slices_of(control_plane)) == 36


POD = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fleet.gpulab.test}
spec:
  selectors:
    - cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: three, namespace: default}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: fleet.gpulab.test, count: 3}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: worker, namespace: default}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: none, resources: {claims: [{name: gpus}]}}]
  resourceClaims: [{name: gpus, resourceClaimTemplateName: three}]
"""


def test_the_scheduler_allocates_from_them_and_info_tells_to_whom(control_plane: Plane, modules: Modules):
    modules.nodes(name="n{n}", count=2, machine="aws-p5")
    control_plane.kubectl("create", "-f", "-", stdin=POD)
    try:
        until("the pod", lambda: control_plane.get("pod", "worker")["status"].get("phase") == "Running")
        info = modules.info(driver="gpu.nvidia.com", gather=["summary", "devices", "pools"])
        assert {word: info["summary"][word] for word in ("devices", "allocated", "free")} == {
            "devices": 16,
            "allocated": 3,
            "free": 13,
        }
        taken = [device for device in info["devices"] if not device["free"]]
        assert {device["node"] for device in taken} == {control_plane.get("pod", "worker")["spec"]["nodeName"]}
        assert {holder["reserved_for"][0] for device in taken for holder in device["allocated_to"]} == {"worker"}
        # Our CEL and the scheduler's agree on what these devices are.
        uuid = taken[0]["attributes"]["uuid"]
        selected = modules.info(cel=f"device.attributes['gpu.nvidia.com'].uuid == '{uuid}'")
        assert selected["summary"]["devices"] == 1
    finally:
        control_plane.kubectl("delete", "pod", "worker", "--wait=false")
        until("the pod's end", lambda: not control_plane.get("pods,resourceclaims")["items"])
        control_plane.kubectl("delete", "resourceclaimtemplate/three", "deviceclass/fleet.gpulab.test")


RIGHTS = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: half, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gpulab-half}
rules:
  - {apiGroups: [""], resources: [nodes], verbs: [get, list, create, patch, delete]}
  - {apiGroups: [resource.k8s.io], resources: [resourceslices], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gpulab-half}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gpulab-half}
subjects: [{kind: ServiceAccount, name: half, namespace: default}]
"""


def test_missing_rights_are_told_before_anything_is_made(control_plane: Plane, modules: Modules):
    control_plane.kubectl("apply", "-f", "-", stdin=RIGHTS)
    try:
        token = control_plane.kubectl("create", "token", "half", "-n", "default").stdout.strip()
        result = modules.nodes(fails=True, api_key=token, **FLEET)
        assert "may not create resourceslices.resource.k8s.io" in result["msg"]
        assert (result["verb"], result["resource"]) == ("create", "resourceslices.resource.k8s.io")
        assert control_plane.get("nodes")["items"] == []
        nobody = control_plane.kubectl("create", "token", "default", "-n", "default").stdout.strip()
        message = modules.nodes(fails=True, api_key=nobody, **FLEET)["msg"]
        assert "user 'system:serviceaccount:default:default' may not list nodes" in message
        expired = modules.nodes(fails=True, api_key=token[:-8] + "AAAAAAAA", **FLEET)
        assert "does not accept the credentials" in expired["msg"]
    finally:
        control_plane.kubectl("delete", "-f", "-", stdin=RIGHTS)


def test_an_expired_certificate_is_told(control_plane: Plane, modules: Modules, tmp_path: Path):
    authority = Path(control_plane.paths.folder) / "pki"
    ca = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    ca_key: Any = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.timezone.utc)
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "system:masters"),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now - datetime.timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    (tmp_path / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    message = modules.nodes(
        fails=True, client_cert=str(tmp_path / "cert.pem"), client_key=str(tmp_path / "key.pem"), **FLEET
    )["msg"]
    assert "does not accept the credentials" in message
    assert "cert.pem expired at" in message
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    config["clusters"][0]["cluster"].pop("certificate-authority-data", None)
    config["clusters"][0]["cluster"].pop("certificate-authority", None)
    config["clusters"][0]["cluster"].pop("insecure-skip-tls-verify", None)
    message = modules.nodes(fails=True, kubeconfig=config, timeout_s=20, **FLEET)["msg"]
    assert "cannot trust https://127.0.0.1" in message


def test_the_api_server_dies_while_500_nodes_are_published(planes: Planes, tmp_path: Path, control_plane_factory: Any):
    """The run ends with what was done; the next one makes the exact set out of it, and no pool stays incomplete."""
    plane: Plane = control_plane_factory("fragile")
    modules = Modules(plane.kubeconfig, tmp_path)
    fleet = {"name": "n{n:03}", "count": 500, "machine": "aws-p4d", "timeout_s": 800}
    call = modules.start("fake_gpu_node", **fleet)
    until("some slices", lambda: len(plane.kubectl("get", "resourceslices", "-o", "name").stdout.splitlines()) > 100)
    os.kill({one.name: one.pid for one in plane.paths.started()}["kube-apiserver"], signal.SIGKILL)
    result = call.result(fails=True)
    assert "does not answer" in result["msg"]
    assert result["changed"] is True
    assert result["summary"]["slices"]["created"] >= 100
    assert result["summary"]["slices"]["failed"] > 0
    assert planes.play("playbooks/control_plane.yml", {"control_plane_name": "fragile"}).returncode == 0
    before = len(plane.kubectl("get", "resourceslices", "-o", "name").stdout.splitlines())
    # Nothing that was reported as made is missing; what was under way may be there as well.
    assert 0 <= before - result["summary"]["slices"]["created"] <= 16
    repaired = modules.nodes(**fleet)
    assert repaired["summary"]["slices"]["created"] == 1500 - before
    assert repaired["summary"]["nodes"]["failed"] == 0
    assert modules.nodes(**fleet)["changed"] is False
    info = modules.info(gather=["summary"])
    assert (info["summary"]["slices"], info["summary"]["pools"], info["summary"]["incomplete_pools"]) == (
        1500,
        1500,
        [],
    )
