# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of many rooms: progress that can be read back; every process that a test starts detached is ended after it."""

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


@pytest.fixture(autouse=True)
def no_process_is_left():
    """Whatever a test starts detached is ended after it, by pid."""
    from ansible_collections.gpulab.fleet.plugins.module_utils._common import processes

    before = len(processes._CHILDREN)
    yield
    for popen in processes._CHILDREN[before:]:
        if popen.poll() is None:
            popen.kill()
        popen.wait()
