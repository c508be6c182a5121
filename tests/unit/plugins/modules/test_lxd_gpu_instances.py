# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules lxd_gpu_vm and lxd_gpu_container as Ansible runs them: parameters in, one JSON result out."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from fake_lxd import FakeLxd

from ansible_collections.gpulab.fleet.plugins.modules import lxd_gpu_container, lxd_gpu_vm

KINDS = [(lxd_gpu_vm, "virtual-machine"), (lxd_gpu_container, "container")]


@pytest.fixture
def server(monkeypatch):
    folder = Path(tempfile.mkdtemp(prefix="lxd"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    with FakeLxd(folder) as running:
        running.add_image("virtual-machine", "virtual-machine")
        running.add_image("container", "container")
        yield running
    shutil.rmtree(folder)


@pytest.fixture
def call(server, capsys):
    """Run a module to its end; its result and whether it failed."""

    def run(module, check_mode=False, **params):
        capsys.readouterr()
        arguments = {"lxd_socket": str(server.socket), "name": "i1", "_ansible_check_mode": check_mode, **params}
        with patch_module_args(arguments), pytest.raises(SystemExit) as end:
            module.main()
        result = json.loads(capsys.readouterr().out)
        assert bool(end.value.code) is bool(result.get("failed")), result
        return result

    return run


@pytest.mark.parametrize(("module", "kind"), KINDS)
def test_a_life(server, call, module, kind):
    assert call(module, check_mode=True, image=kind)["actions"] == ["create", "start"]
    assert server.instances == {}
    first = call(module, image=kind, config={"user.x": 1})
    assert (first["changed"], first["actions"], first["instance"]["type"]) == (True, ["create", "start"], kind)
    assert call(module, image=kind, config={"user.x": 1})["changed"] is False
    assert call(module, config={"user.x": None})["diff"]["before"] == {"config.user.x": "1"}
    assert call(module, state="restarted")["actions"] == ["stop", "start"]
    assert call(module, state="absent")["actions"] == ["stop", "delete"]
    gone = call(module, state="absent")
    assert (gone["changed"], gone["instance"]) == (False, None)


@pytest.mark.parametrize(("module", "kind"), KINDS)
def test_results_have_one_shape(server, call, module, kind):
    results = [call(module, image=kind, state=state) for state in ("present", "started", "stopped", "absent")]
    shapes = {frozenset(result) - {"invocation", "warnings"} for result in results}
    assert len(shapes) == 1
    for key in shapes.pop() - {"changed", "diff"}:
        assert f"\n{key}:\n" in module.RETURN, f"{key} is not documented"


@pytest.mark.parametrize(
    ("module", "params", "words"),
    [
        (lxd_gpu_vm, {"image": "virtual-machine", "qemu_opts": "-global nonsense"}, ["qemu_opts", "nonsense"]),
        (lxd_gpu_vm, {"image": "container"}, ["image", "container"]),
        (lxd_gpu_vm, {"image": "virtual-machine", "ram_mb": 2**40}, ["ram_mb", "give less"]),
        (lxd_gpu_vm, {"image": "virtual-machine", "gpus": ["not-an-address"]}, ["gpus[0]", "not-an-address"]),
        (lxd_gpu_container, {"image": "nonesuch"}, ["image", "nonesuch"]),
        (lxd_gpu_container, {"image": "container", "gpus": ["ffff:ff:1f.7"]}, ["gpus[0]", "ffff:ff:1f.7"]),
        (lxd_gpu_container, {"image": "container", "ram": 5}, ["ram", "nsupported"]),
        (lxd_gpu_container, {"image": "container", "qemu_opts": "auto"}, ["qemu_opts", "nsupported"]),
    ],
)
def test_failures_are_one_message(server, call, module, params, words):
    result = call(module, **params)
    assert result["failed"]
    assert [word for word in words if word not in result["msg"]] == []
    assert server.instances == {}


def test_an_lxd_that_is_not_there(call):
    result = call(lxd_gpu_vm, lxd_socket="/nonexistent/unix.socket")
    assert result["failed"]
    assert "/nonexistent/unix.socket" in result["msg"]
    assert "lxd_socket" in result["msg"]


def test_a_failed_start_tells_reason_log_and_actions(server, call):
    server.fail["start"] = "vhost_vsock kernel module not loaded"
    server.logs["i1"] = {"qemu.log": "a line\n"}
    result = call(lxd_gpu_vm, image="virtual-machine")
    assert (result["reason"], result["actions"], result["released"]) == ("vsock", ["create", "delete"], [])


def test_cloud_init_does_not_show_its_documents(server, call):
    result = call(lxd_gpu_vm, image="virtual-machine", cloud_init={"user_data": "#cloud-config\npassword: secret-word"})
    assert "secret-word" not in json.dumps(result)
    assert "secret-word" in server.instances["i1"]["config"]["cloud-init.user-data"]


def test_progress_is_written_where_the_callback_looks(server, call):
    call(lxd_gpu_vm, image="virtual-machine")
    (path,) = (server.folder / "state" / "gpulab-fleet" / "progress").iterdir()
    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert texts[:2] == ["create i1", "start i1"]
