# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import (
    ProcessError,
    ProcessRef,
    end,
    spawn,
    start_time_of,
    wait_gone,
)

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
)


def test_a_process_is_known_by_pid_and_start_time(tmp_path: Path):
    child = spawn(["sleep", "60"], str(tmp_path / "log"))
    assert child.ref.is_alive()
    assert not ProcessRef(child.ref.pid, child.ref.start_time + 1).is_alive()
    assert end(child.ref) == "terminated"
    assert child.exit_status() == -15
    assert not child.ref.is_alive()


def test_a_process_with_another_start_time_is_not_signalled(tmp_path: Path):
    child = spawn(["sleep", "60"], str(tmp_path / "log"))
    assert end(ProcessRef(child.ref.pid, child.ref.start_time + 1)) == "gone"
    assert child.exit_status() is None


def test_a_zombie_counts_as_gone():
    zombie = subprocess.Popen(["true"])
    try:
        assert wait_gone(ProcessRef(zombie.pid, start_time_of(zombie.pid) or 0), 5.0)
        assert os.path.exists(f"/proc/{zombie.pid}")
        assert start_time_of(zombie.pid) is None
    finally:
        zombie.wait()


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path):
    log = tmp_path / "log"
    child = spawn([sys.executable, "-c", STUBBORN], str(log))
    while "deaf" not in log.read_text():
        time.sleep(0.01)
    assert end(child.ref, grace_s=0.3) == "killed"
    assert child.exit_status() == -9


def test_it_gets_a_session_of_its_own_and_both_outputs_are_logged(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("before\n")
    code = (
        "import os, sys; print('sid', os.getsid(0) == os.getpid(), os.environ['MARK']); print('err', file=sys.stderr)"
    )
    child = spawn([sys.executable, "-c", code], str(log), {"MARK": "here"})
    assert child.popen.wait(20) == 0
    assert sorted(log.read_text().split("\n")) == ["", "before", "err", "sid True here"]
    assert (log.stat().st_mode & 0o777) == 0o644


def test_a_command_with_blanks_and_parentheses_in_its_name_has_a_start_time(tmp_path: Path):
    program = tmp_path / "odd ) name (x"
    program.symlink_to("/bin/sleep")
    child = spawn([str(program), "60"], str(tmp_path / "log"))
    assert child.ref.is_alive()


def test_a_program_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ProcessError, match="cannot start /nowhere/qemu"):
        spawn(["/nowhere/qemu"], str(tmp_path / "log"))


def test_it_outlives_the_program_that_started_it(tmp_path: Path):
    code = (
        "from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import spawn\n"
        f"ref = spawn(['sleep', '60'], {str(tmp_path / 'log')!r}).ref\n"
        "print(ref.pid, ref.start_time)\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    pid, start_time = output.split()
    ref = ProcessRef(int(pid), int(start_time))
    assert ref.is_alive()
    assert end(ref) == "terminated"
