# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual hosts over several runs: unchanged when they run, repaired when they crashed, gone without a trace when that is asked for."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from lab import H100_HOST, MIXED_HOST, ODD_HOST, Lab, Stream

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import HostPaths

# The first test that runs may have to build the hosts.
pytestmark = pytest.mark.timeout(7200)


def test_second_run_changes_nothing(hosts: Lab, stream: Stream):
    before = {host: hosts.state(host) for host in (H100_HOST, MIXED_HOST)}
    run = hosts.play(stream, "playbooks/virtual_hosts.yml")
    assert run.returncode == 0
    for host, state in before.items():
        assert run.changed(host) == 0
        assert hosts.state(host).programs() == state.programs()
        run.says(f"{host} ({state.machine}", f"-p {state.ssh_port} root@127.0.0.1")


def test_a_crashed_host_is_noticed_and_started_again(hosts: Lab, stream: Stream):
    started = hosts.play(stream, "playbooks/virtual_hosts.yml", *hosts.with_odd(), "--limit", ODD_HOST)
    assert started.returncode == 0
    before = hosts.state(ODD_HOST)
    assert before.qemu is not None and before.qemu.ref.is_alive()
    boot_id = hosts.ssh(ODD_HOST, "cat /proc/sys/kernel/random/boot_id")
    os.kill(before.qemu.pid, signal.SIGKILL)
    run = hosts.play(stream, "playbooks/virtual_hosts.yml", *hosts.with_odd(), "--limit", ODD_HOST, "-v")
    assert run.returncode == 0
    # With the last lines of the log of what died, or that there are none, and where it is.
    run.says(f"virtual host {ODD_HOST} had crashed: qemu (pid {before.qemu.pid}) is gone.", before.qemu.log)
    assert run.changed(ODD_HOST) == 1
    after = hosts.state(ODD_HOST)
    assert all(program.ref.is_alive() for program in after.programs())
    assert not any(program.ref.is_alive() for program in before.programs())
    assert hosts.ssh(ODD_HOST, "cat /proc/sys/kernel/random/boot_id") != boot_id


def test_absent_removes_everything(hosts: Lab, stream: Stream):
    """The last test on hosts: the teardown of the session has nothing left to do."""
    states = {host: hosts.state(host) for host in hosts.hosts()}
    assert {H100_HOST, MIXED_HOST} <= set(states)
    hosts.keep_logs()
    # The small host is in no inventory of this run: without --limit it goes as well.
    run = hosts.play(stream, "playbooks/teardown.yml")
    hosts.started = False
    assert run.returncode == 0
    assert hosts.hosts() == []
    for host, state in states.items():
        assert not [program for program in state.programs() if program.ref.is_alive()], f"{host} has processes left"
        assert not Path(HostPaths(host, hosts.state_root).folder).exists()
        assert not Path(state.runtime).exists()
    again = hosts.play(stream, "playbooks/teardown.yml")
    assert again.returncode == 0
    assert again.changed(H100_HOST) == 0
