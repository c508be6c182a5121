# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as Ansible runs it: a program of its own, with options in and JSON out; a stand-in plays QEMU."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.options import warnings
from ansible_collections.gpulab.fleet.plugins.modules import virtual_gpu_host
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.host_support import fake_qemu

MACHINE = {
    "name": "small",
    "cpus": 1,
    "memory_mb": 1024,
    "roots": {"pci0000:40": {"devices": {"gpu0": {"address": "0000:41:00.0", "board": "nvidia-t4"}}}},
}


class Play:
    """`ansible localhost -m virtual_gpu_host` in folders of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ansible.cfg").touch()
        files = {}
        for name in ("disk", "kernel", "initrd"):
            (folder / name).write_bytes(b"\0" * 512)
            files[name] = str(folder / name)
        self.base: dict[str, Any] = {
            "name": "vgpu-1",
            "machine": MACHINE,
            "qemu_command": fake_qemu(),
            "image": files,
            "accel": "tcg",
            "wait_for": "banner",
            "timeout_s": 60,
        }

    def run(self, *words: str, without: tuple[str, ...] = (), **options: Any) -> dict[str, Any]:
        arguments = {key: value for key, value in {**self.base, **options}.items() if key not in without}
        environ = {
            **os.environ,
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            # The checkout's own settings print for people.
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
        }
        command = ["ansible", "localhost", "-i", "localhost,", "-c", "local", "-m", "gpulab.fleet.virtual_gpu_host"]
        command += [
            "-a",
            json.dumps(arguments),
            *words,
            "-e",
            "ansible_python_interpreter={{ ansible_playbook_python }}",
        ]
        answer = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=200, check=False)
        text = answer.stdout
        assert "=> {" in text, text + answer.stderr
        result: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("=> {") + 3 :])[0]
        result["stderr"] = answer.stderr
        return result

    @property
    def progress(self) -> str:
        return (self.folder / "state" / "gpulab-fleet" / "progress" / "virtual-host-vgpu-1.jsonl").read_text()


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]):
    """The module in this process, which is much faster than Ansible."""

    def call(params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        with patch_module_args(params), pytest.raises(SystemExit) as ended:
            virtual_gpu_host.main()
        return ended.value.code, json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call):
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable[4:-5].lower()))
    yield Play(tmp_path)
    code, result = call({"all": True, "state": "absent"})
    assert code == 0, result


def test_a_host_outlives_the_module_and_is_found_again(play: Play):
    first = play.run("--diff")
    assert first["changed"], first
    (host,) = first["hosts"]
    assert host["status"] == "running" and host["addresses"] == {"gpu0": "0000:41:00.0"} and host["memory_mb"] == 1024
    assert (os.stat(host["ssh_key"]).st_mode & 0o777) == 0o600
    state = json.loads((play.folder / "state/gpulab-fleet/virtual-hosts/vgpu-1/state.json").read_text())
    for program in ("qemu", "devices"):
        command = Path(f"/proc/{state[program]['pid']}/cmdline").read_text().split("\0")
        # Nothing may run from the module's payload, which is gone by now.
        assert not any("ansible-tmp" in word or "ansiballz" in word.lower() for word in command), command
    assert "starting QEMU 11.1.3" in play.progress

    second = play.run("--diff")
    assert not second["changed"] and second["hosts"][0]["ssh_port"] == host["ssh_port"], second

    stopped = play.run("--check", state="stopped", without=("machine",))
    assert stopped["changed"] and stopped["hosts"][0]["status"] == "stopped"
    assert play.run(state="stopped", without=("machine",))["changed"]
    gone = play.run(state="absent", without=("machine",))
    assert gone["changed"] and gone["hosts"] == [
        {
            "name": "vgpu-1",
            "status": "absent",
            "found": {"status": "stopped", "reason": "", "logs": {}},
            "actions": ["remove"],
            "built": [],
            "seconds": {},
        }
    ]


@pytest.mark.parametrize(
    ("options", "without", "message"),
    [
        ({}, ("machine",), "machine is not set; virtual host 'vgpu-1' needs"),
        ({}, ("name",), "name"),
        ({"name": "../x"}, (), "name is '../x'; a virtual host is named by"),
        ({"all": True}, ("name",), "all is true with state 'started'"),
        ({"machine": "dgx-h900"}, (), "dgx-h900"),
        ({"memory_mb": 1 << 30}, (), "memory_mb is 1073741824, but this computer has"),
        ({"image": {"disk": "/nowhere", "kernel": "/nowhere", "initrd": "/nowhere"}}, (), "image.disk is '/nowhere'"),
        ({"qemu_command": ["/nowhere/qemu"]}, (), "qemu_command names '/nowhere/qemu'"),
        ({"qemu_command": fake_qemu("dies")}, (), "could not load the firmware"),
    ],
)
def test_a_mistake_is_one_clear_message(
    call, play: Play, options: dict[str, Any], without: tuple[str, ...], message: str
):
    code, result = call({key: value for key, value in {**play.base, **options}.items() if key not in without})
    assert (code, result["failed"]) == (1, True) and message in result["msg"], result


def test_devices_that_move_are_told(call, play: Play):
    roots = {"pci0000:10": {"devices": {"gpu0": {"address": "0000:10:1c.0", "board": "nvidia-t4"}}}}
    code, result = call({**play.base, "machine": {**MACHINE, "roots": roots}})
    assert (code, result["hosts"][0]["moved"]) == (0, {"gpu0": "0000:10:1c.0"})
    # Ansible's own list of warnings is one per process.
    (warning,) = warnings(result["hosts"])
    assert "gpu0 is at 0000:11:00.0, not 0000:10:1c.0" in warning


def test_a_wrong_machine_keeps_no_host_from_being_ended(call, play: Play):
    code, result = call({**play.base, "machine": "dgx-h900", "state": "absent"})
    assert (code, result["changed"]) == (0, False)


def test_the_documentation_tells_the_options_as_they_are():
    documented = yaml.safe_load(virtual_gpu_host.DOCUMENTATION)["options"]
    assert set(documented) == set(virtual_gpu_host.ARGUMENT_SPEC)
    for name, spec in virtual_gpu_host.ARGUMENT_SPEC.items():
        for key in ("type", "default", "choices"):
            assert documented[name].get(key) == spec.get(key), name


def test_the_machines_of_the_examples_load():
    tasks = [task["gpulab.fleet.virtual_gpu_host"] for task in yaml.safe_load(virtual_gpu_host.EXAMPLES)]
    machines = [load(task["machine"]) for task in tasks if "machine" in task]
    assert [device.board.name for _root, device in machines[1].devices()] == [
        "nvidia-h100-sxm5-80gb",
        "nvidia-a100-pcie-80gb",
    ]
