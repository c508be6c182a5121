# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake /sys and /proc for the tests of this folder."""

from __future__ import annotations

import fake_tree
import pytest


@pytest.fixture
def tree(tmp_path):
    return fake_tree.FakeTree(tmp_path)


@pytest.fixture
def fake():
    """The module with the builder's constants and helpers."""
    return fake_tree
