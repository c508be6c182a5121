# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of virtual hosts; every process that a test starts detached is ended after it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def progress(tmp_path: Path):
    # Not at the top: this file is read before the collection can be imported.
    from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress

    return Progress(str(tmp_path / "progress.jsonl"), "test")


@pytest.fixture
def said(progress):
    def read() -> str:
        path = Path(str(progress.path))
        return path.read_text(encoding="utf-8") if path.exists() else ""

    return read


@pytest.fixture
def host_files(tmp_path: Path) -> dict[str, str]:
    """An image of the user's own: the files are named, nothing boots from them."""
    files = {}
    for name in ("disk", "kernel", "initrd"):
        path = tmp_path / "image" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"\0" * 4096)
        files[name] = str(path)
    return files


@pytest.fixture(autouse=True)
def no_process_is_left():
    """Whatever a test starts detached is ended after it, by pid."""
    from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import processes

    before = len(processes._CHILDREN)
    yield
    for popen in processes._CHILDREN[before:]:
        if popen.poll() is None:
            popen.kill()
        popen.wait()
