# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as people write them."""

from __future__ import annotations

import random

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import MachineError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.units import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("128G", 1 << 37),
        ("16M", 1 << 24),
        ("16 MiB", 1 << 24),
        ("4k", 4096),
        ("256", 256),
        (256, 256),
        ("1TiB", 1 << 40),
        ("2GB", 2 << 30),
    ],
)
def test_parsed(text: object, size_bytes: int) -> None:
    assert parse_size(text, "x") == size_bytes


@pytest.mark.parametrize("value", ["", "G", "1.5G", "-1", 0, -4, "0M", True, 1.0, None, "16 apples", "1P"])
def test_refused(value: object) -> None:
    with pytest.raises(MachineError, match=r"bars\.1: .*128G"):
        parse_size(value, "bars.1")


def test_round_trip() -> None:
    generator = random.Random(7)
    for _round in range(500):
        size_bytes = generator.randrange(1, 1 << generator.randrange(1, 50))
        assert parse_size(format_size(size_bytes), "x") == size_bytes
    assert [format_size(1 << shift) for shift in (4, 10, 24, 37, 40)] == ["16", "1K", "16M", "128G", "1T"]
