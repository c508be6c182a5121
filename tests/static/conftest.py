# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the static tests share: a runner of tools, the list of our files, a copy of the collection where ansible-test wants it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]
RunTool = Callable[..., str]


def our_files() -> list[Path]:
    """Tracked and new files, without what git ignores; symbolic links are left out."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        # No git here, as in an unpacked archive: everything but outputs.
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if "__pycache__" not in path.parts)
        names = [path for path in found if not {"output", "collections", ".git", "reports"} & set(path.parts)]
    else:
        names = [Path(os.fsdecode(name)) for name in listing.stdout.split(b"\0") if name]
    return sorted(name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink())


@pytest.fixture(scope="session", name="our_files")
def our_files_fixture() -> list[Path]:
    return our_files()


@pytest.fixture(scope="session")
def tool_cache() -> Path:
    """Where linters keep what makes a second run fast, outside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base if os.path.isabs(base) else Path.home() / ".cache") / "gpulab-fleet" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def run_tool(tool_cache: Path) -> RunTool:
    """Runs a program in the checkout and hands back its output; the test fails with that output when the program does."""

    def run(*argv: object, cwd: Path = ROOT, timeout_s: float = 240, **environment: str) -> str:
        words = [str(word) for word in argv]
        if shutil.which(words[0]) is None:
            pytest.skip(f"{words[0]} is not installed here; `make test` brings it")
        done = subprocess.run(
            words,
            cwd=cwd,
            env={
                **os.environ,
                "MYPY_CACHE_DIR": str(tool_cache / "mypy"),
                "RUFF_CACHE_DIR": str(tool_cache / "ruff"),
                "ANSIBLE_NOCOLOR": "1",
                "NO_COLOR": "1",
                "COLUMNS": "200",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}", pytrace=False)
        return done.stdout

    return run


@pytest.fixture(scope="session")
def collection_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy at <somewhere>/ansible_collections/gpulab/fleet, the only kind of place where ansible-test works."""
    target = tmp_path_factory.mktemp("copy") / "ansible_collections" / "gpulab" / "fleet"
    for name in our_files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    return target
