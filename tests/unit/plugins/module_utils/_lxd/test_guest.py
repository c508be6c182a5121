# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd import guest
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.guest import (
    GuestTimeout,
    GuestUnreachable,
    answers,
    run_in_guest,
)


@pytest.fixture
def running(server, lxd):
    lxd.create(
        {"name": "v1", "type": "virtual-machine", "config": {}, "devices": {}, "source": {"type": "none"}}, Deadline(10)
    )
    lxd.set_state("v1", "start", False, Deadline(10))
    lxd.get_state("v1")
    return server


def test_status_and_output(running, lxd):
    running.run = lambda name, command: (3, f"{name} {command[-2:]}\n", "grüße\n")
    result = run_in_guest(lxd, "v1", ["lspci", "-nn"], 5)
    assert (result.rc, result.stdout, result.stderr) == (3, "v1 ['lspci', '-nn']\n", "grüße\n")
    # Output does not pile up in the guest.
    assert running.files["v1"] == {}


def test_of_long_output_the_end_is_kept(running, lxd, monkeypatch):
    monkeypatch.setattr(guest, "_OUTPUT_LIMIT_BYTES", 30)
    running.run = lambda name, command: (0, "stdout" * 100, "err\n")
    result = run_in_guest(lxd, "v1", ["lspci"], 5)
    assert (result.stdout, result.stderr) == ("stdout", "err\n")


def test_the_guest_limits_the_command_itself(running, lxd):
    seen = []
    running.run = lambda name, command: (seen.append(command), (0, "", ""))[1]
    run_in_guest(lxd, "v1", ["sleep", "9"], 1.2)
    answers(lxd, "v1", 1.2)
    assert seen[0][:2] == ["sh", "-c"]
    assert seen[0][4] == "2"
    assert seen[0][6:] == ["sleep", "9"]
    assert seen[1] == ["true"]


@pytest.mark.parametrize("tools", ["timeout", "no timeout"])
def test_the_script_in_a_real_shell(tmp_path, tools):
    """Exit status, both streams, no leftovers, and the limit where the guest has `timeout`."""
    (tmp_path / "bin").mkdir()
    for tool in ["sh", "cat", "wc", "rm", "sleep", *([tools] if tools == "timeout" else [])]:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    (tmp_path / "out").mkdir()

    def run(limit, *argv):
        script = ["sh", "-c", guest._RECORDED, "sh", limit, f"{tmp_path}/out/file", *argv]
        ended = subprocess.run(script, env={"PATH": f"{tmp_path}/bin"}, capture_output=True, check=False, timeout=20)
        assert (ended.stdout, ended.stderr) == (b"", b"")
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["file"]
        return ended.returncode, (tmp_path / "out" / "file").read_text()

    assert run("9", "sh", "-c", "echo a b; echo c >&2; exit 7") == (7, "a b\nc\n" + "0000000004" + "0000000002")
    assert run("9", "missing")[0] == 127
    assert (tmp_path / "out" / "file").stat().st_mode & 0o777 == 0o600
    if tools == "timeout":
        assert run("1", "sleep", "15") == (137, "0" * 20)


def test_a_guest_without_a_writable_tmp(running, lxd):
    running.run = lambda name, command: (2, "", "")
    running._record = lambda *_arguments: None
    with pytest.raises(
        GuestUnreachable, match="`lspci` in v1 ended with 2 and left no output; the guest needs sh"
    ) as error:
        run_in_guest(lxd, "v1", ["lspci"], 5)
    assert error.value.details["reason"] == "no_output"


def test_the_environment_is_passed(running, lxd):
    run_in_guest(lxd, "v1", ["env"], 5, {"A": "b"})
    bodies = [body for _method, path, body in running.requests if path.endswith("/exec")]
    assert [body["environment"] for body in bodies] == [{"A": "b"}]


def test_a_command_that_never_ends(running, lxd, monkeypatch):
    monkeypatch.setattr(guest, "_GRACE_S", 0.3)
    running.hang.add("exec")
    began = time.monotonic()
    with pytest.raises(GuestTimeout, match="`burn` in v1 did not end within 1 s") as error:
        run_in_guest(lxd, "v1", ["burn"], 0.9)
    assert time.monotonic() - began < 5
    assert error.value.details["argv"] == ["burn"]


def test_a_command_killed_by_the_guests_limit_keeps_its_output(running, lxd):
    def burn(name, command):
        time.sleep(0.6)
        return 137, "half\n", ""

    running.run = burn
    with pytest.raises(GuestTimeout) as error:
        run_in_guest(lxd, "v1", ["burn"], 0.5)
    assert error.value.details["stdout"] == "half\n"
    # Killed early, by somebody else: a result like any other.
    running.run = lambda name, command: (137, "", "")
    assert run_in_guest(lxd, "v1", ["burn"], 5).rc == 137


def test_without_agent_instance_or_lxd(running, lxd):
    running.agent_after = 99
    with pytest.raises(GuestUnreachable, match="agent isn't currently running") as error:
        answers(lxd, "v1", 5)
    assert error.value.details["reason"] == "refused"
    with pytest.raises(GuestUnreachable, match="not found"):
        answers(lxd, "nobody", 5)
    running.down_until = time.monotonic() + 60
    with pytest.raises(GuestUnreachable) as error:
        answers(lxd, "v1", 1)
    assert error.value.details["reason"] == "lxd_unreachable"
