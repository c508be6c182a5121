# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.keys import (
    SshKeyError,
    ensure_key,
    key_exists,
    read_public,
)

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


def test_a_key_is_made_once_and_readable_by_nobody_else(tmp_path: Path):
    assert not key_exists(str(tmp_path))
    key = ensure_key(str(tmp_path))
    assert key.public.startswith("ssh-ed25519 ")
    os.chmod(key.private, 0o644)
    assert ensure_key(str(tmp_path)) == key
    assert (os.stat(key.private).st_mode & 0o777) == 0o600
    assert key_exists(str(tmp_path))


def test_half_a_key_is_made_anew(tmp_path: Path):
    key = ensure_key(str(tmp_path))
    os.unlink(key.private + ".pub")
    assert ensure_key(str(tmp_path)).public != key.public


def test_a_private_key_without_its_public_part_is_told(tmp_path: Path):
    (tmp_path / "id").write_text("x")
    with pytest.raises(SshKeyError, match="belongs beside the private one"):
        read_public(str(tmp_path / "id"))
