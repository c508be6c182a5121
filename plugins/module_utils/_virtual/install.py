# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies a program of ours with everything it imports from us into a folder that outlives the module. Private to the collection."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import shutil
from importlib.machinery import ModuleSpec
from typing import Iterator, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

COLLECTION = "ansible_collections.gpulab.fleet"


class InstallError(FleetError):
    """The program's source cannot be found."""


def source_closure(module: str) -> dict[str, str]:
    """The source of a module of the collection and of all modules of the collection that it imports, by module name.

    The sources are asked from the import system, as a module's payload on a target is a zip file and no folder.
    """
    sources: dict[str, str] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        if name in sources:
            continue
        source = _source(name)
        if source is None:
            raise InstallError(
                f"the source of {name} is not there; the installed collection is incomplete", module=name
            )
        sources[name] = source
        pending.extend(
            candidate
            for candidate in _imports(source, name)
            if candidate not in sources and _source(candidate) is not None
        )
    return sources


def install(module: str, folder: str) -> str:
    """Write the closure of `module` below `folder`/<digest> and return that path, which is to be on PYTHONPATH.

    Same sources, same folder: a process that still runs from it is not disturbed.
    """
    sources = source_closure(module)
    digest = _digest(sources)
    target = os.path.join(folder, digest)
    if os.path.isdir(target):
        return target
    temporary = f"{target}.{os.getpid()}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    for name, source in sources.items():
        _write(temporary, name, source)
    try:
        os.rename(temporary, target)
    except OSError:
        # Another run was faster with the same content.
        shutil.rmtree(temporary, ignore_errors=True)
        if not os.path.isdir(target):
            raise
    return target


def _write(folder: str, name: str, source: str) -> None:
    parts = name.split(".")
    package = folder
    for part in parts[:-1]:
        package = os.path.join(package, part)
        os.makedirs(package, mode=0o755, exist_ok=True)
        marker = os.path.join(package, "__init__.py")
        if not os.path.exists(marker):
            _write_file(marker, "")
    if _is_package(name):
        package = os.path.join(package, parts[-1])
        os.makedirs(package, exist_ok=True)
        _write_file(os.path.join(package, "__init__.py"), source)
    else:
        _write_file(os.path.join(package, parts[-1] + ".py"), source)


def _write_file(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def _digest(sources: Mapping[str, str]) -> str:
    total = hashlib.sha256()
    for name in sorted(sources):
        for text in (name, sources[name]):
            total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()[:16]


def _spec(name: str) -> Optional[ModuleSpec]:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


def _is_package(name: str) -> bool:
    spec = _spec(name)
    return spec is not None and spec.submodule_search_locations is not None


def _source(name: str) -> Optional[str]:
    spec = _spec(name)
    get_source = getattr(spec.loader, "get_source", None) if spec is not None else None
    if get_source is None:
        return None
    source = get_source(name)
    return source if isinstance(source, str) else None


def _imports(source: str, name: str) -> Iterator[str]:
    """Names of the collection that a source imports; `from package import x` may mean a module x."""
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (item for item in found if item.startswith(COLLECTION + "."))
