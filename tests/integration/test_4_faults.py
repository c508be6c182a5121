# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs killed in the middle of a VM test: the play ends in time and says why, and the next run repairs and passes.

The tests build on each other: each begins with what the one before left, and needs it repaired to get as far as its own fault.
"""

from __future__ import annotations

import json
import os
import signal

import pytest
from lab import H100, H100_HOST, Check, HostScript, Lab, Run, Stream, until_running

# The first test that runs may have to build the hosts.
pytestmark = [pytest.mark.live, pytest.mark.timeout(7200)]

# Waits of the play in the worst case: start, look, removal with its release, and a connection that has to be given up.
IN_TIME_S = 1200.0
SEEN_WITHIN_S = 600
LIMITS = {"vm_timeout_s": 300, "check_timeout_s": 60, "compute_timeout_s": 60, "release_timeout_s": 30}


def play(lab: Lab, stream: Stream, *arguments: str) -> Run:
    variables = {"gpus": [H100], "tests": ["vm"], **LIMITS}
    return lab.play(
        stream, "playbooks/passthrough.yml", "--limit", H100_HOST, "-e", json.dumps(variables), *arguments, timeout_s=IN_TIME_S
    )  # fmt: skip


def play_with(lab: Lab, stream: Stream, fault: HostScript) -> Run:
    """A run with a fault in its middle; a run in which the fault did not come about proves nothing."""
    fault.start()
    run = play(lab, stream)
    fault.join(timeout=30)
    assert not fault.problem, f"the fault did not come about: {fault.problem}"
    run.report().assert_reasons()
    return run


def failed_reasons(run: Run) -> list[str]:
    failures: list[Check] = run.report().failures()
    return [f"{check['name']}: {check['reason']}" for check in failures]


def test_inner_qemu_killed(hosts: Lab, stream: Stream):
    run = play_with(hosts, stream, HostScript(hosts, H100_HOST, until_running(SEEN_WITHIN_S) + "kill -9 $pid", 900))
    assert run.returncode != 0
    reasons = failed_reasons(run)
    assert any("stopped by itself" in reason or "QEMU" in reason for reason in reasons), reasons
    after = hosts.gpu_state(H100_HOST, H100)
    assert (after.qemu_processes, after.instances, after.override, after.driver) == (0, (), "", "")


def test_lxd_killed(hosts: Lab, stream: Stream):
    """The VM outlives LXD's daemon. A run that gets over it passes; one that does not says why."""
    pid = "systemctl show --property MainPID --value lxd.service"
    script = until_running(SEEN_WITHIN_S) + f"{pid}; systemctl kill --kill-whom=main --signal=KILL lxd.service"
    fault = HostScript(hosts, H100_HOST, script, 900)
    run = play_with(hosts, stream, fault)
    killed = fault.output.split()[-1]
    assert killed.isdigit() and killed != "0"
    # Any request starts it again by its socket, if systemd has not yet.
    now = hosts.ssh(H100_HOST, f"lxc info >/dev/null && {pid}", timeout_s=300).split()[-1]
    assert now.isdigit() and now not in ("0", killed), "LXD did not come back"
    if run.returncode:
        reasons = failed_reasons(run)
        assert any("LXD" in reason for reason in reasons), reasons
    else:
        run.report().assert_passed()


def test_device_server_killed(hosts: Lab, stream: Stream):
    """The GPU itself vanishes from under a running host and its VM."""
    server = hosts.state(H100_HOST).devices
    assert server is not None and server.ref.is_alive()

    def kill() -> None:
        assert server.ref.is_alive(), "the device server had ended before"
        os.kill(server.pid, signal.SIGKILL)

    run = play_with(hosts, stream, HostScript(hosts, H100_HOST, until_running(SEEN_WITHIN_S) + "echo $pid", 900, kill))
    assert run.returncode != 0, "a GPU without its device server passed"
    assert failed_reasons(run)
    assert not server.ref.is_alive()


def test_next_run_repairs_and_passes(hosts: Lab, stream: Stream):
    before = hosts.state(H100_HOST)
    assert before.devices is not None
    run = play(hosts, stream)
    run.says(f"virtual host {H100_HOST} had crashed: ")
    assert run.returncode == 0
    run.report().assert_passed()
    after = hosts.state(H100_HOST)
    assert after.devices is not None and after.devices.ref.is_alive() and after.devices.pid != before.devices.pid
    assert not any(program.ref.is_alive() for program in before.programs()), "a process of the crashed host is left"
    seen = hosts.gpu_state(H100_HOST, H100)
    assert (seen.qemu_processes, seen.instances, seen.override, seen.driver) == (0, (), "", "")
