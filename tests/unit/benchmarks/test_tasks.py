# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark's reading of a playbook's output."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "tasks.py"
spec = importlib.util.spec_from_file_location("benchmark_tasks", PATH)
tasks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tasks)


def test_a_task_lasts_until_the_next_heading():
    lines = [
        (0.0, "making the environment\n"),
        (2.0, "\x1b[0;32mPLAY [Hosts] *****\x1b[0m\n"),
        (2.5, "TASK [virtual_gpu_host : Boot] *****\n"),
        (3.0, "changed: [a]\n"),
        (33.0, "TASK [Check] ****\n"),
        (34.0, "PLAY RECAP *****\n"),
        (34.5, "a : ok=2\n"),
    ]
    found = tasks.sections(lines)
    assert found == [
        ("", "set-up", 2.0),
        ("Hosts", "start of play", 0.5),
        ("Hosts", "virtual_gpu_host : Boot", 30.5),
        ("Hosts", "Check", 1.0),
        ("", "recap", 0.5),
    ]
    text = tasks.table(found)
    assert "30.5    88%  Hosts / virtual_gpu_host : Boot" in text
    assert "32.0    93%  play: Hosts" in text
    assert text.endswith("34.5         in all")


def test_no_output_at_all():
    assert tasks.sections([]) == []
    assert tasks.table([]).endswith("0.0         in all")
