# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads slices from text: one or many documents of YAML, JSON, and the lists that kubectl prints; private to the collection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.gpulab.fleet.plugins.module_utils._common.yaml_keys import unique_keys
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import show
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.shape import check_shape
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import API_VERSIONS, GROUP

_KIND = "ResourceSlice"
_REMEDY = f"give ResourceSlices of {GROUP}, such as kubectl get resourceslices -o yaml prints them"
# Lists within lists are not what kubectl prints.
_DEPTH = 4

# What YAML 1.1 makes of plain words is more than anybody means.
_OWN_MEANING = tuple(f"tag:yaml.org,2002:{name}" for name in ("timestamp", "float", "int", "bool"))
_BOOLEAN = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
# Numbers as JSON has them; whatever else looks like one, such as 0000:10:00.0, is text.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")


def read_slices(text: str, source: str) -> list[dict[str, Any]]:
    """The slices of a text, in its order; objects of other kinds are left out. ``source`` names the text in errors."""
    documents = _parse_json(text, source) if text.lstrip()[:1] in ("{", "[") else _parse_yaml(text, source)
    slices: list[dict[str, Any]] = []
    others: set[str] = set()
    for number, document in enumerate(documents):
        if document is not None:
            _collect(document, f"{source}: document {number + 1}", slices, others, _DEPTH)
    if not slices:
        found = f"there are only {', '.join(sorted(others))}" if others else "it holds no object"
        raise SliceError(f"{source}: no ResourceSlice; {found}; {_REMEDY}", source=source)
    return slices


def _collect(document: object, where: str, slices: list[dict[str, Any]], others: set[str], depth: int) -> None:
    if isinstance(document, list) and depth:
        for number, item in enumerate(document):
            _collect(item, f"{where}[{number}]", slices, others, depth - 1)
        return
    if not isinstance(document, Mapping):
        raise SliceError(f"{where}: {show(document)} is no object of Kubernetes; {_REMEDY}")
    kind, api_version = document.get("kind"), document.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(api_version, str):
        missing = "kind" if not isinstance(kind, str) else "apiVersion"
        raise SliceError(f"{where}: {missing} is missing; {_REMEDY}")
    if isinstance(document.get("items"), list) and kind.endswith("List") and depth:
        for number, item in enumerate(document["items"]):
            # The items of a typed list may go without the kind that the list has already told.
            typed = {"apiVersion": api_version, "kind": kind[: -len("List")]} if kind != "List" else {}
            whole = {**typed, **item} if isinstance(item, Mapping) else item
            _collect(whole, f"{where}.items[{number}]", slices, others, depth - 1)
    elif kind != _KIND:
        others.add(kind)
    elif api_version not in API_VERSIONS:
        raise SliceError(f"{where}: apiVersion {api_version!r} is not known; allowed: {', '.join(API_VERSIONS)}")
    else:
        check_shape(document, where)
        slices.append(dict(document))


def _parse_json(text: str, source: str) -> list[object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) != len(pairs):
            names = [name for name, _value in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise SliceError(f"{source}: the key {twice!r} appears twice in one mapping; keep one", source=source)
        return result

    try:
        return [json.loads(text, object_pairs_hook=unique)]
    except ValueError as error:
        raise SliceError(f"{source}: not JSON: {error}; is it complete?", source=source) from error
    except RecursionError as error:
        raise SliceError(f"{source}: nested too deeply for slices", source=source) from error


def _parse_yaml(text: str, source: str) -> list[object]:
    try:
        import yaml
    except ImportError as error:
        raise SliceError(
            f"{source}: this Python has no PyYAML; install python3-yaml, or give JSON (kubectl get resourceslices -o json)",
            source=source,
        ) from error

    def refusal(key: str, line: int) -> SliceError:
        return SliceError(
            f"{source}, line {line}: the key {key!r} appears twice in one mapping; keep one", source=source
        )

    class Loader(unique_keys(getattr(yaml, "CSafeLoader", yaml.SafeLoader), refusal)):  # type: ignore[misc,unused-ignore]
        """YAML that means what JSON would: no numbers in base 60, no times, no yes for true, and no key twice."""

        yaml_implicit_resolvers: ClassVar[dict[str, list[Any]]] = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag not in _OWN_MEANING]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOLEAN, list("tTfF"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    try:
        return list(yaml.load_all(text, Loader=Loader))
    except yaml.YAMLError as error:
        raise SliceError(f"{source}: not YAML: {error}; is it complete?", source=source) from error
    except (ValueError, RecursionError, TypeError) as error:
        raise SliceError(f"{source}: not YAML that describes slices: {error}", source=source) from error
