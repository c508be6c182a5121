# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules under test believe that they run on a target, whatever other tests of the session have imported."""

from __future__ import annotations

import pytest
from ansible.module_utils import _internal


@pytest.fixture(autouse=True)
def on_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's warnings go into its result; in a controller's process ansible-core prints them instead."""
    monkeypatch.setattr(_internal, "is_controller", False, raising=False)
