# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI addresses and the names of PCIe roots, in every spelling that tools print; private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import refuse

_ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f]{1,2})", re.IGNORECASE)
_ROOT = re.compile(r"(?:pci)?([0-9a-f]{4,8}):([0-9a-f]{2})", re.IGNORECASE)
_ADDRESS_REMEDY = 'write domain:bus:device.function in hexadecimal and in quotes, such as "0000:41:00.0"'
_ROOT_REMEDY = 'write "pci", domain, colon and bus as sysfs names the root, such as "pci0000:40"'
_MAX_DEVICE_NUMBER = 0x1F
_MAX_FUNCTION_NUMBER = 7
# One base-60 number has at most these parts in an address: domain, bus and device.
_SEXAGESIMAL_LIMIT = 60**3


@dataclass(frozen=True)
class Location:
    """The parts of a PCI address."""

    domain: int
    bus: int
    device: int
    function: int

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function}"


def locate(value: object, path: str) -> Location:
    """The parts of the address that ``value`` spells; ``path`` names it in an error."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise refuse(path, value, "is a number" + _explain_number(value), _number_remedy(value))
    if not isinstance(value, str):
        raise refuse(path, value, "is not a PCI address", _ADDRESS_REMEDY)
    match = _ADDRESS.fullmatch(value.strip())
    if match is None:
        raise refuse(path, value, "is not a PCI address", _ADDRESS_REMEDY)
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    if device > _MAX_DEVICE_NUMBER:
        raise refuse(path, value, f"has the device number {device:02x}", "a bus has devices 00 to 1f")
    if function > _MAX_FUNCTION_NUMBER:
        raise refuse(path, value, f"has the function number {function:x}", "a device has functions 0 to 7")
    return Location(domain, bus, device, function)


def parse_address(value: object, path: str) -> str:
    """The address as Linux writes it: lower case, a domain of at least four digits (VMD's have five)."""
    return str(locate(value, path))


def parse_root(value: object, path: str) -> tuple[int, int]:
    """Domain and bus of a root's name."""
    if not isinstance(value, str):
        raise refuse(path, value, "is not the name of a PCIe root", _ROOT_REMEDY)
    match = _ROOT.fullmatch(value.strip())
    if match is None:
        raise refuse(path, value, "is not the name of a PCIe root", _ROOT_REMEDY)
    return int(match.group(1), 16), int(match.group(2), 16)


def format_root(domain: int, bus: int) -> str:
    """A root's name as sysfs has it."""
    return f"pci{domain:04x}:{bus:02x}"


def unquoted_address(value: float) -> str | None:
    """The address that YAML 1.1 read as this base-60 number; None when it cannot have been one."""
    if value < 0 or value >= _SEXAGESIMAL_LIMIT:
        return None
    whole = int(value)
    function = round((value - whole) * 10)
    if function > _MAX_FUNCTION_NUMBER or abs(value - whole - function / 10) > 1e-6:
        return None
    return f"{whole // 3600:04d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{function}"


def _explain_number(value: float) -> str:
    text = unquoted_address(value)
    return f": YAML 1.1 reads an address without quotes, such as {text}, in base 60" if text else ", not a PCI address"


def _number_remedy(value: float) -> str:
    text = unquoted_address(value)
    return f'if that is the address, write it in quotes: "{text}"' if text else _ADDRESS_REMEDY
