# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixture that runs long commands: it must show, end and not wait for daemons."""

from __future__ import annotations

import os
import time

import pytest


def test_output_status_and_environment(stream):
    done = stream(["bash", "-c", "echo one; echo $WORD >&2; exit 3"], WORD="two")
    assert (done.returncode, done.output) == (3, "one\ntwo\n")


def test_a_daemon_that_keeps_the_pipe_open_does_not_keep_us(stream):
    done = stream(["bash", "-c", "sleep 20 & echo $!"])
    os.kill(int(done.output), 15)
    assert done.returncode == 0
    assert done.seconds < 15


def test_a_command_without_end_is_ended_with_its_children(stream, tmp_path):
    with pytest.raises(pytest.fail.Exception, match=r"not done after 1 s; its last lines:\nstarted"):
        stream(
            ["bash", "-c", f"echo started; (sleep 100; touch {tmp_path}/late) & echo $! >{tmp_path}/child; wait"],
            timeout_s=1,
        )
    child = int((tmp_path / "child").read_text())
    for _try in range(50):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
        if "State:\tZ" in open(f"/proc/{child}/status").read():
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"child {child} is still alive")
