# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import serve
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.install import InstallError, install, source_closure

PREFIX = "ansible_collections.gpulab.fleet.plugins.module_utils."


def test_the_device_server_brings_what_it_imports_and_no_more():
    names = {name.removeprefix(PREFIX) for name in source_closure(serve.__name__)}
    modules = {path.replace("/", ".").removesuffix(".py") for path in serve.SERVER_FILES}
    assert modules <= names
    assert not any(name.startswith(("_lxd", "_virtual.lifecycle", "_virtual.manage")) for name in names)


def test_the_copy_runs_on_its_own(tmp_path: Path):
    folder = install(serve.__name__, str(tmp_path / "server"))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": folder}
    answer = subprocess.run(
        [sys.executable, "-m", serve.__name__, "--help"],
        env=environ,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0 and "--config" in answer.stdout, answer.stderr


def test_the_same_source_is_installed_once(tmp_path: Path):
    first = install(serve.__name__, str(tmp_path))
    stamp = os.stat(first).st_mtime_ns
    assert install(serve.__name__, str(tmp_path)) == first
    assert os.stat(first).st_mtime_ns == stamp
    assert os.listdir(tmp_path) == [os.path.basename(first)]


def test_it_works_from_a_zip_file_as_ansible_ships_modules(tmp_path: Path):
    payload = tmp_path / "payload.zip"
    with zipfile.ZipFile(payload, "w") as archive:
        sources = source_closure(PREFIX + "_virtual.install") | source_closure(serve.__name__)
        folders = {"/".join(name.split(".")[:depth]) for name in sources for depth in range(1, name.count(".") + 1)}
        for folder in sorted(folders):
            archive.writestr(f"{folder}/__init__.py", "")
        for name, text in sources.items():
            if f"{name.replace('.', '/')}" not in folders:
                archive.writestr(name.replace(".", "/") + ".py", text)
    code = f"from {PREFIX}_virtual.install import install; print(install({serve.__name__!r}, {str(tmp_path / 'server')!r}))"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(payload)}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == install(serve.__name__, str(tmp_path / "direct")).replace("direct", "server")


def test_a_module_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InstallError, match=r"_virtual\.nothing"):
        install(PREFIX + "_virtual.nothing", str(tmp_path))
