# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Atomic files, locks, progress lines and the XDG folders, on a real file system."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired, FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import FileLock, read_json, write_json_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import cache_dir, progress_dir, state_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress, progress_file


def test_json_round_trip_mode_and_no_leftovers(tmp_path):
    path = tmp_path / "made" / "state.json"
    write_json_atomic(str(path), {"pid": 1})
    write_json_atomic(str(path), {"pid": 2})
    assert read_json(str(path)) == {"pid": 2}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["state.json"]


def test_failed_write_keeps_the_old_content(tmp_path):
    path = tmp_path / "state.json"
    write_json_atomic(str(path), {"pid": 1})
    with pytest.raises(TypeError):
        write_json_atomic(str(path), {"pid": object()})
    assert read_json(str(path)) == {"pid": 1}
    assert os.listdir(tmp_path) == ["state.json"]


def test_reading_what_is_missing_or_damaged(tmp_path):
    assert read_json(str(tmp_path / "none.json")) is None
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"pid": ')
    with pytest.raises(FleetError, match=r"damaged\.json is not JSON"):
        read_json(str(damaged))


HOLD = "import sys, time, fcntl, os; d = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); fcntl.flock(d, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"


def test_lock_keeps_others_out_and_goes_with_its_holder(tmp_path):
    path = str(tmp_path / "locks" / "a.lock")
    with FileLock(path, timeout_s=1), pytest.raises(DeadlineExpired, match=f"pid {os.getpid()}"):
        FileLock(path, timeout_s=0.05, interval_s=0.01).acquire()
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(DeadlineExpired):
                FileLock(path, timeout_s=0.05, interval_s=0.01).acquire()
        finally:
            holder.kill()
    with FileLock(path, timeout_s=5) as lock:
        assert open(path).read() == str(os.getpid())
    lock.release()


def test_progress_file_is_short(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert progress_file("run") == progress_dir() + "/run.jsonl"
    assert progress_file("run", state_root="/s") == "/s/progress/run.jsonl"
    given = tmp_path / "mine.jsonl"
    for size, stays in ((1 << 20, True), ((1 << 20) + 1, False)):
        given.write_bytes(b"x" * size)
        assert progress_file("run", str(given), "/s") == str(given)
        assert given.exists() is stays


def test_progress_appends_lines(tmp_path):
    path = tmp_path / "progress" / "run.jsonl"
    Progress(str(path), "host", clock=lambda: 12.34567).say("booting")
    Progress(str(path), "image", clock=lambda: 13).say("unpäcked")
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"time": 12.346, "who": "host", "text": "booting"},
        {"time": 13, "who": "image", "text": "unpäcked"},
    ]


@pytest.mark.parametrize("path", [None, ""])
def test_progress_without_a_path_says_nothing(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Progress(path, "host").say("booting")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("environ", "cache", "state"),
    [
        ({"HOME": "/h"}, "/h/.cache/gpulab-fleet", "/h/.local/state/gpulab-fleet"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/gpulab-fleet", "/s/gpulab-fleet"),
        (
            {"HOME": "/h", "XDG_CACHE_HOME": "c", "XDG_STATE_HOME": ""},
            "/h/.cache/gpulab-fleet",
            "/h/.local/state/gpulab-fleet",
        ),
    ],
)
def test_folders(environ, cache, state):
    assert cache_dir(environ) == cache
    assert state_dir(environ) == state
    assert progress_dir(environ) == state + "/progress"
