# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that serves the devices of a configuration file until it gets SIGTERM; private to the collection.

It is copied, with the modules of ``SERVER_FILES``, to where it outlives the play that starts it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.eventlog import EventLog
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.server import Endpoint, Server
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.spec import FunctionSpec, parse_spec

# Everything that must be there to run this, as paths below plugins/module_utils.
SERVER_FILES: tuple[str, ...] = (
    "_common/errors.py",
    "_virtual/alarms.py",
    "_virtual/behaviour.py",
    "_virtual/capabilities.py",
    "_virtual/channel.py",
    "_virtual/config_space.py",
    "_virtual/device_model.py",
    "_virtual/eventlog.py",
    "_virtual/interrupts.py",
    "_virtual/listener.py",
    "_virtual/regions.py",
    "_virtual/serve.py",
    "_virtual/server.py",
    "_virtual/session.py",
    "_virtual/spec.py",
    "_virtual/vfio_user.py",
)

MAX_DEVICES = 256
WANTED_OPEN_FILES = 65536


class ConfigError(FleetError):
    """A configuration that cannot be served."""


@dataclass(frozen=True)
class ServerConfig:
    """What to serve, and where to write what happens."""

    devices: tuple[tuple[str, str, FunctionSpec], ...]
    log: str
    pidfile: Optional[str] = None


def parse_config(raw: object) -> ServerConfig:
    """The configuration in plain data; errors name the path of what is wrong."""
    if not isinstance(raw, Mapping):
        raise ConfigError("The configuration is no JSON object.")
    unknown = sorted(set(raw) - {"devices", "log", "pidfile"})
    if unknown:
        raise ConfigError(f"The configuration has unknown keys: {', '.join(unknown)}; known are devices, log, pidfile.")
    items = raw.get("devices")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_DEVICES:
        raise ConfigError(f"devices takes a list of 1 to {MAX_DEVICES} devices.")
    devices: list[tuple[str, str, FunctionSpec]] = []
    for number, item in enumerate(items):
        path = f"devices[{number}]"
        if not isinstance(item, Mapping) or set(item) != {"name", "socket", "spec"}:
            raise ConfigError(f"{path} takes an object with name, socket and spec.")
        devices.append(
            (
                _text(item["name"], f"{path}.name"),
                _text(item["socket"], f"{path}.socket"),
                parse_spec(item["spec"], f"{path}.spec"),
            )
        )
    for what, values in (
        ("name", [name for name, _socket, _spec in devices]),
        ("socket", [path for _name, path, _spec in devices]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ConfigError(f"devices have the same {what}: {', '.join(twice)}.")
    pidfile = raw.get("pidfile")
    return ServerConfig(
        tuple(devices), _text(raw.get("log"), "log"), None if pidfile is None else _text(pidfile, "pidfile")
    )


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ConfigError(f"{path} is {value!r}; it takes a text.")
    return value


def read_config(path: str) -> ServerConfig:
    """The configuration in a JSON file."""
    try:
        with open(path, encoding="utf-8") as stream:
            raw = json.load(stream)
    except OSError as error:
        raise ConfigError(f"The configuration {path!r} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigError(f"The configuration {path!r} is no JSON: {error}.") from error
    return parse_config(raw)


def process_start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot (field 22 of /proc/<pid>/stat)."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
        return int(stream.read().rpartition(")")[2].split()[19])


def _write_file(path: str, text: str) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(temporary, path)


def _raise_open_files() -> None:
    """Clients hand over a descriptor a vector, so the usual soft limit of 1024 can be too small."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _stop_socket() -> socket.socket:
    """A socket that becomes readable with the first signal to stop."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    # The descriptor lives as long as the process.
    signal.set_wakeup_fd(writing.detach(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    return reading


def serve(config: ServerConfig, ready_file: Optional[str] = None, ready_fd: Optional[int] = None) -> None:
    """Serve until a signal says stop."""
    stop = _stop_socket()
    _raise_open_files()
    # What a crashed server left says nothing of this one.
    _remove_file(ready_file)
    try:
        log = EventLog(config.log)
    except OSError as error:
        raise ConfigError(f"The log {config.log!r} cannot be written: {error.strerror}.") from error
    pidfile: Optional[str] = None
    server = Server([Endpoint(name, path, spec, log.line) for name, path, spec in config.devices], log.line)
    try:
        server.listen()
        # Only now is it certain that no other server runs with this pidfile.
        pidfile = config.pidfile
        log.line(f"started, pid {os.getpid()}, devices: {', '.join(name for name, _path, _spec in config.devices)}")
        _announce(config, ready_file, ready_fd)
        server.run(stop.fileno())
        log.line("stopping by a signal")
    except FleetError as error:
        log.line(f"cannot serve: {error.message}")
        raise
    finally:
        server.close()
        _remove_file(pidfile)
        _remove_file(ready_file)
        log.line(f"stopped{f', {log.lost} lines of this log were lost' if log.lost else ''}")
        log.close()


def _remove_file(path: Optional[str]) -> None:
    if path is not None and os.path.isfile(path):
        os.unlink(path)


def _announce(config: ServerConfig, ready_file: Optional[str], ready_fd: Optional[int]) -> None:
    pid = os.getpid()
    try:
        if config.pidfile is not None:
            _write_file(config.pidfile, json.dumps({"pid": pid, "start_time": process_start_time(pid)}) + "\n")
        if ready_file is not None:
            _write_file(ready_file, f"{pid}\n")
        if ready_fd is not None:
            os.write(ready_fd, b"ready\n")
            os.close(ready_fd)
    except OSError as error:
        raise ConfigError(f"The server cannot say that it is ready: {error}.") from error


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run as a program; 0 after a signal to stop, 2 with one message when it cannot serve."""
    parser = argparse.ArgumentParser(prog="serve", description="Serve virtual PCI devices over vfio-user.")
    parser.add_argument("--config", required=True, help="JSON file: devices (name, socket, spec), log, pidfile")
    parser.add_argument("--ready-file", help="file that is written once all sockets listen")
    parser.add_argument("--ready-fd", type=int, help="descriptor that gets a line once all sockets listen")
    options = parser.parse_args(arguments)
    try:
        serve(read_config(options.config), options.ready_file, options.ready_fd)
    except FleetError as error:
        sys.stderr.write(error.message + "\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
