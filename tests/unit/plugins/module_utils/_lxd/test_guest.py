# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd import guest
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.guest import (
    GuestTimeout,
    GuestUnreachable,
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
    # The recorded output does not pile up on the host.
    assert running.logs["v1"] == {}


def test_the_guest_limits_the_command_itself(running, lxd):
    seen = []
    running.run = lambda name, command: (seen.append(command), (0, "", ""))[1]
    run_in_guest(lxd, "v1", ["sleep", "9"], 1.2)
    run_in_guest(lxd, "v1", ["true"], 1.2, shell_limit=False)
    assert seen[0][:2] == ["sh", "-c"]
    assert seen[0][3:] == ["sh", "2", "sleep", "9"]
    assert seen[1] == ["true"]


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
        run_in_guest(lxd, "v1", ["true"], 5)
    assert error.value.details["reason"] == "refused"
    with pytest.raises(GuestUnreachable, match="not found"):
        run_in_guest(lxd, "nobody", ["true"], 5)
    running.down_until = time.monotonic() + 60
    with pytest.raises(GuestUnreachable) as error:
        run_in_guest(lxd, "v1", ["true"], 1)
    assert error.value.details["reason"] == "lxd_unreachable"
