# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""Finds the programs of a control plane: in the cache, on PATH, as published releases, or built from Go modules. Private to the collection."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common import build
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.releases import (
    KUBERNETES_PROGRAMS,
    KWOK_PROGRAMS,
    Download,
    Wanted,
    architecture,
    kubernetes_downloads,
    kwok_downloads,
)

CACHE, PATH, DOWNLOAD, MODULES = "cache", "path", "download", "modules"
ORDER = (CACHE, PATH, DOWNLOAD, MODULES)
VERSION_TIMEOUT_S = 20.0
# kwokctl uses it for snapshots only, so one who brings his own programs needs none.
OPTIONAL = ("etcdctl",)
_VERSION = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)")


class BinariesError(FleetError):
    """The programs of a control plane are not to be had; the message says what was tried."""


@dataclass(frozen=True)
class ProgramSet:
    """Programs that belong together, with where they came from."""

    kind: str
    version: str
    source: str
    paths: Mapping[str, str]
    fresh: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class Binaries:
    kubernetes: ProgramSet
    kwok: ProgramSet

    def path(self, name: str) -> str:
        found = self.kubernetes.paths.get(name) or self.kwok.paths.get(name)
        if found is None:
            raise BinariesError(f"{name} is not among the programs of {self.kubernetes.source}")
        return found

    @property
    def built(self) -> tuple[str, ...]:
        return tuple(one.kind for one in (self.kubernetes, self.kwok) if one.fresh)

    @property
    def seconds(self) -> dict[str, float]:
        return {one.kind: round(one.seconds, 1) for one in (self.kubernetes, self.kwok) if one.fresh}


@dataclass(frozen=True)
class BinariesRequest:
    """Which release is wanted, and the ways to it that are allowed, in order."""

    cache_root: str
    release: Wanted
    kwok_version: str
    sources: str = ""
    ways: Sequence[str] = ORDER
    download_urls: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 7200.0


@dataclass(frozen=True)
class _Kind:
    """One of the two sets of programs."""

    name: str
    title: str
    version: str
    programs: Sequence[str]
    script: str
    parameter: str
    downloads: Sequence[Download]


def missing(request: BinariesRequest) -> list[str]:
    """The sets that would have to be built or fetched; does neither."""
    return [kind.name for kind in _kinds(request) if _at_hand(kind, request, []) is None]


def gather(request: BinariesRequest, progress: Progress) -> Binaries:
    """Both sets, one after the other: the compiler uses all processors anyway."""
    deadline = Deadline(request.timeout_s)
    kubernetes, kwok = (_gather_one(kind, request, progress, deadline) for kind in _kinds(request))
    return Binaries(kubernetes, kwok)


def _gather_one(kind: _Kind, request: BinariesRequest, progress: Progress, deadline: Deadline) -> ProgramSet:
    tried: list[str] = []
    found = _at_hand(kind, request, tried)
    if found is not None:
        return found
    for way in request.ways:
        if way not in (DOWNLOAD, MODULES):
            continue
        recipe = _recipe(kind, way, request, tried)
        if recipe is None:
            continue
        try:
            made = build.ensure(recipe, request.cache_root, progress, max(deadline.remaining_s(), 1.0))
        except build.BuildError as error:
            if len(request.ways) == 1 or deadline.expired():
                raise
            tried.append(f"{way}: {error.message}")
            progress.say(f"{kind.title}: no {way}: {error.message[:300]}")
            continue
        return _from_build(kind, way, made)
    raise BinariesError(
        f"{kind.title} is not to be had. " + ". ".join(tried) + ". Put the programs on PATH, install Go, "
        "or give kubeconfig for a cluster of your own",
        tried=tried,
    )


