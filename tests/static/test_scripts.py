# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The front door's scripts, run for real on a copy whose requirements are one small package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A checkout's scripts with requirements that install in seconds; the checker itself needs packaging."""
    folder = tmp_path_factory.mktemp("small")
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / "requirements.txt").write_text("packaging==26.4\n")
    (folder / "requirements-dev.txt").write_text("-r requirements.txt\n")
    return folder


def start(folder: Path, *argv: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(folder / "scripts" / argv[0]), *argv[1:]],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHON": sys.executable, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(folder: Path, *argv: str, **environment: str) -> tuple[int, str, str]:
    with start(folder, *argv, **environment) as running:
        out, err = running.communicate(timeout=240)
    return running.returncode, out.strip(), err


def test_environment_is_made_once_shared_by_two_runs_and_healed(small):
    first, second = start(small, "python-env", "user"), start(small, "python-env", "user")
    answers = [running.communicate(timeout=240) for running in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], answers
    paths = {out.strip() for out, _err in answers}
    assert len(paths) == 1, "two runs at once use the same environment"
    assert sum("making the user environment" in err for _out, err in answers) == 1, "and only one of them makes it"

    env = Path(paths.pop())
    marker = (env / ".complete").stat().st_mtime_ns
    assert call(small, "python-env", "user") == (0, str(env), "")
    assert (env / ".complete").stat().st_mtime_ns == marker, "a whole environment is left alone"

    (victim,) = env.glob("lib/python3*/site-packages/packaging/version.py")
    victim.write_text("")
    status, out, err = call(small, "python-env", "user")
    assert (status, out) == (0, str(env))
    assert "damaged" in err
    assert victim.stat().st_size > 0

    (env / ".complete").unlink()
    assert "incomplete" in call(small, "python-env", "user")[2], "a build that was interrupted does not count"


def test_other_requirements_get_another_environment(small):
    before = {path.name for path in (small / "cache" / "gpulab-fleet" / "python").glob("user-*")}
    (small / "requirements.txt").write_text("packaging==26.4\n# another content\n")
    _status, out, _err = call(small, "python-env", "user")
    assert Path(out).name not in before


@pytest.mark.parametrize(
    ("argv", "environment", "words"),
    [
        (
            ("python-env", "user"),
            {"PYTHON": "/nonexistent/python"},
            ["PYTHON=/nonexistent/python", "3.11 to 3.14", "ensurepip"],
        ),
        (("python-env", "users"), {}, ["unknown argument users", "user|developer"]),
        (("python-env",), {}, ["user or developer"]),
    ],
)
def test_messages_name_the_value_and_the_remedy(argv, environment, words, small):
    status, out, err = call(small, *argv, **environment)
    assert status == 1
    assert out == ""
    assert all(word in err for word in words), err
    assert len(err.splitlines()) == 1


def test_missing_packages_are_named_in_one_line(small, tmp_path):
    """With a PATH that has the shell's own tools but nothing of what is needed."""
    for name in ("bash", "env", "date", "dirname", "sort", "id"):
        (tmp_path / name).symlink_to(shutil.which(name))
    hidden = (small / "scripts" / "system-packages").read_text().replace("PATH=$PATH:/usr/sbin:/sbin\n", "")
    script = small / "scripts" / "system-packages-hidden"
    script.write_text(hidden)
    script.chmod(0o755)
    status, _out, err = call(
        small, script.name, "--check", PATH=str(tmp_path), HOME=str(tmp_path), PYENV_ROOT=str(tmp_path)
    )
    assert status == 1
    assert len(err.splitlines()) == 1
    assert "debootstrap" in err
    assert "openssh-client" in err


def test_retries_pause_and_give_up(small):
    script = f". {small}/scripts/common.sh; sleep() {{ echo nap $1; }}; n=0; t() {{ n=$((n + 1)); [ $n -ge $1 ]; }}; "
    enough = subprocess.run(
        ["bash", "-c", script + "with_retries 3 t 3 && echo done"], capture_output=True, text=True, check=True
    )
    assert enough.stdout.split("\n") == ["nap 2", "nap 4", "done", ""]
    assert "try 1 of 3 failed" in enough.stderr
    short = subprocess.run(
        ["bash", "-c", script + "with_retries 2 t 3 || echo gave up"], capture_output=True, text=True, check=True
    )
    assert short.stdout.split("\n") == ["nap 2", "gave up", ""]


def test_make_help_lists_every_target():
    listing = subprocess.run(["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True).stdout
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    assert sorted(line.split()[1] for line in listing.splitlines() if line.startswith("  make ")) == sorted(phony)
    for script in ROOT.glob("scripts/*"):
        assert script.suffix in {".sh", ".py"} or os.access(script, os.X_OK)
    for line in makefile.splitlines():
        if line.startswith("\t@scripts/"):
            assert os.access(ROOT / line.split()[0].lstrip("@"), os.X_OK), f"{line.strip()}: no such script"


@pytest.mark.parametrize("kind", ["virtual-hosts", "control-planes"])
def test_clean_leaves_sources_and_refuses_a_cache_in_use(tmp_path, kind):
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for name in ("reports/1/report.json", "tests/output/x", "plugins/__pycache__/a.pyc", "plugins/a.py", "x.tar.gz"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    state = tmp_path / "state" / "gpulab-fleet" / kind / "a" / "state.json"
    state.parent.mkdir(parents=True)
    state.write_text("{}")
    cache = folder / "cache" / "gpulab-fleet"
    cache.mkdir(parents=True)
    status, _out, err = call(folder, "clean", "--cache", XDG_STATE_HOME=str(tmp_path / "state"))
    assert status == 1
    assert "make teardown" in err
    assert cache.is_dir()
    assert (folder / "plugins" / "a.py").is_file()
    assert not [
        name for name in ("reports", "tests/output", "plugins/__pycache__", "x.tar.gz") if (folder / name).exists()
    ]
    state.unlink()
    assert call(folder, "clean", "--cache", XDG_STATE_HOME=str(tmp_path / "state"))[0] == 0
    assert not cache.exists()


COUNT = "========= 3 passed, 1 skipped in 4.05s ========="


@pytest.mark.parametrize(
    ("test_status", "teardown_status", "expected"),
    [(0, 0, 0), (1, 0, 2), (0, 1, 1), (1, 1, 2)],
)
def test_ci_always_tears_down_and_ends_with_the_count(test_status, teardown_status, expected, tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy2(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "Makefile").write_text(
        f"test:\n\t@echo '{COUNT}' | tee tests/output/pytest.log; exit {test_status}\n"
        f"teardown:\n\t@touch tore-down; echo trouble; exit {teardown_status}\n"
    )
    done = subprocess.run([str(tmp_path / ".ci" / "run")], capture_output=True, text=True, check=False)
    assert done.returncode == expected
    assert (tmp_path / "tore-down").exists()
    assert done.stdout.splitlines()[-1] == COUNT
    assert ("trouble" in done.stdout) is bool(teardown_status)
