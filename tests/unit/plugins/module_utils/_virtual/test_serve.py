# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device server as a program: its configuration, its start and end, and that a copy of its files runs alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.serve import (
    SERVER_FILES,
    parse_config,
    process_start_time,
)
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.vfio_client import (
    GPU,
    SERVE,
    Client,
    eventually,
    running,
    write_config,
)

PACKAGE = "ansible_collections/gpulab/fleet/plugins/module_utils"


def item(**changes: Any) -> dict[str, Any]:
    return {"name": "gpu0", "socket": "/tmp/gpu0.sock", "spec": GPU, **changes}


def run(*arguments: str, timeout_s: float = 20) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", SERVE, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "no JSON object"),
        (
            {"devices": [item()], "log": "/l", "verbose": True, "port": 1},
            "unknown keys: port, verbose; known are devices, log, pidfile",
        ),
        ({"log": "/l"}, "devices takes a list of 1 to 256"),
        ({"devices": [], "log": "/l"}, "devices takes a list of 1 to 256"),
        ({"devices": [item()] * 257, "log": "/l"}, "devices takes a list of 1 to 256"),
        ({"devices": [{"name": "x"}], "log": "/l"}, r"devices\[0\] takes an object with name, socket and spec"),
        ({"devices": [item(name="")], "log": "/l"}, r"devices\[0\].name is ''"),
        ({"devices": [item(name="a\nb")], "log": "/l"}, r"devices\[0\].name is 'a\\nb'"),
        ({"devices": [item(socket=3)], "log": "/l"}, r"devices\[0\].socket is 3"),
        ({"devices": [item(), item(name="gpu1")], "log": "/l"}, "devices have the same socket: /tmp/gpu0.sock"),
        ({"devices": [item(), item(socket="/x")], "log": "/l"}, "devices have the same name: gpu0"),
        ({"devices": [item(spec={})], "log": "/l"}, r"devices\[0\].spec.vendor_id is None"),
        ({"devices": [item()]}, "log is None"),
        ({"devices": [item()], "log": "/l", "pidfile": 1}, "pidfile is 1"),
    ],
)
def test_a_configuration_that_cannot_be_served(raw: Any, message: str) -> None:
    with pytest.raises(FleetError, match=message):
        parse_config(raw)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ('{"devices": 1, "log": "/l"}', "devices takes a list"),
        (None, "cannot be read: No such file"),
    ],
)
def test_one_message_for_a_bad_configuration(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    result = run("--config", str(path))
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_no_message_is_lost_between_start_and_end(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"gpu0": GPU, "gpu1": GPU}, pidfile=str(tmp_path / "pid"))
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", SERVE, "--config", str(config), "--ready-fd", str(writing)], pass_fds=[writing]
    )
    os.close(writing)
    with open(reading, encoding="ascii") as stream:
        assert stream.read() == "ready\n"
    # Ready means that all sockets take connections.
    with Client(str(tmp_path / "gpu0.sock")), Client(str(tmp_path / "gpu1.sock")):
        pid = json.loads((tmp_path / "pid").read_text())
        assert pid == {"pid": process.pid, "start_time": process_start_time(process.pid)}
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "log"]
    log = (tmp_path / "log").read_text()
    assert log.splitlines()[0].endswith(f" started, pid {process.pid}, devices: gpu0, gpu1")
    assert log.count("the server stops") == 2
    assert log.splitlines()[-1].endswith(" stopped")
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop_it(tmp_path: Path, number: signal.Signals) -> None:
    config, ready = write_config(tmp_path, {"gpu0": GPU}), tmp_path / "ready"
    ready.write_text("of another run")
    process = subprocess.Popen([sys.executable, "-m", SERVE, "--config", str(config), "--ready-file", str(ready)])
    eventually(lambda: ready.exists() and ready.read_text() == f"{process.pid}\n", "the server")
    process.send_signal(number)
    assert process.wait(10) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "log"]


