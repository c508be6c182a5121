# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One start of a virtual host, step by step: the users' servers, ours, the guard, QEMU, ssh. Private to the collection."""

from __future__ import annotations

import os
import stat
from typing import Callable, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common import ports
from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline, poll
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import write_json_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import excerpt, tail
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import Child, spawn
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import serve
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.devices import (
    SERVED_BY_COMMAND,
    SERVED_BY_SOCKET,
    SERVED_HERE,
    DeviceSpec,
    device_specs,
    server_devices,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hostplan import HostPlan
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.install import install
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.nested import guard_arguments
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qemu import QemuInputs, command_line
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.ready import PortTaken, Started, await_ready
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import (
    RUNNING,
    HostPaths,
    HostState,
    Program,
)

QEMU, DEVICES = "qemu", "device server"
# The server parses a few kilobytes and binds its sockets; a loaded machine is allowed much more.
SERVER_TIMEOUT_S = 60.0
PORT_ATTEMPTS = 5


class LifecycleError(FleetError):
    """A program of the host did not start or did not end."""


class Starter:
    """One start: each step saves the state first, so that an interrupted run leaves a record of what it had started."""

    def __init__(
        self, plan: HostPlan, paths: HostPaths, state: HostState, progress: Progress, deadline: Deadline
    ) -> None:
        self.plan, self.paths, self.state = plan, paths, state
        self.progress, self.deadline = progress, deadline
        self.children: list[tuple[str, Child]] = []
        self.specs = device_specs(plan.machine)
        self.sockets = {
            spec.name: os.path.join(state.runtime, f"{index}.sock") for index, spec in enumerate(self.specs)
        }

    def run(self) -> None:
        self.paths.save(self.state)
        self._timed("device_servers", self._start_servers)
        guard = self._timed("nested_guard", self._guard)
        self._timed("boot", lambda: self._boot(guard))
        self.state.status = RUNNING
        self.paths.save(self.state)
        self.progress.say(f"up after {self.deadline.elapsed_s():.0f} s, ssh on port {self.state.ssh_port}")

    def _timed(self, name: str, step: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        before_s = self.deadline.elapsed_s()
        result = step()
        self.state.seconds[name] = round(self.deadline.elapsed_s() - before_s, 1)
        return result

    def _start_servers(self) -> tuple[str, ...]:
        for spec in self.specs:
            if spec.served == SERVED_BY_COMMAND:
                self._start_own_server(spec)
            elif spec.served == SERVED_BY_SOCKET and not _is_socket(str(spec.socket)):
                raise LifecycleError(
                    f"device {spec.name!r} is to be served at {spec.socket}, but there is no socket; start its program first"
                )
        if any(spec.served == SERVED_HERE for spec in self.specs):
            self._start_device_server()
        return ()

    def _start_own_server(self, spec: DeviceSpec) -> None:
        """A program of the user's own: `{socket}` in its words becomes the path where it has to listen."""
        socket = spec.socket or self.sockets[spec.name]
        self.sockets[spec.name] = socket
        log = self.paths.server_log(spec.name)
        _rotate(log)
        self.progress.say(f"starting the program that serves {spec.name}")
        name = f"server of {spec.name}"
        child = spawn([word.replace("{socket}", socket) for word in spec.command], log, {"VFIO_USER_SOCKET": socket})
        self.state.servers.append(Program(name, child.ref.pid, child.ref.start_time, log))
        self.children.append((name, child))
        self.paths.save(self.state)
        self._await(name, child, log, lambda: _is_socket(socket), f"the socket {socket}")

    def _start_device_server(self) -> None:
        log, ready = self.paths.devices_log, os.path.join(self.state.runtime, "devices.ready")
        _rotate(log)
        if os.path.exists(ready):
            os.unlink(ready)
        config = {"devices": server_devices(self.specs, self.sockets), "log": log}
        write_json_atomic(self.paths.devices_config, config)
        source = install(serve.__name__, self.paths.server_folder)
        self.progress.say(f"starting the device server for {len(server_devices(self.specs, self.sockets))} functions")
        argv = [self.plan.python, "-m", serve.__name__, "--config", self.paths.devices_config, "--ready-file", ready]
        child = spawn(argv, log, {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"})
        self.state.devices = Program(DEVICES, child.ref.pid, child.ref.start_time, log)
        self.children.append((DEVICES, child))
        self.paths.save(self.state)
        self._await(DEVICES, child, log, lambda: os.path.exists(ready), "its sockets")

    def _await(self, name: str, child: Child, log: str, is_ready: Callable[[], bool], what: str) -> None:
        def probe() -> Optional[bool]:
            if is_ready():
                return True
            if child.exit_status() is not None:
                raise LifecycleError(
                    f"the {name} ended with status {child.exit_status()} at its start. {excerpt(log)}",
                    log=log,
                    excerpt=tail(log),
                )
            return None

        limit_s = min(SERVER_TIMEOUT_S, max(self.deadline.remaining_s(), 1.0))
        poll(Deadline(limit_s), probe, 0.05, f"{what} of the {name}", lambda: excerpt(log))

    def _guard(self) -> tuple[str, ...]:
        if self.plan.accel.name != "tcg" or not self.plan.nested_guard:
            return ()
        return guard_arguments(self.plan.sources, self.paths.nested_folder, self.plan.hypervisor)

    def _boot(self, guard: tuple[str, ...]) -> tuple[str, ...]:
        taken: list[int] = []
        while True:
            self.state.ssh_port = ports.choose(self.state.ssh_port or None, taken)
            qemu = self._start_qemu(guard)
            try:
                await_ready(Started(self.state, qemu, self.children), self.plan.wait, self.progress, self.deadline)
                return ()
            except PortTaken:
                taken.append(self.state.ssh_port)
                if len(taken) >= PORT_ATTEMPTS or self.deadline.expired():
                    raise
                self.progress.say(f"port {self.state.ssh_port} was taken meanwhile, trying another")

    def _start_qemu(self, guard: tuple[str, ...]) -> Child:
        plan, paths, state = self.plan, self.paths, self.state
        _rotate(paths.qemu_log)
        _rotate(paths.console)
        inputs = QemuInputs(
            name=plan.name,
            cpus=plan.size.cpus,
            memory_mb=plan.size.memory_mb,
            kernel=plan.image.kernel,
            initrd=plan.image.initrd,
            disk=paths.disk,
            console=paths.console,
            qmp_socket=state.qmp,
            monitor_socket=os.path.join(state.runtime, "monitor"),
            ssh_port=state.ssh_port,
            sockets=self.sockets,
            accel=plan.accel.name,
            public_key=plan.key.public,
            kernel_arguments=plan.kernel_arguments,
            plugin_arguments=guard,
            extra_arguments=plan.qemu_arguments,
            shared_memory=any(spec.served in (SERVED_BY_COMMAND, SERVED_BY_SOCKET) for spec in self.specs),
        )
        argv = [*plan.hypervisor.command, *command_line(plan.machine, inputs, plan.topology)]
        write_json_atomic(
            os.path.join(paths.folder, "qemu.json"), {"argv": argv, "environment": dict(plan.hypervisor.environ)}
        )
        self.progress.say(f"starting QEMU {plan.hypervisor.version} ({plan.accel.name}: {plan.accel.reason})")
        child = spawn(argv, paths.qemu_log, plan.hypervisor.environ)
        state.qemu = Program(QEMU, child.ref.pid, child.ref.start_time, paths.qemu_log)
        paths.save(state)
        return child


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _rotate(path: str) -> None:
    """The log of the start before is kept as PATH.1."""
    if os.path.exists(path):
        os.replace(path, path + ".1")
