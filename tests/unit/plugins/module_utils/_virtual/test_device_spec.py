# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""A specification that cannot be is refused with its path, its value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.spec import parse_spec
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.vfio_client import GPU, MIB


def bar(**changes: Any) -> dict[str, Any]:
    return {"bars": [{"index": 0, "size_bytes": MIB, **changes}], "msix": None, "registers": {}}


def msix(**changes: Any) -> dict[str, Any]:
    return {"msix": {**GPU["msix"], **changes}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vendor_id": 0xFFFF}, "spec.vendor_id is 65535"),
        ({"vendor_id": "0x10de"}, "spec.vendor_id is '0x10de'; it takes a whole number"),
        ({"device_id": True}, "spec.device_id is True"),
        ({"class_code": 1 << 24}, "spec.class_code is 16777216"),
        ({"colour": "red"}, "spec has unknown keys: colour"),
        ({"bars": 3}, "spec.bars is 3; it takes a list"),
        ({"bars": ["x"]}, r"spec.bars\[0\] is 'x'; it takes a mapping"),
        ({"multifunction": 1}, "spec.multifunction is 1; it takes true or false"),
        ({"interrupt_pin": 5}, "spec.interrupt_pin is 5"),
        ({"link_generation": 7}, "spec.link_generation is 7"),
        ({"link_width": 3}, "spec.link_width is 3; it takes one of 1, 2, 4"),
        ({"msi_vectors": 3}, "spec.msi_vectors is 3; it takes one of"),
        ({"serial_number": -1}, "spec.serial_number is -1"),
        ({"max_backing_bytes": 1 << 40}, "spec.max_backing_bytes"),
        (bar(size_bytes=3 * MIB), r"spec.bars\[0\].size_bytes is 3145728; .* power of two"),
        (bar(size_bytes=1 << 32, is_64bit=False), r"spec.bars\[0\].size_bytes is 4294967296"),
        (bar(size_bytes=512, is_io=True), r"spec.bars\[0\].size_bytes is 512; .* from 4 to 256"),
        (bar(index=5), r"spec.bars\[0\].index is 5; a 64-bit BAR takes two registers"),
        (bar(index=6), r"spec.bars\[0\].index is 6"),
        (bar(resizable_bytes=[3]), r"spec.bars\[0\].resizable_bytes\[0\] is 3"),
        (bar(size_bytes=4096, resizable_bytes=[MIB]), "only a memory BAR of 1 MiB to 128 TiB can be resizable"),
        (
            {**bar(), "bars": [{"index": 0, "size_bytes": MIB}, {"index": 1, "size_bytes": MIB}]},
            r"spec.bars\[1\] takes register 1, which spec.bars\[0\] has",
        ),
        (msix(vectors=0), "spec.msix.vectors is 0"),
        (msix(table_bar=2), "the table of 512 bytes at 0x100000 does not fit in memory BAR 2"),
        (msix(table_offset=16 * MIB), "does not fit in memory BAR 0"),
        (msix(pba_offset=4), "spec.msix.pba_offset is 0x4; it takes a multiple of 8"),
        (msix(pba_offset=0x100008), "overlap in BAR 0"),
        ({"registers": []}, "spec.registers is .*; it takes a mapping"),
        ({"registers": {"2": 0}}, "spec.registers has '2'; it takes offsets that are multiples of 4"),
        ({"registers": {"0x1000000": 0}}, "within BAR 0"),
        ({"registers": {"zero": 0}}, "spec.registers has 'zero'"),
        ({"registers": {"0": 1 << 32}}, r"spec.registers\[0\] is 4294967296; it takes a 32-bit number"),
        ({"behaviour": []}, "spec.behaviour is .*config_ff_after_reset, stall_config_reads_s"),
        (
            {"behaviour": {"explode": True}},
            "spec.behaviour names 'explode', .* known are: config_ff_after_reset, stall_config_reads_s",
        ),
        (
            {"behaviour": {"config_ff_after_reset": 1}},
            "spec.behaviour.config_ff_after_reset is 1; it takes true or false",
        ),
        (
            {"behaviour": {"stall_config_reads_s": -1}},
            "spec.behaviour.stall_config_reads_s is -1; it takes a number of seconds",
        ),
        ({"behaviour": {"stall_config_reads_s": float("nan")}}, "spec.behaviour.stall_config_reads_s is nan"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        parse_spec({**GPU, **changes})


@pytest.mark.parametrize("raw", [None, [], "x", 1])
def test_a_specification_is_a_mapping(raw: object) -> None:
    with pytest.raises(FleetError, match=r"spec is .*; it takes a mapping"):
        parse_spec(raw)


def test_what_is_needed() -> None:
    for name in ("vendor_id", "device_id", "class_code"):
        with pytest.raises(FleetError, match=f"spec.{name} is None"):
            parse_spec({key: value for key, value in GPU.items() if key != name})


def test_the_least_specification() -> None:
    spec = parse_spec({"vendor_id": 1, "device_id": 2, "class_code": 3})
    assert (spec.bars, spec.msix, spec.interrupt_pin, spec.behaviour.config_ff_after_reset) == ((), None, 1, False)


def test_bars_are_in_order() -> None:
    spec = parse_spec({**GPU, "bars": list(reversed(GPU["bars"]))})
    assert [item.index for item in spec.bars] == [0, 1, 3]
