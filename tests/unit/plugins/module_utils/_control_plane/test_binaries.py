# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where programs come from. Scripts that stand for builds and downloads write small files; nothing is compiled here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.build import BuildError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import binaries
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.binaries import (
    ORDER,
    BinariesError,
    BinariesRequest,
    gather,
    missing,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.releases import (
    KUBERNETES_PROGRAMS,
    KWOK_PROGRAMS,
    wanted,
)

BUILD = """
set -eu
mkdir "$1/bin"
for program in {programs}; do echo "{kind} $GPULAB_GO_VERSION" >"$1/bin/$program"; done
"""
NO_DOWNLOAD = 'import sys\nprint("no way out", file=sys.stderr)\nsys.exit(1)\n'
DOWNLOAD = """
import json, os, sys
os.mkdir(os.path.join(sys.argv[1], "bin"))
for entry in json.loads(os.environ["GPULAB_RELEASE"])["files"]:
    open(os.path.join(sys.argv[1], "bin", entry["name"]), "w").write(entry["url"])
"""


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a shell's tools and nothing of Kubernetes or Go."""
    folder = tmp_path / "path"
    folder.mkdir()
    for tool in ("bash", "mkdir"):
        os.symlink(f"/bin/{tool}", folder / tool)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def request_(tmp_path: Path, bare: Path) -> BinariesRequest:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "build-kubernetes.sh").write_text(
        BUILD.format(kind="kubernetes", programs=" ".join(KUBERNETES_PROGRAMS))
    )
    (sources / "build-kwok.sh").write_text(BUILD.format(kind="kwok", programs=" ".join(KWOK_PROGRAMS)))
    (sources / "download_release.py").write_text(NO_DOWNLOAD)
    return BinariesRequest(str(tmp_path / "cache"), wanted("1.37"), "0.8.0", str(sources))


def program(folder: Path, name: str, says: str = "") -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\necho '{says}'\n")
    path.chmod(0o755)


def install_go(folder: Path, version: str = "go1.26.8") -> None:
    program(folder, "go", version)


def install_all(folder: Path, kubernetes: str = "Kubernetes v1.37.5", kwok: str = "kwokctl version v0.8.0") -> None:
    for name in (*KUBERNETES_PROGRAMS, *KWOK_PROGRAMS):
        program(folder, name, kubernetes if name == "kube-apiserver" else kwok)


def with_(request: BinariesRequest, **changes: Any) -> BinariesRequest:
    return BinariesRequest(**{**request.__dict__, **changes})


def test_modules_are_built_once_when_nothing_else_is_there(request_: BinariesRequest, bare: Path, progress, said):
    install_go(bare)
    assert missing(request_) == ["kubernetes", "kwok"]
    first = gather(request_, progress)
    assert first.kubernetes.source == first.kwok.source == "modules"
    assert first.built == ("kubernetes", "kwok") and set(first.seconds) == {"kubernetes", "kwok"}
    assert Path(first.path("kubectl")).read_text() == "kubernetes go1.26.8\n"
    assert "no download" in said() and "no way out" in said()
    assert missing(request_) == []
    again = gather(request_, progress)
    assert again.built == () and again.path("kwok") == first.path("kwok")


def test_another_go_is_another_build(request_: BinariesRequest, bare: Path, progress):
    install_go(bare)
    first = gather(request_, progress)
    install_go(bare, "go1.27.0")
    assert missing(request_) == ["kubernetes", "kwok"]
    assert gather(request_, progress).path("etcd") != first.path("etcd")


def test_a_download_comes_before_a_build(request_: BinariesRequest, bare: Path, progress):
    install_go(bare)
    Path(request_.sources, "download_release.py").write_text(DOWNLOAD)
    found = gather(request_, progress)
    assert found.kubernetes.source == found.kwok.source == "download"
    assert Path(found.path("kubectl")).read_text().startswith("https://dl.k8s.io/v1.37.2/")
    # What was downloaded is in the cache as well as what was built.
    assert gather(with_(request_, ways=("cache",)), progress).built == ()


def test_programs_on_the_path_come_before_a_download(request_: BinariesRequest, bare: Path, progress):
    Path(request_.sources, "download_release.py").write_text(DOWNLOAD)
    install_all(bare)
    found = gather(request_, progress)
    assert (found.kubernetes.source, found.kubernetes.version) == ("path", "1.37.5")
    assert found.path("kwokctl") == str(bare / "kwokctl")
    # A patch release that was named is meant.
    assert gather(with_(request_, release=wanted("1.37.2")), progress).kubernetes.source == "download"


def test_what_is_in_the_cache_comes_before_the_path(request_: BinariesRequest, bare: Path, progress):
    install_go(bare)
    gather(request_, progress)
    install_all(bare)
    assert gather(request_, progress).kubernetes.source == "modules"
    assert gather(with_(request_, ways=("path",)), progress).kubernetes.source == "path"


def test_no_way_is_said_with_all_that_was_tried(request_: BinariesRequest, progress):
    with pytest.raises(BinariesError) as caught:
        gather(request_, progress)
    for text in (
        "Kubernetes 1.37.2 is not to be had",
        "cache: nothing finished",
        "PATH: no kube-apiserver",
        "download: ",
        "no way out",
        "go is not on PATH",
        "install Go",
    ):
        assert text in caught.value.message, text


def test_another_version_on_the_path_is_named(request_: BinariesRequest, bare: Path, progress):
    install_all(bare, kubernetes="Kubernetes v1.30.1")
    with pytest.raises(BinariesError, match=r"PATH: version 1\.30\.1"):
        gather(with_(request_, ways=("path",)), progress)


def test_a_way_that_was_chosen_fails_by_its_own_error(request_: BinariesRequest, progress):
    with pytest.raises(BuildError, match="no way out"):
        gather(with_(request_, ways=("download",)), progress)


def test_a_folder_without_the_scripts_is_named(request_: BinariesRequest, tmp_path: Path, progress):
    with pytest.raises(BinariesError, match=r"has no download_release\.py"):
        gather(with_(request_, sources=str(tmp_path)), progress)
    with pytest.raises(BinariesError, match="sources is not set"):
        gather(with_(request_, sources=""), progress)


def test_the_order_is_the_documented_one():
    assert ORDER == ("cache", "path", "download", "modules")
    assert binaries.OPTIONAL == ("etcdctl",)
