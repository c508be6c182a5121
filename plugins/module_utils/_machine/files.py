# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the file of a machine description, YAML or JSON, and refuses keys that appear twice; private to the collection."""

from __future__ import annotations

import json
import os

from ansible_collections.gpulab.fleet.plugins.module_utils._common.yaml_keys import unique_keys
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import MachineError

SUFFIXES = (".yml", ".yaml", ".json")

_LIMIT_BYTES = 4 << 20


def is_file_name(text: str) -> bool:
    """Whether a string names a file rather than a preset."""
    return "/" in text or text.endswith(SUFFIXES)


def file_path(name: str, base_dir: str | None) -> str:
    """The absolute path of a file; a relative name starts at ``base_dir``."""
    return os.path.abspath(os.path.join(base_dir or os.getcwd(), os.path.expanduser(name)))


def read_description(name: str, base_dir: str | None) -> tuple[object, str]:
    """What the file holds, and its absolute path."""
    path = file_path(name, base_dir)
    try:
        with open(path, "rb") as stream:
            content = stream.read(_LIMIT_BYTES + 1)
    except OSError as error:
        raise MachineError(
            f"machine description {path}: {error.strerror}; give a readable YAML or JSON file", path=path
        ) from error
    if len(content) > _LIMIT_BYTES:
        raise MachineError(
            f"machine description {path}: larger than {_LIMIT_BYTES >> 20} MiB; is this the right file?", path=path
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MachineError(
            f"machine description {path}: not UTF-8 text ({error}); give a YAML or JSON file", path=path
        ) from error
    return (_parse_json if path.endswith(".json") else _parse_yaml)(text, path), path


def _parse_json(text: str, path: str) -> object:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in pairs:
            if key in result:
                raise MachineError(
                    f"machine description {path}: the key '{key}' appears twice in one mapping; keep one", path=path
                )
            result[key] = value
        return result

    try:
        document: object = json.loads(text, object_pairs_hook=unique)
    except ValueError as error:
        raise MachineError(f"machine description {path}: not JSON: {error}", path=path) from error
    return document


def _parse_yaml(text: str, path: str) -> object:
    try:
        import yaml
    except ImportError as error:
        raise MachineError(
            f"machine description {path}: this Python has no PyYAML; install python3-yaml, or write the description as JSON (.json)",
            path=path,
        ) from error

    def refusal(key: str, line: int) -> MachineError:
        return MachineError(
            f"machine description {path}, line {line}: the key '{key}' appears twice in one mapping; keep one",
            path=path,
        )

    try:
        document: object = yaml.load(text, Loader=unique_keys(yaml.SafeLoader, refusal))
    except yaml.YAMLError as error:
        raise MachineError(f"machine description {path}: not YAML: {error}", path=path) from error
    return document
