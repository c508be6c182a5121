# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common import build
from ansible_collections.gpulab.fleet.plugins.module_utils._common.build import (
    BuildError,
    Recipe,
    ensure,
    find,
    key_of,
)

# Counts its runs beside the output folders.
SCRIPT = """
. "$(dirname "$0")/common.sh"
echo run >> "$COUNT"
say "making $WHAT"
echo noise
mkdir -p "$1/tree/sub"
echo "$WHAT" > "$1/image"
echo x > "$1/tree/sub/file"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "common.sh").write_text('set -eu\nsay() { echo "@ $*"; }\n')
    (sources / "other.sh").write_text("exit 1\n")
    (sources / "build-thing.sh").write_text(SCRIPT)
    parameters = (("COUNT", str(tmp_path / "count")), ("WHAT", "bread"))
    return Recipe("thing", str(sources / "build-thing.sh"), ("image", "tree"), parameters)


def with_script(recipe: Recipe, text: str) -> Recipe:
    Path(recipe.script).write_text(text)
    return recipe


def runs(tmp_path: Path) -> int:
    path = tmp_path / "count"
    return len(path.read_text().split()) if path.exists() else 0


def test_it_is_built_once_and_found_again(tmp_path: Path, recipe: Recipe, progress, said):
    cache = str(tmp_path / "cache")
    assert find(recipe, cache) is None
    first = ensure(recipe, cache, progress, 60)
    assert first.fresh and Path(first.output("image")).read_text() == "bread\n"
    again = ensure(recipe, cache, progress, 60)
    assert (again.path, again.fresh) == (first.path, False)
    assert find(recipe, cache) == replace(again, seconds=0.0)
    assert runs(tmp_path) == 1
    assert "thing: making bread" in said() and "noise" not in said()
    log = next((tmp_path / "cache" / "logs").iterdir())
    assert "noise" in log.read_text()
    assert [name for name in os.listdir(os.path.dirname(first.path)) if name.startswith(".building")] == []


PYTHON_SCRIPT = """
import os, sys
print("@ making it with Python", flush=True)
open(os.path.join(sys.argv[1], "image"), "w").write(os.environ["WHAT"] + sys.executable)
os.mkdir(os.path.join(sys.argv[1], "tree"))
open(os.path.join(sys.argv[1], "tree", "file"), "w").close()
"""


def test_a_script_may_be_python(tmp_path: Path, recipe: Recipe, progress, said):
    script = Path(recipe.script).with_suffix(".py")
    script.write_text(PYTHON_SCRIPT)
    made = ensure(replace(recipe, script=str(script)), str(tmp_path / "cache"), progress, 60)
    assert Path(made.output("image")).read_text() == "bread" + sys.executable
    assert "thing: making it with Python" in said()


@pytest.mark.parametrize("change", ["parameter", "script", "used file"])
def test_another_content_is_another_build(tmp_path: Path, recipe: Recipe, progress, change: str):
    first = ensure(recipe, str(tmp_path / "cache"), progress, 60)
    if change == "parameter":
        recipe = replace(recipe, parameters=(("COUNT", str(tmp_path / "count")), ("WHAT", "cake")))
    elif change == "script":
        recipe = with_script(recipe, SCRIPT + "# more\n")
    else:
        common = Path(recipe.script).with_name("common.sh")
        common.write_text(common.read_text() + "# more\n")
    second = ensure(recipe, str(tmp_path / "cache"), progress, 60)
    assert second.fresh and second.path != first.path and os.path.isdir(first.path)


def test_a_file_that_the_script_does_not_use_changes_nothing(recipe: Recipe):
    before = key_of(recipe)
    Path(recipe.script).with_name("other.sh").write_text("exit 2\n")
    assert key_of(recipe) == before


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: os.unlink(f"{path}/image"), "image is missing"),
        (lambda path: Path(f"{path}/image").write_text("stone\n"), "image was changed"),
        (lambda path: os.unlink(f"{path}/tree/sub/file"), "tree was changed"),
        (lambda path: os.unlink(f"{path}/manifest.json"), "no manifest"),
        (lambda path: Path(f"{path}/manifest.json").write_text("{"), "manifest is unreadable"),
    ],
)
def test_a_damaged_build_is_made_again(tmp_path: Path, recipe: Recipe, progress, said, damage, reason: str):
    cache = str(tmp_path / "cache")
    damage(ensure(recipe, cache, progress, 60).path)
    assert find(recipe, cache) is None
    again = ensure(recipe, cache, progress, 60)
    assert again.fresh and Path(again.output("image")).read_text() == "bread\n"
    assert reason in said()
    assert find(recipe, cache) is not None


def test_large_files_are_compared_by_size_and_time(tmp_path: Path, recipe: Recipe, progress):
    recipe = with_script(recipe, SCRIPT + 'truncate -s 65M "$1/image"\n')
    made = ensure(recipe, str(tmp_path / "cache"), progress, 60)
    assert find(recipe, str(tmp_path / "cache")) is not None
    os.utime(made.output("image"))
    assert find(recipe, str(tmp_path / "cache")) is None


def test_a_failure_shows_the_step_and_the_log(tmp_path: Path, recipe: Recipe, progress):
    recipe = with_script(recipe, SCRIPT + 'say "last step"\necho "disk full" >&2\nexit 7\n')
    with pytest.raises(BuildError, match=r"status 7 at step: last step.*disk full") as caught:
        ensure(recipe, str(tmp_path / "cache"), progress, 60)
    assert "disk full" in caught.value.details["excerpt"]
    assert os.path.exists(caught.value.details["log"])
    assert not [name for name in os.listdir(tmp_path / "cache" / "thing") if not name.endswith(".lock")]


def test_an_output_that_was_not_made_is_named(tmp_path: Path, recipe: Recipe, progress):
    with pytest.raises(BuildError, match="made no image, tree"):
        ensure(with_script(recipe, "exit 0\n"), str(tmp_path / "cache"), progress, 60)


def test_a_build_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path, recipe: Recipe, progress):
    pid_file = tmp_path / "pid"
    recipe = with_script(recipe, f'sleep 60 & echo $! > {pid_file}\necho "@ waiting"\nwait\n')
    with pytest.raises(BuildError, match="not built within 1 s; last step: waiting"):
        ensure(recipe, str(tmp_path / "cache"), progress, 1)
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline, "the child of the build script still runs"
        time.sleep(0.05)


def test_a_silent_build_still_shows_that_it_lives(tmp_path: Path, recipe: Recipe, progress, said, monkeypatch):
    monkeypatch.setattr(build, "HEARTBEAT_S", 0.3)
    ensure(with_script(recipe, SCRIPT + "sleep 1\n"), str(tmp_path / "cache"), progress, 60)
    assert "still at: making bread" in said()


def test_two_runs_at_once_build_once(tmp_path: Path, recipe: Recipe, progress):
    recipe = with_script(recipe, SCRIPT + "sleep 0.5\n")
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(ensure(recipe, str(tmp_path / "cache"), progress, 60)))
        for _run in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs(tmp_path) == 1
    assert sorted(result.fresh for result in results) == [False, False, True]
    assert len({result.path for result in results}) == 1


def test_what_a_killed_run_left_is_removed_and_built_again(tmp_path: Path, recipe: Recipe, progress):
    slow = with_script(recipe, SCRIPT + f"[ -e {tmp_path}/go ] || sleep 30\n")
    code = (
        "from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress\n"
        "from ansible_collections.gpulab.fleet.plugins.module_utils._common.build import Recipe, ensure\n"
        f"ensure({slow!r}, {str(tmp_path / 'cache')!r}, Progress(None, 'x'), 60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code])
    folder = tmp_path / "cache" / "thing"
    while not list(folder.glob(".building-*/image")):
        assert run.poll() is None
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    (tmp_path / "go").touch()
    assert ensure(slow, str(tmp_path / "cache"), progress, 60).fresh
    assert list(folder.glob(".building-*")) == []
