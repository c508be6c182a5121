# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the integration tests share: virtual hosts and control planes, started by the first test that needs them, always ended with the session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
# Test modules are imported by path, so their helpers are named here; and pytest reads this file before it configures the one above.
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "playbooks" / "collections")]

from lab import Lab, Stream, open_lab
from planes import START_LIMIT_S, Plane, Planes, open_planes

# The first test of a session may have to build Kubernetes.
CONTROL_PLANE_FIXTURES = {"planes", "control_plane", "control_plane_factory"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        needs = CONTROL_PLANE_FIXTURES & set(getattr(item, "fixturenames", ()))
        if needs and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(START_LIMIT_S + 300))


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


@pytest.fixture(scope="session")
def planes(checkout: Path, stream: Stream) -> Iterator[Planes]:
    """The control planes of this session; none runs yet."""
    with open_planes(checkout, stream) as opened:
        yield opened


@pytest.fixture(scope="session")
def control_plane(planes: Planes) -> Plane:
    """The newest Kubernetes with its features as they come; shared, so a test cleans up what it makes."""
    return planes.start()


@pytest.fixture
def control_plane_factory(planes: Planes) -> Iterator[Callable[..., Plane]]:
    """Further control planes for one test: control_plane_factory("name", kubernetes_version="1.34", features=[...])."""
    names: list[str] = []

    def start(name: str, **role_variables: object) -> Plane:
        names.append(name)
        return planes.start(name, **role_variables)

    yield start
    for name in names:
        planes.remove(name)
