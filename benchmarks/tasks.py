# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a playbook, shows its output as it comes, and prints at the end which plays and tasks took how long.

Usage: python benchmarks/tasks.py COMMAND...   with a command that ends in an ansible-playbook
It measures on the machine it runs on and judges nothing; compare two runs of the same machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable

HEADING = re.compile(r"^(PLAY|TASK|RUNNING HANDLER|PLAY RECAP) ?(?:\[(.*?)\])? \*+")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LONGEST = 20


def sections(lines: Iterable[tuple[float, str]]) -> list[tuple[str, str, float]]:
    """(play, task, seconds) in order; each line comes with its time, and a task lasts until the next heading."""
    found: list[tuple[str, str, float]] = []
    play, task, since = "", "set-up", None
    last = 0.0
    for now, line in lines:
        since = now if since is None else since
        last = now
        heading = HEADING.match(COLOUR.sub("", line))
        if not heading:
            continue
        found.append((play, task, now - since))
        kind, name = heading[1], heading[2] or ""
        if kind.startswith("PLAY"):
            play, task = (name, "start of play") if kind == "PLAY" else ("", "recap")
        else:
            task = name
        since = now
    if since is not None:
        found.append((play, task, last - since))
    return found


def table(found: list[tuple[str, str, float]]) -> str:
    total = sum(seconds for _play, _task, seconds in found)
    rows = [f"{'seconds':>9}  {'share':>5}  what"]
    plays: dict[str, float] = {}
    for play, _task, seconds in found:
        plays[play] = plays.get(play, 0.0) + seconds
    for play, seconds in plays.items():
        rows.append(f"{seconds:9.1f}  {seconds / total if total else 0:5.0%}  play: {play or 'outside of plays'}")
    for play, task, seconds in sorted(found, key=lambda row: -row[2])[:LONGEST]:
        rows.append(f"{seconds:9.1f}  {seconds / total if total else 0:5.0%}  {play + ' / ' if play else ''}{task}")
    rows.append(f"{total:9.1f}         in all")
    return "\n".join(rows)


def main() -> int:
    started = time.monotonic()
    lines: list[tuple[float, str]] = [(0.0, "")]
    with subprocess.Popen(
        sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            lines.append((time.monotonic() - started, line))
            print(line, end="", flush=True)
    lines.append((time.monotonic() - started, ""))
    print("\nWhere the time went:")
    print(table(sections(lines)))
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