def _at_hand(kind: _Kind, request: BinariesRequest, tried: list[str]) -> Optional[ProgramSet]:
    """What is there already, in the cache or on PATH. A build by any way that is allowed is as good as another."""
    makers = [way for way in request.ways if way in (DOWNLOAD, MODULES)] or [DOWNLOAD, MODULES]
    for way in request.ways:
        if way == PATH:
            found = _on_path(kind, request, tried)
            if found is not None:
                return found
            continue
        for maker in makers if way == CACHE else [way]:
            recipe = _recipe(kind, maker, request, [])
            made = None if recipe is None else build.find(recipe, request.cache_root)
            if made is not None:
                return _from_build(kind, maker, made)
        if way == CACHE:
            tried.append(f"cache: nothing finished and undamaged in {os.path.join(request.cache_root, kind.name)}")
    return None


def _from_build(kind: _Kind, way: str, made: build.Built) -> ProgramSet:
    paths = {program: made.output(f"bin/{program}") for program in kind.programs}
    return ProgramSet(kind.name, kind.version, way, paths, made.fresh, made.seconds)


def _kinds(request: BinariesRequest) -> tuple[_Kind, _Kind]:
    arch = architecture(platform.machine()) if DOWNLOAD in request.ways or CACHE in request.ways else ""
    release, urls = request.release, request.download_urls
    return (
        _Kind(
            "kubernetes",
            f"Kubernetes {release.version}",
            release.version,
            KUBERNETES_PROGRAMS,
            "build-kubernetes.sh",
            "KUBERNETES_VERSION",
            kubernetes_downloads(release, arch, urls) if arch else (),
        ),
        _Kind(
            "kwok",
            f"KWOK {request.kwok_version}",
            request.kwok_version,
            KWOK_PROGRAMS,
            "build-kwok.sh",
            "KWOK_VERSION",
            kwok_downloads(request.kwok_version, arch, urls) if arch else (),
        ),
    )


def _recipe(kind: _Kind, way: str, request: BinariesRequest, tried: list[str]) -> Optional[build.Recipe]:
    """How a set is made by one way; None, with the reason in `tried`, when it cannot be."""
    outputs = tuple(f"bin/{program}" for program in kind.programs)
    if not request.sources:
        raise BinariesError(
            f"sources is not set, but {kind.title} may have to be made by its scripts; use the role gpulab.fleet.control_plane, "
            "which brings them, or set source to path"
        )
    if way == DOWNLOAD:
        script = _script(request.sources, "download_release.py")
        files = json.dumps({"what": kind.title, "files": [one.to_dict() for one in kind.downloads]}, sort_keys=True)
        return build.Recipe(kind.name, script, outputs, (("GPULAB_RELEASE", files),))
    go = go_version()
    if go is None:
        tried.append("modules: go is not on PATH")
        return None
    script = _script(request.sources, kind.script)
    # The compiler is part of what the programs are.
    return build.Recipe(kind.name, script, outputs, ((kind.parameter, kind.version), ("GPULAB_GO_VERSION", go)))


def _script(sources: str, name: str) -> str:
    path = os.path.join(os.path.abspath(sources), name)
    if not os.path.isfile(path):
        raise BinariesError(
            f"sources is {sources!r}, which has no {name}; the role control_plane brings these files", sources=sources
        )
    return path


def _on_path(kind: _Kind, request: BinariesRequest, tried: list[str]) -> Optional[ProgramSet]:
    paths = {program: shutil.which(program) for program in kind.programs}
    absent = [program for program, path in paths.items() if path is None and program not in OPTIONAL]
    if absent:
        tried.append(f"PATH: no {', '.join(absent)}")
        return None
    found = {program: os.path.realpath(path) for program, path in paths.items() if path is not None}
    version = version_of(found["kube-apiserver" if kind.name == "kubernetes" else "kwokctl"])
    wanted = request.release.accepts(version) if kind.name == "kubernetes" else version == kind.version
    if not wanted:
        tried.append(f"PATH: version {version or 'unknown'}")
        return None
    return ProgramSet(kind.name, version, PATH, found)


def go_version() -> Optional[str]:
    """The Go that would be used, such as go1.26.8; None without one."""
    if shutil.which("go") is None:
        return None
    return _answer(["go", "env", "GOVERSION"]).strip() or None


def version_of(program: str) -> str:
    match = _VERSION.search(_answer([program, "--version"]))
    return match[1] if match else ""


def _answer(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""
