# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says what a finished build consists of, and cheaply whether that still holds. Private to the collection."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import read_json, write_json_atomic

MANIFEST = "manifest.json"
# Files up to this size are compared byte by byte (through their digest); of larger ones size and time of change tell enough.
MAX_DIGEST_BYTES = 64 << 20


def write_manifest(folder: str, outputs: Sequence[str], about: Mapping[str, object]) -> None:
    write_json_atomic(
        os.path.join(folder, MANIFEST),
        {"about": dict(about), "outputs": {name: _describe(os.path.join(folder, name)) for name in outputs}},
    )


def damage(folder: str) -> Optional[str]:
    """What is wrong with a build, in a few words; None when it is sound."""
    try:
        manifest = read_json(os.path.join(folder, MANIFEST))
    except (FleetError, OSError):
        return "its manifest is unreadable"
    outputs = manifest.get("outputs") if isinstance(manifest, dict) else None
    if not isinstance(outputs, dict) or not outputs:
        return "it has no manifest"
    for name, expected in outputs.items():
        try:
            if _describe(os.path.join(folder, name)) != expected:
                return f"{name} was changed"
        except OSError:
            return f"{name} is missing"
    return None


def _describe(path: str) -> dict[str, Any]:
    if os.path.isdir(path):
        return _describe_folder(path)
    status = os.stat(path)
    if status.st_size > MAX_DIGEST_BYTES:
        return {"size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
    with open(path, "rb") as stream:
        return {"size_bytes": status.st_size, "sha256": hashlib.sha256(stream.read()).hexdigest()}


def _describe_folder(path: str) -> dict[str, Any]:
    """A folder counts its files and their bytes: enough to see what a clean-up of old files has taken."""
    files = size_bytes = 0
    for base, _folders, names in os.walk(path):
        for name in names:
            files += 1
            size_bytes += os.lstat(os.path.join(base, name)).st_size
    return {"files": files, "size_bytes": size_bytes}
