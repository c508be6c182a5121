# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole life of virtual hosts, with the real device server and a stand-in for QEMU: processes, files and sockets are real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired, FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import start_time_of
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import DeviceServer, PcieRoot
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import manage as managing
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.lifecycle import make_private
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.manage import Outcome, Request, manage, manage_all
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.parts import PartsRequest
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import HostPaths, HostState
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.host_support import (
    device,
    fake_qemu,
    machine,
    pair,
)


class Lab:
    """Hosts below a folder of the test."""

    def __init__(self, folder: Path, files: dict[str, str], progress: Any) -> None:
        self.folder, self.files, self.progress = folder, files, progress

    def request(self, mode: str = "good", **changes: Any) -> Request:
        parts = PartsRequest(str(self.folder / "cache"), qemu_command=tuple(fake_qemu(mode)), image=self.files)
        base = Request(
            "started",
            parts,
            pair(),
            memory_mb=1024,
            accel="tcg",
            wait_for="banner",
            timeout_s=30,
            shutdown_timeout_s=10,
            state_root=str(self.folder / "state"),
        )
        return replace(base, **changes)

    def run(self, state: str = "started", mode: str = "good", name: str = "vgpu-1", **changes: Any) -> Outcome:
        return manage(name, self.request(mode, state=state, **changes), self.progress)

    def paths(self, name: str = "vgpu-1") -> HostPaths:
        return HostPaths(name, str(self.folder / "state"))

    def state(self, name: str = "vgpu-1") -> HostState:
        state = self.paths(name).load()
        assert state is not None
        return state


@pytest.fixture
def lab(tmp_path: Path, host_files: dict[str, str], progress):
    lab = Lab(tmp_path, host_files, progress)
    yield lab
    manage_all(lab.request(state="absent"), progress)


def alive(state: HostState) -> list[str]:
    return [program.name for program in state.programs() if program.ref.is_alive()]


def await_gone(pid: int) -> None:
    for _try in range(200):
        try:
            with open(f"/proc/{pid}/stat") as stream:
                if ") Z " in stream.read():
                    return
        except FileNotFoundError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} still runs")


def test_start_twice_stop_start_and_remove(lab: Lab):
    first = lab.run()
    assert first.differences.changed and first.status == "running" and first.actions == ["start"]
    state = lab.state()
    assert alive(state) == ["device server", "qemu"]
    assert state.addresses == {"gpu0": "0000:41:00.0", "gpu1": "0000:81:00.0"}
    with socket.create_connection(("127.0.0.1", state.ssh_port), timeout=5) as connection:
        assert connection.recv(100).startswith(b"SSH-2.0")
    assert {"device_servers", "boot", "nested_guard"} <= set(first.seconds)

    second = lab.run()
    assert (second.differences.changed, second.actions, second.found.status) == (False, [], "running")
    assert lab.state().qemu == state.qemu

    stopped = lab.run("stopped")
    assert stopped.differences.diff() == {"before": {"status": "running"}, "after": {"status": "stopped"}}
    assert alive(state) == [] and not os.path.exists(state.runtime)
    assert os.path.exists(lab.paths().disk), "a host that was shut down keeps its disk"
    assert not lab.run("stopped").differences.changed

    disk = os.stat(lab.paths().disk).st_ino
    again = lab.run()
    assert again.actions == ["start"] and os.stat(lab.paths().disk).st_ino == disk
    assert lab.state().ssh_port == state.ssh_port, "the port is kept when it is free"

    removed = lab.run("absent")
    assert removed.actions == ["remove"] and not os.path.exists(lab.paths().folder)
    assert not lab.run("absent").differences.changed


def test_restart_starts_anew(lab: Lab):
    lab.run()
    before = lab.state()
    outcome = lab.run("restarted")
    assert outcome.differences.changed and outcome.actions == ["stop", "start"]
    assert alive(before) == [] and alive(lab.state()) == ["device server", "qemu"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"memory_mb": 1536}, "memory_mb"),
        ({"kernel_arguments": "debug"}, "kernel_arguments"),
        ({"machine": replace(pair(), numa_nodes=2)}, "machine_digest"),
    ],
)
def test_other_settings_restart_it_and_are_in_the_diff(lab: Lab, changes: dict[str, Any], key: str):
    lab.run()
    before = lab.state()
    foretold = lab.run(check_mode=True, **changes)
    assert key in foretold.differences.names and alive(before)
    outcome = lab.run(**changes)
    assert outcome.differences.names == foretold.differences.names
    assert outcome.actions == ["stop", "start"]
    assert lab.state().qemu != before.qemu
    assert not lab.run(**changes).differences.changed


