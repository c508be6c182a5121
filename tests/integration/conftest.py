# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual hosts that the integration tests share: started by the first test that needs them, always ended at the end of the session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
# Test modules are imported by path, so their helpers are named here; and pytest reads this file before it configures the one above.
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "playbooks" / "collections")]

from lab import Lab, Stream, open_lab


@pytest.fixture(scope="session")
def lab(checkout: Path) -> Iterator[Lab]:
    """The lab without running hosts. A session that was killed may have left some: they are ended first."""
    opened, lock = open_lab(checkout, checkout / "tests" / "output" / "integration")
    try:
        opened.teardown()
        yield opened
    finally:
        try:
            returncode = opened.teardown()
        finally:
            lock.release()
        assert returncode == 0 and not opened.hosts(), f"virtual hosts are left, see {opened.output}/teardown.log"


@pytest.fixture
def hosts(lab: Lab, stream: Stream) -> Lab:
    """The lab with both hosts of inventories/virtual running."""
    lab.ensure_started(stream)
    return lab
