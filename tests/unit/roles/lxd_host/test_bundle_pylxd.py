# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages that the controller brings to a host: fetched, packed, kept whole, installed without pip."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

FILES = Path(__file__).resolve().parents[4] / "roles" / "lxd_host" / "files"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bundle_pylxd", FILES / "bundle_pylxd.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in files.items():
            archive.writestr(place, text)
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.parametrize(
    ("machine", "libc", "first", "last", "count"),
    [
        ("x86_64", "glibc-2.41", "manylinux_2_41_x86_64", "linux_x86_64", 27),
        ("x86_64", "glibc-2.17", "manylinux_2_17_x86_64", "linux_x86_64", 3),
        ("aarch64", "glibc-2.36", "manylinux_2_36_aarch64", "linux_aarch64", 22),
        ("x86_64", "-", "musllinux_1_2_x86_64", "linux_x86_64", 3),
    ],
)
def test_wheel_tags_of_a_host(script: ModuleType, machine: str, libc: str, first: str, last: str, count: int) -> None:
    tags = script.platforms(machine, libc)
    assert (tags[0], tags[-1], len(tags)) == (first, last, count)
    assert (f"manylinux2014_{machine}" in tags) is libc.startswith("glibc")


def test_the_same_wheels_give_the_same_bytes_in_their_places(script: ModuleType, tmp_path: Path) -> None:
    wheels = [
        wheel(
            tmp_path,
            "one",
            {
                "one/__init__.py": "A = 1\n",
                "one-1.0.data/purelib/extra.py": "B = 2\n",
                "one-1.0.data/scripts/run": "#!x\n",
            },
        ),
        wheel(tmp_path, "two", {"two.py": "C = 3\n", "two-1.0.data/platlib/deep/three.py": "D = 4\n"}),
    ]
    packed = script.pack(wheels)
    assert packed == script.pack(wheels[::-1])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = archive.getnames()
    assert {"one/__init__.py", "extra.py", "two.py", "deep/three.py", "one-1.0.dist-info/METADATA"} <= set(names)
    assert not [name for name in names if "run" in name]


@pytest.mark.parametrize("place", ["../outside.py", "/etc/passwd", "x-1.0.data/purelib/../../outside.py"])
def test_a_wheel_that_leaves_its_folder_is_refused(script: ModuleType, tmp_path: Path, place: str) -> None:
    with pytest.raises(SystemExit, match="leaves its folder"):
        script.pack([wheel(tmp_path, "evil", {place: "x"})])


def test_a_damaged_archive_does_not_count(script: ModuleType, tmp_path: Path) -> None:
    bundle = tmp_path / "3.11-key.tar.gz"
    assert not script.whole(bundle)
    script.write(bundle, b"content")
    assert not script.whole(bundle)
    script.write(bundle.with_suffix(".sha256"), b"ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73")
    assert script.whole(bundle)
    bundle.write_bytes(b"conten")
    assert not script.whole(bundle)


def bundle(cache: Path, wheels: Path, pin: str) -> subprocess.CompletedProcess[str]:
    """The script as the role runs it, with a folder of wheels in place of a package index."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "XDG_CACHE_HOME": str(cache),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_RETRIES": "0",
    }
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    command = [
        sys.executable,
        str(FILES / "bundle_pylxd.py"),
        "--python",
        version,
        "--machine",
        "x86_64",
        "--libc",
        "glibc-2.36",
        "--pin",
        pin,
    ]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_fetch_install_and_import(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, "gpulabdemo", {"gpulabdemo/__init__.py": "ANSWER = 42\n"})
    first = json.loads(bundle(tmp_path / "cache", wheels, "gpulabdemo==1.0").stdout)
    assert first["made"]
    again = json.loads(bundle(tmp_path / "cache", wheels, "gpulabdemo==1.0").stdout)
    assert again == {**first, "made": False}
    Path(first["bundle"]).write_bytes(b"damaged")
    assert json.loads(bundle(tmp_path / "cache", wheels, "gpulabdemo==1.0").stdout) == first

    folder = tmp_path / "host" / "venv"
    for _round in range(2):
        copy = tmp_path / "copy.tar.gz"
        copy.write_bytes(Path(first["bundle"]).read_bytes())
        subprocess.run(
            [sys.executable, FILES / "install_pylxd.py", copy, folder, first["key"]], check=True, timeout=120
        )
        assert not copy.exists()
    assert (folder / "gpulab-key").read_text().strip() == first["key"]
    found = subprocess.run(
        [folder / "bin" / "python", "-c", "import gpulabdemo; print(gpulabdemo.ANSWER)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == "42\n"
    assert not (tmp_path / "host" / "venv.new").exists()


def test_an_archive_that_is_not_ours_is_refused_and_the_old_environment_stays(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tar.gz"
    with tarfile.open(bad, "w:gz") as archive:
        entry = tarfile.TarInfo("../../../outside")
        archive.addfile(entry, io.BytesIO())
    folder = tmp_path / "venv"
    folder.mkdir()
    (folder / "gpulab-key").write_text("old\n")
    ended = subprocess.run(
        [sys.executable, FILES / "install_pylxd.py", bad, folder, "new"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode != 0
    assert "does not belong there" in ended.stderr
    assert (folder / "gpulab-key").read_text() == "old\n"
    assert not (tmp_path / "outside").exists()


def test_packages_that_cannot_be_had_are_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: ModuleType
) -> None:
    monkeypatch.setattr(script.time, "sleep", lambda _seconds: None)
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_RETRIES": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as error:
        script.download("3.11", ["manylinux_2_36_x86_64"], ["nonesuch==1"], str(tmp_path / "d"))
    text = str(error.value)
    assert [
        word
        for word in ("nonesuch==1", "Python 3.11", "package index", "install pylxd on the host")
        if word not in text
    ] == []
