# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses in every spelling, and what YAML makes of those without quotes."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import (
    format_root,
    locate,
    parse_address,
    parse_root,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import MachineError

SPELLINGS = [
    ("0000:41:00.0", "0000:41:00.0"),
    ("41:00.0", "0000:41:00.0"),
    ("1:00.0", "0000:01:00.0"),
    ("00000000:41:00.0", "0000:41:00.0"),
    ("0000000F:01:00.0", "000f:01:00.0"),
    ("0001:C8:1F.7", "0001:c8:1f.7"),
    ("10000:01:00.0", "10000:01:00.0"),
    ("  0000:41:00.0\n", "0000:41:00.0"),
]


@pytest.mark.parametrize(("spelling", "normal"), SPELLINGS)
def test_spellings(spelling: str, normal: str) -> None:
    assert parse_address(spelling, "x") == normal


# What PyYAML makes of the text without quotes.
SEXAGESIMAL = [
    (600.0, "0000:10:00.0"),
    (2460.0, "0000:41:00.0"),
    (600.1, "0000:10:00.1"),
    (3600.0, "0001:00:00.0"),
    (2460, "0000:41:00.0"),
    (31.0, "0000:00:31.0"),
]


@pytest.mark.parametrize(("number", "meant"), SEXAGESIMAL)
def test_numbers_are_explained_with_the_quoted_form(number: float, meant: str) -> None:
    with pytest.raises(MachineError) as caught:
        parse_address(number, "roots.pci0000:40.devices.gpu0.address")
    message = caught.value.message
    assert message.startswith("roots.pci0000:40.devices.gpu0.address: ")
    assert str(number) in message
    assert "YAML" in message
    assert f'"{meant}"' in message


def test_yaml_really_does_that() -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load("0000:10:00.0") == 600.0
    assert yaml.safe_load("41:00.0") == 2460.0


REFUSED = [
    ("0000:41:00", "is not a PCI address"),
    ("0000:41:00.8", "function number 8"),
    ("0000:41:00.a", "function number a"),
    ("0000:41:20.0", "device number 20"),
    ("pci0000:40", "is not a PCI address"),
    ("", "is not a PCI address"),
    (None, "is not a PCI address"),
    (True, "is not a PCI address"),
    (-1.0, "not a PCI address"),
    (10.0**9, "not a PCI address"),
    (600.25, "not a PCI address"),
    (["0000:41:00.0"], "is not a PCI address"),
]


@pytest.mark.parametrize(("value", "problem"), REFUSED)
def test_refused(value: object, problem: str) -> None:
    with pytest.raises(MachineError, match="here: ") as caught:
        parse_address(value, "here")
    assert problem in caught.value.message


def test_parts() -> None:
    location = locate("0008:06:1f.3", "x")
    assert (location.domain, location.bus, location.device, location.function) == (8, 6, 31, 3)
    assert str(location) == "0008:06:1f.3"


@pytest.mark.parametrize(("name", "place"), [("pci0000:40", (0, 0x40)), ("0008:06", (8, 6)), ("PCI0000:BB", (0, 0xBB))])
def test_roots(name: str, place: tuple[int, int]) -> None:
    assert parse_root(name, "x") == place
    assert parse_root(format_root(*place), "x") == place


@pytest.mark.parametrize("name", ["pci40", "pci0000:40:00", "40", 40, None, "pci0000:4"])
def test_root_refused(name: object) -> None:
    with pytest.raises(MachineError, match="pci0000:40"):
        parse_root(name, "roots.x")
