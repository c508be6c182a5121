# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How waits end: with an answer, or early or late with a reason."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.console import ConsoleReader
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.wait import NotReady, Waiter

VM = "virtual-machine"


@pytest.fixture
def running(server, lxd):
    lxd.create({"name": "v1", "type": VM, "config": {}, "devices": {}, "source": {"type": "none"}}, Deadline(10))
    lxd.set_state("v1", "start", False, Deadline(10))
    server.logs["v1"] = {"qemu.log": "qemu-system-x86_64: warning: something\n"}
    return server


def waiter(lxd, limit_s, console=None, said=None):
    return Waiter(lxd, "v1", VM, Deadline(limit_s), console, (said if said is not None else []).append)


def printed(*lines):
    """A reader that has heard these lines; nobody connects it."""
    reader = ConsoleReader([])
    reader._take("".join(f"{line}\n" for line in lines))
    return reader


def test_it_is_ready_when_the_agent_answers(running, lxd):
    running.agent_after = 2
    said = []
    assert waiter(lxd, 20, said=said).until_answering().seconds < 10
    assert any("waiting for v1" in text and "processes -1" in text for text in said)


def test_any_answer_counts_a_guest_need_not_have_true(running, lxd):
    running.run = lambda name, command: (127, "", "")
    waiter(lxd, 5).until_answering()


def test_with_agent_metrics_off_the_command_alone_decides(running, lxd):
    running.instances["v1"]["config"]["security.agent.metrics"] = "false"
    running._state = lambda name: {"status": "Running", "processes": -1}
    running.agent_after = -1
    waiter(lxd, 5).until_answering()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((), "not_booted"),
        (("BdsDxe: loading Boot0001",), "firmware_only"),
        (("[    0.000000] Linux version 6.12",), "agent_missing"),
        (("debian login:",), "agent_missing"),
    ],
)
def test_at_the_deadline_the_console_gives_the_reason(running, lxd, lines, reason):
    running.agent_after = 10**6
    with pytest.raises(NotReady) as error:
        waiter(lxd, 0.5, printed(*lines)).until_answering()
    details = error.value.details
    assert (details["reason"], details["console"]) == (reason, list(lines))
    assert details["instance_log"] == ["qemu-system-x86_64: warning: something"]
    assert "status Running, processes -1" in details["last_state"]
    assert "timeout_s" in error.value.message


def test_a_console_heard_too_late_says_nothing_about_the_boot(running, lxd):
    running.agent_after = 10**6
    with pytest.raises(NotReady) as error:
        Waiter(lxd, "v1", VM, Deadline(0.2), printed(), [].append, from_start=False).until_answering()
    assert error.value.details["reason"] == "agent_missing"


def test_a_panic_ends_the_wait_at_once(running, lxd):
    running.agent_after = 10**6
    began = time.monotonic()
    with pytest.raises(NotReady) as error:
        waiter(lxd, 60, printed("Kernel panic - not syncing: Attempted to kill init!")).until_answering()
    assert error.value.details["reason"] == "kernel_panic"
    assert time.monotonic() - began < 5


def test_a_vm_that_stops_by_itself_ends_the_wait_early(running, lxd):
    running.instances["v1"]["status"] = "Stopped"
    began = time.monotonic()
    with pytest.raises(NotReady) as error:
        waiter(lxd, 60).until_answering()
    assert error.value.details["reason"] == "stopped_by_itself"
    assert time.monotonic() - began < 15


def test_a_reboot_is_no_stop(running, lxd):
    running.instances["v1"]["status"] = "Stopped"
    threading.Timer(1.5, lambda: running.instances["v1"].update(status="Running")).start()
    waiter(lxd, 20).until_answering()


def test_an_instance_that_is_deleted_meanwhile(running, lxd):
    del running.instances["v1"]
    with pytest.raises(NotReady) as error:
        waiter(lxd, 60).until_answering()
    assert error.value.details["reason"] == "vanished"


def test_an_lxd_that_restarts_is_waited_for(running, lxd):
    running.restart(away_s=1.5)
    waiter(lxd, 20).until_answering()


def test_an_lxd_that_stays_away_is_the_reason(running, lxd):
    running.down_until = time.monotonic() + 60
    with pytest.raises(NotReady) as error:
        waiter(lxd, 1).until_answering()
    assert error.value.details["reason"] == "lxd_unreachable"


def systemd(*states):
    """A guest whose systemd says one state after the other, the last one for ever."""
    left = list(states)

    def run(name, command):
        if "--failed" in command:
            return 0, "nvidia-persistenced.service loaded failed failed NVIDIA Persistence Daemon\n", ""
        state = left.pop(0) if len(left) > 1 else left[0]
        return (127, "", "not found") if state is None else (0 if state == "running" else 1, state + "\n", "")

    return run


@pytest.mark.parametrize(
    ("states", "allow_degraded", "state", "units"),
    [
        (("running",), False, "running", ()),
        (("starting", "running"), False, "running", ()),
        (("degraded",), True, "degraded", ("nvidia-persistenced.service",)),
        ((None,), False, "no systemd", ()),
    ],
)
def test_waiting_for_the_system(running, lxd, states, allow_degraded, state, units):
    running.run = systemd(*states)
    lxd.get_state("v1")
    ready = waiter(lxd, 20).until_system_runs(allow_degraded)
    assert (ready.system_state, ready.failed_units) == (state, units)


@pytest.mark.parametrize(
    ("states", "reason", "words"),
    [(("degraded",), "degraded", "nvidia-persistenced.service"), (("starting",), "system_not_up", "starting")],
)
def test_a_system_that_does_not_come_up(running, lxd, states, reason, words):
    running.run = systemd(*states)
    lxd.get_state("v1")
    with pytest.raises(NotReady, match=words) as error:
        waiter(lxd, 1).until_system_runs(False)
    assert error.value.details["reason"] == reason
