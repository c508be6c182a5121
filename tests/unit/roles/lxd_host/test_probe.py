# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at a host before any module runs there, at LXDs in every state."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_lxd import FakeLxd

ROOT = Path(__file__).resolve().parents[4]
PROBE = ROOT / "roles" / "lxd_host" / "files" / "probe.py"


@pytest.fixture
def server() -> Iterator[Any]:
    """An LXD that also tells of its pools and networks."""

    class Lxd(FakeLxd):
        pools: tuple[str, ...] = ("default",)
        networks: tuple[str, ...] = ("lxdbr0",)

        def _route(self, method: str, parts: list[str], *rest: Any) -> Any:
            if parts == ["storage-pools"]:
                return 200, [f"/1.0/storage-pools/{name}" for name in self.pools], {}
            if parts == ["networks"]:
                return 200, [f"/1.0/networks/{name}" for name in self.networks], {}
            if parts[0] == "profiles" and len(parts) == 2:
                return 200, self.profiles[parts[1]], {}
            return super()._route(method, parts, *rest)

    with tempfile.TemporaryDirectory(prefix="lxd") as folder, Lxd(Path(folder)) as running:
        yield running


def look(folder: Path, venv: str = "/nonexistent") -> dict[str, Any]:
    command = [sys.executable, str(PROBE), venv, "5"]
    ended = subprocess.run(
        command, env={**os.environ, "LXD_DIR": str(folder)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    (line,) = ended.stdout.splitlines()
    assert line.startswith('{"lxd_host"')
    return json.loads(line)  # type: ignore[no-any-return]


def test_a_ready_host(server: Any) -> None:
    server.instances["a"] = {
        "name": "a",
        "type": "container",
        "status": "Stopped",
        "config": {"user.gpulab.fleet": "x"},
        "devices": {},
        "profiles": [],
    }
    server.instances["b"] = {
        "name": "b",
        "type": "virtual-machine",
        "status": "Stopped",
        "config": {},
        "devices": {},
        "profiles": [],
    }
    seen = look(server.folder)
    assert seen["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert os.path.samefile(seen["executable"], sys.executable)
    assert seen["memory_mb"] > 0
    assert seen["pylxd"] is (importlib.util.find_spec("pylxd") is not None)
    lxd = seen["lxd"]
    assert (lxd["answers"], lxd["error"], lxd["version"], lxd["root_device"]) == (True, "", "5.0.2", True)
    assert (lxd["pools"], lxd["networks"]) == (["default"], ["lxdbr0"])
    # instances of other people are nobody's business
    assert lxd["instances"] == [{"name": "a", "type": "container"}]


def test_a_fresh_lxd(server: Any) -> None:
    server.pools, server.networks, server.profiles = (), (), {"default": {"config": {}, "devices": {}}}
    lxd = look(server.folder)["lxd"]
    assert (lxd["answers"], lxd["pools"], lxd["networks"], lxd["root_device"]) == (True, [], [], False)


def test_an_lxd_that_does_not_trust_us(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(server), "answer", lambda *_arguments: (200, {"auth": "untrusted"}, {}))
    lxd = look(server.folder)["lxd"]
    assert (lxd["answers"], "does not trust" in lxd["error"]) == (False, True)


def test_an_lxd_that_is_not_there(tmp_path: Path) -> None:
    lxd = look(tmp_path)["lxd"]
    assert (lxd["answers"], lxd["socket"]) == (False, str(tmp_path / "unix.socket"))
    assert "No such file" in lxd["error"]


def test_our_environment_counts_only_with_its_python(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "gpulab-key").write_text("3.11-abc\n")
    assert look(tmp_path, str(tmp_path))["venv_key"] == ""
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    assert look(tmp_path, str(tmp_path))["venv_key"] == "3.11-abc"
