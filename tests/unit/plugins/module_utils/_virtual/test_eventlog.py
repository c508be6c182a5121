# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log that is written at once and stays within its size."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.eventlog import EventLog


def test_lines_are_there_at_once_and_after_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    log = EventLog(str(path))
    log.line("one")
    log.line("two " + "x" * 1000)
    log.close()
    lines = path.read_text().splitlines()
    assert lines[0] == "before"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z one", lines[1])
    assert len(lines[2]) == len("2026-11-30T00:00:00.000Z ") + 500


def test_the_size_is_limited(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path / "log"), max_bytes=1000)
    for number in range(200):
        log.line(f"line {number}")
    log.close()
    new, old = (tmp_path / "log").read_text(), (tmp_path / "log.1").read_text()
    assert len(new) <= 1000
    assert len(old) <= 1000
    assert (old + new).endswith("line 198\n" + new.splitlines()[-1] + "\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]


def test_what_cannot_be_written_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    log = EventLog(str(folder / "log"), max_bytes=100)
    log.line("one " + "x" * 60)
    (folder / "log").unlink()
    folder.rmdir()
    log.line("two " + "x" * 60)
    assert log.lost == 1
    log.close()
