# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns what a user writes for `gpus` into the functions that it means. Private to the collection."""

from __future__ import annotations

import re
from typing import Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import parse_address
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import (
    PciFunction,
    is_gpu,
    is_machine_display,
    is_nvswitch,
)

ALL = "all"
_IDS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})", re.IGNORECASE)
_FORMS = 'write an address such as "0000:41:00.0", ids such as "10de:2330", or "all"'


class SelectorError(FleetError):
    """A selector that is malformed or that nothing on this host answers to."""


def select_gpus(
    functions: Sequence[PciFunction], selectors: Sequence[object], option: str = "gpus"
) -> list[PciFunction]:
    """The functions that the selectors mean, each once, in the order of the selectors.

    `all` means every GPU except the displays of the machine itself, and nothing is no error then. An address may also name an NVSwitch.
    """
    chosen: dict[str, PciFunction] = {}
    for position, selector in enumerate(selectors):
        for function in _select(functions, selector, f"{option}[{position}]"):
            chosen.setdefault(function.address, function)
    return list(chosen.values())


def default_gpus(functions: Sequence[PciFunction]) -> list[PciFunction]:
    """What `all` means: GPUs and accelerators, without management controllers' and hypervisors' displays."""
    return [function for function in functions if is_gpu(function) and not is_machine_display(function)]


def _select(functions: Sequence[PciFunction], selector: object, name: str) -> list[PciFunction]:
    text = selector.strip() if isinstance(selector, str) else selector
    if isinstance(text, str) and text.lower() == ALL:
        return default_gpus(functions)
    ids = _IDS.fullmatch(text) if isinstance(text, str) else None
    if ids is not None:
        return _by_ids(functions, int(ids.group(1), 16), int(ids.group(2), 16), name)
    return [_by_address(functions, text, name)]


def _by_ids(functions: Sequence[PciFunction], vendor_id: int, device_id: int, name: str) -> list[PciFunction]:
    found = [
        function
        for function in functions
        if (function.vendor_id, function.device_id) == (vendor_id, device_id) and _can_be_chosen(function)
    ]
    if not found:
        raise SelectorError(
            f"{name} is {vendor_id:04x}:{device_id:04x}, but no GPU of this host has these ids. {_present(functions)}",
            option=name,
            value=f"{vendor_id:04x}:{device_id:04x}",
        )
    return found


def _by_address(functions: Sequence[PciFunction], value: object, name: str) -> PciFunction:
    try:
        address = parse_address(value, name)
    except FleetError as error:
        raise SelectorError(
            f'{error.message}, ids such as "10de:2330", or "all". {_present(functions)}', option=name, value=value
        ) from error
    for function in functions:
        if function.address == address:
            if _can_be_chosen(function):
                return function
            raise SelectorError(
                f"{name} is {address}, which is no GPU but {function.ids} of class {function.subclass:04x}; {_FORMS}. {_present(functions)}",
                option=name,
                value=value,
            )
    raise SelectorError(
        f"{name} is {address}, but this host has no PCI function there; {_FORMS}. {_present(functions)}",
        option=name,
        value=value,
    )


def _can_be_chosen(function: PciFunction) -> bool:
    return is_gpu(function) or is_nvswitch(function)


def _present(functions: Sequence[PciFunction]) -> str:
    gpus = [f"{function.address} ({function.ids})" for function in functions if _can_be_chosen(function)]
    return "GPUs of this host: " + ", ".join(gpus) if gpus else "This host has no GPU"
