# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.lookup.virtual_host import read
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import HostPaths, HostState

IMAGES = {
    "vm_image": "/c/vm/disk.qcow2",
    "vm_metadata": "/c/vm/metadata.tar.xz",
    "container_image": "/c/container/image.tar.gz",
}


@pytest.fixture
def state_dir(tmp_path: Path) -> str:
    for name, status, images in (("up", "running", IMAGES), ("bare", "running", {}), ("down", "stopped", IMAGES)):
        HostPaths(name, str(tmp_path)).save(
            HostState(
                name,
                status,
                "lab-t4",
                ssh_port=2222,
                ssh_key="/k",
                addresses={"gpu0": "0000:41:00.0"},
                guest_images=images,
            )
        )
    return str(tmp_path)


def template(text: str, state_dir: str) -> tuple[int, str]:
    """What Ansible makes of a template."""
    command = ["ansible", "localhost", "-i", "localhost,", "-c", "local", "-m", "ansible.builtin.debug"]
    command += ["-a", json.dumps({"msg": text})]
    environ = {**os.environ, "ANSIBLE_NOCOLOR": "1", "FOLDER": state_dir}
    answer = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100, check=False)
    return answer.returncode, answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("ssh_port", 2222),
        ("ssh_key", "/k"),
        ("addresses", {"gpu0": "0000:41:00.0"}),
        ("machine", "lab-t4"),
        ("vm_image", "/c/vm/disk.qcow2"),
        ("container_image", "/c/container/image.tar.gz"),
    ],
)
def test_a_field_of_a_running_host(state_dir: str, field: str, expected: object):
    assert read("up", field, state_dir) == expected


def test_all_fields_of_several_hosts(state_dir: str):
    up, bare = read("up", None, state_dir), read("bare", None, state_dir)
    assert set(up) - set(bare) == set(IMAGES)


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        ("never", "ssh_port", "'never' has never been started; run the playbook gpulab.fleet.virtual_hosts"),
        ("down", "ssh_port", "'down' is stopped; run the playbook"),
        ("bare", "vm_image", "'bare' was started without guest images"),
        ("../x", "ssh_port", "name is '../x'"),
    ],
)
def test_what_is_not_there_is_said(state_dir: str, name: str, field: str, message: str):
    with pytest.raises(FleetError, match=message):
        read(name, field, state_dir)


def test_a_default_stands_in_for_a_host_that_is_down_only(state_dir: str):
    assert [read(name, "ssh_port", state_dir, 22) for name in ("never", "down", "up")] == [22, 22, 2222]
    assert read("never", "ssh_key", state_dir, "") == ""


def test_as_a_template(state_dir: str):
    options = "state_dir=lookup('ansible.builtin.env', 'FOLDER')"
    text = (
        "{{ lookup('gpulab.fleet.virtual_host', 'up', field='ssh_port', OPTIONS) }}"
        " {{ query('gpulab.fleet.virtual_host', 'never', 'up', field='ssh_port', default=22, OPTIONS) }}"
        " {{ lookup('gpulab.fleet.virtual_host', 'up', OPTIONS).addresses.gpu0 }}"
    )
    status, output = template(text.replace("OPTIONS", options), state_dir)
    assert status == 0 and "2222 [22, 2222] 0000:41:00.0" in output, output


def test_a_template_without_a_default_fails_with_the_reason(state_dir: str):
    status, output = template("{{ lookup('gpulab.fleet.virtual_host', 'never', state_dir='/nowhere') }}", state_dir)
    assert status != 0 and "'never' has never been started" in output, output


def test_the_state_folder_follows_the_environment(state_dir: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "gpulab-fleet").symlink_to(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert read("up", "ssh_port", None) == 2222
