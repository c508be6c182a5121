# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The least that a slice must be before anything is done with it; what the API server requires is in limits. Private to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import show
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import V1BETA1


def check_shape(document: Mapping[str, Any], where: str) -> None:
    """Refuse a slice that has something else where a mapping, a list or a name belongs."""
    _mapping(document.get("metadata") or {}, f"{where}.metadata")
    spec = _mapping(document.get("spec"), f"{where}.spec")
    pool = _mapping(spec.get("pool"), f"{where}.spec.pool")
    _text(spec.get("driver"), f"{where}.spec.driver")
    _text(pool.get("name"), f"{where}.spec.pool.name")
    for name in ("generation", "resourceSliceCount"):
        if name == "generation" and pool.get(name) is None:
            continue
        if isinstance(pool.get(name), bool) or not isinstance(pool.get(name), int):
            raise _refuse(pool.get(name), f"{where}.spec.pool.{name}", "is not a whole number")
    if spec.get("nodeName") is not None:
        _text(spec["nodeName"], f"{where}.spec.nodeName")
    for number, item in enumerate(_list(spec.get("sharedCounters"), f"{where}.spec.sharedCounters")):
        _mapping(item, f"{where}.spec.sharedCounters[{number}]")
    for number, item in enumerate(_list(spec.get("devices"), f"{where}.spec.devices")):
        at = f"{where}.spec.devices[{number}]"
        device = _mapping(item, at)
        _text(device.get("name"), f"{at}.name")
        if document.get("apiVersion") == V1BETA1:
            at += ".basic"
            device = _mapping(device.get("basic") or {}, at)
        for name in ("attributes", "capacity"):
            for key, value in _mapping(device.get(name) or {}, f"{at}.{name}").items():
                _mapping(value, f"{at}.{name}[{key}]")
        for name in ("consumesCounters", "taints"):
            for place, entry in enumerate(_list(device.get(name), f"{at}.{name}")):
                _mapping(entry, f"{at}.{name}[{place}]")


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _refuse(value, where, "is not a mapping")
    return value


def _list(value: object, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _refuse(value, where, "is not a list")
    return value


def _text(value: object, where: str) -> None:
    if not isinstance(value, str) or not value:
        raise _refuse(value, where, "is not text")


def _refuse(value: object, where: str, problem: str) -> SliceError:
    if value is None:
        return SliceError(f"{where} is missing; is the dump complete?")
    return SliceError(f"{where}: {show(value)} {problem}; is the dump complete?")
