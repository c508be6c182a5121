# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.callback.progress import Running, describe, newest_line

PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Take a while
      ansible.builtin.wait_for: {timeout: 3}
"""


def write(folder: Path, name: str, *lines: object, tail: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)


def said(at: float, text: str, who: str = "alpha") -> dict[str, object]:
    return {"time": at, "who": who, "text": text}


def test_a_line_has_time_task_hosts_and_what_was_said_last(tmp_path: Path) -> None:
    write(tmp_path, "alpha.jsonl", said(100.0, "building"), said(105.0, "booting"))
    running = [Running(host, "Start", 10.0, 100.0) for host in ("alpha", "beta", "gamma", "delta", "epsilon")]
    assert describe(running, 45.4, str(tmp_path)) == ["… 35 s  Start  [alpha, beta, gamma and 2 more]  alpha: booting"]


def test_each_task_has_a_line_and_the_oldest_comes_first(tmp_path: Path) -> None:
    running = [Running("beta", "Second", 20.0, 0.0), Running("alpha", "First", 10.0, 0.0)]
    assert describe(running, 30.0, str(tmp_path)) == ["… 20 s  First  [alpha]", "… 10 s  Second  [beta]"]


@pytest.mark.parametrize(
    ("lines", "tail", "expected"),
    [
        ([said(99.0, "old")], "", ""),
        ([said(101.0, "new")], "", "alpha: new"),
        ([said(101.0, "two\nlines")], "", "alpha: two lines"),
        # a line that is being written just now, and one that is none of ours
        ([said(101.0, "new")], '{"time": 1', ""),
        ([["no", "dictionary"]], "", ""),
        ([{"time": 101.0}], "", ""),
    ],
)
def test_newest_line(tmp_path: Path, lines: list[object], tail: str, expected: str) -> None:
    write(tmp_path / "p", "alpha.jsonl", *lines, tail=tail)
    write(tmp_path / "p", "notes.txt", said(200.0, "not ours"))
    assert newest_line(str(tmp_path / "p"), 100.0) == expected


def test_the_newest_of_several_files_counts_and_no_folder_is_no_trouble(tmp_path: Path) -> None:
    write(tmp_path / "p", "a.jsonl", said(101.0, "a"))
    write(tmp_path / "p", "b.jsonl", said(102.0, "b", "beta"))
    assert newest_line(str(tmp_path / "p"), 100.0) == "beta: b"
    assert newest_line(str(tmp_path / "none"), 100.0) == ""


@pytest.mark.parametrize(("after_s", "spoken"), [("0.5", True), ("600", False)])
def test_a_run_that_is_no_terminal_is_told_of_long_tasks_only(tmp_path: Path, after_s: str, spoken: bool) -> None:
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACKS_ENABLED": "gpulab.fleet.progress",
        "ANSIBLE_PYTHON_INTERPRETER": "auto_silent",
        "GPULAB_PROGRESS_AFTER_S": after_s,
        "GPULAB_PROGRESS_INTERVAL_S": "1",
        "XDG_STATE_HOME": str(tmp_path),
    }
    command = [
        "ansible-playbook",
        "-i",
        "alpha,",
        "-c",
        "local",
        "-e",
        "ansible_python_interpreter={{ ansible_playbook_python }}",
        "play.yml",
    ]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = [line for line in ended.stdout.splitlines() if line.startswith("… ")]
    assert all("Take a while  [alpha]" in line for line in lines)
    assert bool(lines) is spoken, ended.stdout