def test_check_mode_changes_nothing(lab: Lab):
    outcome = lab.run(check_mode=True)
    assert outcome.differences.changed and outcome.status == "running"
    assert not os.path.exists(lab.paths().folder)
    assert not os.path.exists(lab.folder / "cache")
    lab.run()
    for state in ("stopped", "absent", "restarted"):
        assert lab.run(state, check_mode=True).differences.changed
    assert alive(lab.state()) == ["device server", "qemu"]


@pytest.mark.parametrize("victim", ["qemu", "device server"])
def test_a_crash_is_noticed_told_and_repaired(lab: Lab, victim: str, said):
    lab.run()
    before = lab.state()
    program = next(program for program in before.programs() if program.name == victim)
    os.kill(program.pid, signal.SIGKILL)
    await_gone(program.pid)
    outcome = lab.run()
    assert outcome.found.status == "crashed"
    assert f"{victim} (pid {program.pid}) is gone" in outcome.found.reason and program.log in outcome.found.reason
    assert outcome.found.logs[victim]
    assert outcome.actions == ["clean up", "start"]
    assert alive(before) == [] and alive(lab.state()) == ["device server", "qemu"]
    assert "cleaning up" in said()


def test_a_crashed_host_can_be_stopped_and_loses_its_disk(lab: Lab):
    lab.run()
    before = lab.state()
    assert before.qemu is not None
    os.kill(before.qemu.pid, signal.SIGKILL)
    await_gone(before.qemu.pid)
    outcome = lab.run("stopped")
    assert outcome.actions == ["clean up"] and alive(before) == []
    assert not os.path.exists(lab.paths().disk)


def test_a_host_that_runs_but_does_not_answer_is_started_anew(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    lab.run()
    state = lab.state()
    assert state.qemu is not None
    os.kill(state.qemu.pid, signal.SIGSTOP)
    monkeypatch.setattr(managing, "RESPONSE_TIMEOUT_S", 0.5)
    outcome = lab.run()
    assert outcome.found.status == "crashed" and "did not answer" in outcome.found.reason
    assert alive(state) == [] and alive(lab.state()) == ["device server", "qemu"]


def test_one_that_ignores_the_power_button_is_switched_off(lab: Lab, said):
    lab.run(mode="stubborn")
    state = lab.state()
    outcome = lab.run("stopped", shutdown_timeout_s=0.5)
    assert outcome.status == "stopped" and alive(state) == []
    assert "switching off" in said()
    assert not os.path.exists(lab.paths().disk)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("dies", "QEMU ended with status 1.*could not load the firmware"),
        ("panic", "its kernel panicked: .*Unable to mount root fs"),
        ("silent", r"no ssh login after \d+ s: nothing answers on the ssh port.*Linux version"),
    ],
)
def test_a_start_that_fails_says_why_and_leaves_nothing(lab: Lab, mode: str, message: str):
    with pytest.raises(FleetError, match=message) as caught:
        lab.run(mode=mode, timeout_s=5)
    assert caught.value.details["logs"]["qemu"]
    state = lab.state()
    assert state.status == "stopped" and alive(state) == []
    assert not os.path.exists(state.runtime) and not os.path.exists(lab.paths().disk)
    assert os.path.exists(lab.paths().qemu_log)
    assert lab.run().status == "running"


def test_a_port_that_was_taken_meanwhile_is_given_up(lab: Lab, said):
    outcome = lab.run(mode=f"taken:{lab.folder / 'mark'}")
    assert outcome.status == "running" and "was taken meanwhile, trying another" in said()
    first = Path(lab.paths().qemu_log + ".1").read_text()
    assert "Could not set up host forwarding" in first
    assert not lab.run(mode=f"taken:{lab.folder / 'mark'}").differences.changed


def test_several_hosts_at_once_get_ports_of_their_own(lab: Lab):
    names = ["vgpu-1", "vgpu-2", "vgpu-3"]
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda name=name: outcomes.append(lab.run(name=name))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({lab.state(name).ssh_port for name in names}) == 3
    assert all(outcome.status == "running" for outcome in outcomes) and len(outcomes) == 3
    gone = manage_all(lab.request(state="absent"), lab.progress)
    assert [(outcome.name, outcome.status) for outcome in gone] == [(name, "absent") for name in names]


def test_two_runs_for_one_host_start_it_once(lab: Lab):
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda: outcomes.append(lab.run())) for _run in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.differences.changed for outcome in outcomes) == [False, True]


