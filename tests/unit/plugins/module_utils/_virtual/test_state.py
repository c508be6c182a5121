# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.state_folder import StateError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import (
    LONGEST_SOCKET_NAME,
    MAX_SOCKET_PATH_BYTES,
    HostPaths,
    HostState,
    Program,
    list_hosts,
    runtime_dir,
)


def test_what_is_saved_is_loaded(tmp_path: Path):
    paths = HostPaths("vgpu-1", str(tmp_path))
    assert paths.load() is None
    state = HostState(
        "vgpu-1", ssh_port=2222, qemu=Program("qemu", 1, 2, "/log"), servers=[Program("server of gpu0", 3, 4, "/l")]
    )
    paths.save(state)
    assert paths.load() == state
    assert (os.stat(paths.state).st_mode & 0o777) == 0o600


def test_the_file_has_the_keys_that_others_read(tmp_path: Path):
    paths = HostPaths("vgpu-1", str(tmp_path))
    paths.save(HostState("vgpu-1", qemu=Program("qemu", 1, 2, "/log"), devices=Program("device server", 5, 6, "/l")))
    content = json.loads(Path(paths.state).read_text())
    assert {"name", "machine", "ssh_port", "ssh_key", "qemu", "devices", "console", "addresses"} <= set(content)
    assert set(content["qemu"]) == {"name", "pid", "start_time", "log"}


def test_unknown_keys_of_another_version_are_ignored_and_missing_ones_told(tmp_path: Path):
    paths = HostPaths("a", str(tmp_path))
    os.makedirs(paths.folder)
    Path(paths.state).write_text('{"name": "a", "status": "stopped", "colour": "red"}')
    loaded = paths.load()
    assert loaded is not None and loaded.status == "stopped"
    for broken in ('{"status": "stopped"}', '{"name": "a", "qemu": {"pid": 1}}', "[]"):
        Path(paths.state).write_text(broken)
        with pytest.raises(StateError, match="start afresh"):
            paths.load()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "-x", "x" * 64, "a b", "all*"])
def test_names_that_are_no_folder_are_refused(name: str):
    with pytest.raises(StateError, match="name is"):
        HostPaths(name, "/tmp")


def test_hosts_are_found_by_their_folders(tmp_path: Path):
    assert list_hosts(str(tmp_path)) == []
    for name in ("b", "a"):
        paths = HostPaths(name, str(tmp_path))
        paths.save(HostState(name))
        with paths.guard(1.0):
            pass
    assert list_hosts(str(tmp_path)) == ["a", "b"]


def test_sockets_get_a_short_folder_of_their_own(tmp_path: Path):
    one = runtime_dir(HostPaths("a", str(tmp_path / "x")))
    assert one != runtime_dir(HostPaths("a", str(tmp_path / "y")))
    assert one != runtime_dir(HostPaths("b", str(tmp_path / "x")))
    assert len(one) + 1 + LONGEST_SOCKET_NAME <= MAX_SOCKET_PATH_BYTES
    assert os.path.basename(os.path.dirname(one)) == "gpulab-fleet"


def test_who_may_not_write_to_run_uses_a_folder_of_his_own(tmp_path: Path):
    paths = HostPaths("a", str(tmp_path))
    assert runtime_dir(paths, {"XDG_RUNTIME_DIR": "/run/user/1"}, "/nowhere").startswith("/run/user/1/gpulab-fleet/")
    assert runtime_dir(paths, {}, "/nowhere").startswith(f"/tmp/gpulab-fleet-{os.getuid()}/")
    with pytest.raises(StateError, match="XDG_RUNTIME_DIR"):
        runtime_dir(paths, {"XDG_RUNTIME_DIR": "/" + "x" * 90}, "/nowhere")
