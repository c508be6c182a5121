# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board, Function, PcieRoot
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hostplan import (
    PlanError,
    Size,
    fit,
    given_image,
    lay_out,
    machine_digest,
)
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.host_support import (
    device,
    machine,
    pair,
)

HERE = Size(cpus=2, memory_mb=16384)


@pytest.mark.parametrize(
    ("described", "cpus", "memory_mb", "expected"),
    [
        (machine(cpus=1, memory_mb=2048), None, None, Size(1, 2048)),
        (machine(cpus=224, memory_mb=2 << 20), None, None, Size(2, 12288)),
        (machine(cpus=224, memory_mb=2 << 20), 3, 8192, Size(3, 8192)),
        (machine(cpus=1, memory_mb=256), None, None, Size(1, 1024)),
    ],
)
def test_a_host_is_as_large_as_described_or_as_there_is_room(described, cpus, memory_mb, expected):
    assert fit(described, cpus, memory_mb, HERE) == expected


@pytest.mark.parametrize(
    ("cpus", "memory_mb", "message"),
    [
        (None, 32768, "memory_mb is 32768, but this computer has 16384 MiB"),
        (None, 100, "memory_mb is 100; at least 1024"),
        (0, None, "cpus is 0"),
    ],
)
def test_a_size_that_cannot_be_is_refused_with_numbers(cpus, memory_mb, message: str):
    with pytest.raises(PlanError, match=message):
        fit(pair(), cpus, memory_mb, HERE)


def test_a_board_without_bars_is_refused():
    bare = Board("bare", "gpu", "X", "Bare", (Function(0, "x", 0x10DE, 1, 0x030200),))
    described = machine(PcieRoot("pci0000:40", 0, (device("gpu0", "0000:41:00.0", bare),)))
    with pytest.raises(FleetError, match=r"boards\.bare\.bars"):
        lay_out(described)


def test_the_digest_follows_the_description():
    assert machine_digest(pair()) == machine_digest(pair())
    assert machine_digest(replace(pair(), numa_nodes=2)) != machine_digest(pair())


def test_a_changed_image_of_the_users_own_has_another_key(host_files: dict[str, str]):
    first = given_image(**host_files)
    assert given_image(**host_files) == first
    os.utime(host_files["kernel"], ns=(1, 1))
    assert given_image(**host_files).key != first.key
    with pytest.raises(PlanError, match=r"image.initrd is '/nowhere'"):
        given_image(host_files["disk"], host_files["kernel"], "/nowhere")