def test_a_host_that_another_run_holds_is_not_waited_for_without_end(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(managing, "LOCK_MARGIN_S", 0.0)
    with lab.paths().guard(1.0), pytest.raises(DeadlineExpired, match="still locked"):
        lab.run("stopped", timeout_s=0.1, shutdown_timeout_s=0.1)


def test_an_interrupted_start_is_cleaned_up_by_the_next_run(lab: Lab):
    code = (
        "import sys\n"
        "from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress\n"
        "from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.manage import *\n"
        "from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.parts import PartsRequest\n"
        "from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.host_support import pair\n"
        f"parts = PartsRequest({str(lab.folder / 'cache')!r}, qemu_command={tuple(fake_qemu('silent'))!r}, image={lab.files!r})\n"
        f"request = Request('started', parts, pair(), memory_mb=1024, accel='tcg', timeout_s=60, state_root={str(lab.folder / 'state')!r})\n"
        "manage('vgpu-1', request, Progress(None, 'x'))\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code])
    while True:
        assert run.poll() is None
        state = lab.paths().load() if os.path.exists(lab.paths().state) else None
        if state is not None and state.qemu is not None:
            break
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert alive(state) == ["device server", "qemu"]
    outcome = lab.run()
    assert (outcome.found.status, outcome.actions) == ("stale", ["clean up", "start"])
    assert alive(state) == [] and alive(lab.state()) == ["device server", "qemu"]


def test_processes_of_an_earlier_boot_are_not_touched(lab: Lab):
    lab.run()
    state = lab.state()
    innocent = subprocess.Popen(["sleep", "60"])
    try:
        assert state.qemu is not None
        lab.run("stopped")
        # The state of a machine that lost its power: the numbers now belong to another process.
        ours = replace(state.qemu, pid=innocent.pid, start_time=start_time_of(innocent.pid) or 0)
        old = replace(state, status="running", boot="another", qemu=ours)
        lab.paths().save(old)
        outcome = lab.run()
        assert outcome.found.status == "stale" and "was booted" in outcome.found.reason
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_a_folder_without_state_is_cleaned_up(lab: Lab):
    os.makedirs(lab.paths().folder)
    assert lab.run().found.status == "stale"
    assert alive(lab.state()) == ["device server", "qemu"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of somebody else's")
def test_a_runtime_folder_of_somebody_else_is_not_used(tmp_path: Path):
    (tmp_path / "base").mkdir()
    os.chown(tmp_path / "base", 12345, 12345)
    with pytest.raises(FleetError, match="belongs to another user"):
        make_private(str(tmp_path / "base" / "gpulab-fleet" / "x"))


LISTENS = """
import os, socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("serving", sys.argv[1], os.environ["VFIO_USER_SOCKET"] == sys.argv[1], flush=True)
time.sleep(300)
"""


def with_server(command: tuple[str, ...] = (), socket_path: str | None = None):
    return machine(
        PcieRoot("pci0000:40", 0, (device("gpu0", "0000:41:00.0", server=DeviceServer(command, socket_path)),))
    )


def test_a_program_of_the_users_own_has_the_same_life(lab: Lab):
    described = with_server((sys.executable, "-c", LISTENS, "{socket}"))
    lab.run(machine=described)
    state = lab.state()
    assert alive(state) == ["server of gpu0", "qemu"] and state.devices is None
    log = Path(lab.paths().server_log("gpu0"))
    assert log.read_text().startswith("serving ") and log.read_text().endswith(" True\n")
    assert str(log) in [program.log for program in state.programs()]
    os.kill(state.servers[0].pid, signal.SIGKILL)
    await_gone(state.servers[0].pid)
    assert "server of gpu0" in lab.run(machine=described).found.reason
    lab.run("absent")
    assert alive(state) == []


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (
            with_server(("/bin/sh", "-c", "echo no GPU here; exit 3")),
            "server of gpu0 ended with status 3 at its start.*no GPU here",
        ),
        (with_server(("/nowhere/server",)), "cannot start /nowhere/server"),
        (with_server((), "/nowhere/gpu.sock"), "served at /nowhere/gpu.sock, but there is no socket"),
    ],
)
def test_a_users_program_that_does_not_serve_is_told(lab: Lab, described, message: str):
    with pytest.raises(FleetError, match=message):
        lab.run(machine=described)
    assert alive(lab.state()) == []


def test_hosts_that_no_inventory_names_are_found(lab: Lab):
    lab.run(name="forgotten")
    state = lab.state("forgotten")
    outcomes = manage_all(lab.request(state="stopped"), lab.progress)
    assert [(outcome.name, outcome.status) for outcome in outcomes] == [("forgotten", "stopped")]
    assert alive(state) == []


def test_present_starts_nothing(lab: Lab):
    outcome = lab.run("present")
    assert (outcome.status, outcome.actions) == ("absent", [])
    assert not os.path.exists(lab.paths().folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine": None}, "machine is not set"),
        ({"memory_mb": 1 << 30}, "memory_mb is 1073741824, but this computer has"),
        ({"accel": "kvm", "parts": PartsRequest("/nowhere")}, "sources is not set"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(lab: Lab, changes: dict[str, Any], message: str):
    with pytest.raises(FleetError, match=message):
        lab.run(**changes)
    assert not os.path.exists(lab.paths().folder)