def test_a_socket_of_a_dead_server_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "gpu0.sock"))
    with running(tmp_path, {"gpu0": GPU}) as server, Client(server.socket("gpu0")) as client:
        assert client.read(7, 0, 2) == b"\xde\x10"


def test_a_socket_that_is_served_is_left_alone(tmp_path: Path) -> None:
    with running(tmp_path, {"gpu0": GPU}) as server:
        second = tmp_path / "second"
        second.mkdir()
        config = json.loads((tmp_path / "config.json").read_text())
        config["devices"].insert(0, item(name="gpu1", socket=str(second / "gpu1.sock")))
        config["log"] = str(second / "log")
        config["pidfile"] = str(tmp_path / "pid")
        (tmp_path / "pid").write_text("of the first")
        (second / "config.json").write_text(json.dumps(config))
        result = run("--config", str(second / "config.json"), "--ready-file", str(second / "ready"))
        assert result.returncode == 2
        assert "Another process listens on the socket" in result.stderr
        assert sorted(path.name for path in second.iterdir()) == ["config.json", "log"], "all sockets or none"
        assert (tmp_path / "pid").read_text() == "of the first"
        with Client(server.socket("gpu0")) as client:
            assert client.read(7, 0, 2) == b"\xde\x10"


@pytest.mark.parametrize(
    ("name", "message"),
    [("x" * 120, "is longer than the 107 bytes"), ("no/such/folder", "No such file"), ("file", "is no socket")],
)
def test_a_socket_that_cannot_be(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("precious")
    config = {"devices": [item(socket=str(tmp_path / name))], "log": str(tmp_path / "log")}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = run("--config", str(tmp_path / "config.json"))
    assert result.returncode == 2
    assert message in result.stderr
    assert message in (tmp_path / "log").read_text()
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize(("option", "value"), [("--ready-file", "{0}/none/ready"), ("--ready-fd", "77")])
def test_a_starter_that_cannot_be_told(tmp_path: Path, option: str, value: str) -> None:
    config = write_config(tmp_path, {"gpu0": GPU})
    result = run("--config", str(config), option, value.format(tmp_path))
    assert result.returncode == 2
    assert "cannot say that it is ready" in result.stderr
    assert not (tmp_path / "gpu0.sock").exists()


def test_a_copy_of_its_files_runs_alone(tmp_path: Path, checkout: Path) -> None:
    """As it is installed: a tree of nothing but these files, an empty environment, an interpreter without site-packages."""
    library = tmp_path / "lib"
    for name in SERVER_FILES:
        target = library / PACKAGE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(checkout / "plugins" / "module_utils" / name, target)
    config = write_config(tmp_path, {"gpu0": GPU})
    process = subprocess.Popen(
        [sys.executable, "-S", "-m", SERVE, "--config", str(config), "--ready-file", str(tmp_path / "ready")],
        env={"PYTHONPATH": str(library)},
        cwd="/",
        stderr=subprocess.PIPE,
    )
    try:
        eventually(lambda: (tmp_path / "ready").exists() or process.poll() is not None, "the server")
        assert process.poll() is None
        with Client(str(tmp_path / "gpu0.sock")) as client:
            assert client.read(7, 0, 2) == b"\xde\x10"
    finally:
        process.terminate()
        _output, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, b"")


def test_the_files_it_names_are_those_that_it_imports(checkout: Path) -> None:
    """One file too few would be found by the copy; one too many would be found here."""
    probe = f"import sys, {SERVE}\nprint('\\n'.join(sorted(n for n in sys.modules if n.startswith('ansible_collections.gpulab.fleet.plugins'))))"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    prefix = PACKAGE.replace("/", ".") + "."
    files = {
        name[len(prefix) :].replace(".", "/") + ".py" for name in loaded if name.count(".") == prefix.count(".") + 1
    }
    assert files == set(SERVER_FILES)
