# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake /sys and /proc for the tests of this folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("pci_fake_tree", Path(__file__).with_name("fake_tree.py"))
fake_tree = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fake_tree)


@pytest.fixture
def tree(tmp_path):
    return fake_tree.FakeTree(tmp_path)


@pytest.fixture
def fake():
    """The module with the builder's constants and helpers."""
    return fake_tree
