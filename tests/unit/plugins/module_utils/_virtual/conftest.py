# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of virtual hosts."""

from __future__ import annotations

from pathlib import Path

import pytest


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
