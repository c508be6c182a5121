# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of a host's GPUs are meant, from the facts of gpu_host_info. Private to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import parse_address

# Displays that belong to the machine itself: management controllers (ASPEED, Matrox) and hypervisors (QEMU, Cirrus, VMware).
_MACHINE_DISPLAYS = ("1a03", "102b", "1234", "1b36", "1013", "15ad")
_FORMS = 'write an address such as "0000:41:00.0", ids such as "10de:2330", or all'


def choose(gpus: Sequence[Mapping[str, Any]], selectors: Sequence[Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """The GPUs in the order of the selectors, each once; and a sentence for each selector that means none."""
    chosen: dict[str, dict[str, Any]] = {}
    problems = []
    for position, selector in enumerate(selectors):
        found, problem = _find(gpus, selector, f"gpus[{position}]")
        if problem:
            problems.append(f"{problem}. {_present(gpus)}")
        chosen.update({str(gpu["address"]): dict(gpu) for gpu in found if gpu["address"] not in chosen})
    return list(chosen.values()), problems


def label(gpu: Mapping[str, Any]) -> str:
    """How the table names a GPU behind its address."""
    name = gpu.get("name") or gpu.get("product") or ""
    return f"{_ids(gpu)} {name}".strip()


def _find(gpus: Sequence[Mapping[str, Any]], selector: Any, name: str) -> tuple[list[Mapping[str, Any]], str]:
    text = selector.strip().lower() if isinstance(selector, str) else selector
    if text == "all":
        found = [gpu for gpu in gpus if str(gpu["vendor_id"]).lower().removeprefix("0x") not in _MACHINE_DISPLAYS]
        return found, "" if found else "there is no GPU to test: no PCI function of class 0300, 0302, 0380 or 1200"
    if isinstance(text, str) and text.count(":") == 1 and "." not in text:
        found = [gpu for gpu in gpus if _ids(gpu) == text]
        return found, "" if found else f"{name} is {text!r}, but no GPU of this host has these ids; {_FORMS}"
    try:
        address = parse_address(text, name)
    except FleetError as error:
        return [], f"{error.message}, ids, or all"
    found = [gpu for gpu in gpus if gpu["address"] == address]
    return found, "" if found else f"{name} is {address!r}, but this host has no GPU there; {_FORMS}"


def _ids(gpu: Mapping[str, Any]) -> str:
    return f"{gpu['vendor_id']}:{gpu['device_id']}".lower().replace("0x", "")


def _present(gpus: Sequence[Mapping[str, Any]]) -> str:
    return "GPUs of this host: " + (", ".join(f"{gpu['address']} ({_ids(gpu)})" for gpu in gpus) or "none")
