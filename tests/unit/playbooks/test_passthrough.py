# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passthrough playbook where no GPU is needed: settings, hosts that cannot be tested, and the report over all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_lxd import FakeLxd

ROOT = Path(__file__).resolve().parents[3]
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


class Run:
    """One run of the playbook in a folder of its own."""

    def __init__(self, folder: Path, hosts: dict[str, dict[str, object]], *arguments: str, **environment: str) -> None:
        (folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        command = ["ansible-playbook", "-i", "inventory.yml", "gpulab.fleet.passthrough", *arguments]
        ended = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        self.returncode, self.output = ended.returncode, ended.stdout + ended.stderr
        path = folder / "reports" / "latest" / "report.json"
        self.report: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None

    def reasons(self) -> dict[str, str]:
        """The reason of each host's one failed check."""
        assert self.report is not None, self.output
        assert {check["status"] for check in self.report["checks"]} == {"failed"}
        return {check["host"]: check["reason"] for check in self.report["checks"]}


@pytest.fixture
def ready_lxd() -> Iterator[Path]:
    """The folder of an LXD that is set up, and whose host needs nothing more."""

    class Lxd(FakeLxd):
        def _route(self, method: str, parts: list[str], *rest: Any) -> Any:
            known = {"storage-pools": ["/1.0/storage-pools/default"], "networks": []}
            if parts[0] in known:
                return 200, known[parts[0]], {}
            if parts == ["profiles", "default"]:
                return 200, self.profiles["default"], {}
            return super()._route(method, parts, *rest)

    with tempfile.TemporaryDirectory(prefix="lxd") as folder, Lxd(Path(folder)):
        yield Path(folder)


@pytest.mark.parametrize(
    ("arguments", "environment", "messages"),
    [
        (("-e", "vm_ram=2048"), {}, ["vm_ram is no variable of this playbook, did you mean vm_ram_mb?"]),
        (
            ("-e", "tests=vms", "-e", "gpus=41"),
            {},
            ["tests is 'vms'; give one or more of vm, container", "gpus is '41'"],
        ),
        ((), {"VM_RAM_MB": "8G"}, ["VM_RAM_MB in the environment is '8G'; give MiB"]),
    ],
)
def test_a_wrong_setting_ends_the_run_at_once(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], messages: list[str]
) -> None:
    run = Run(tmp_path, {"alpha": LOCAL, "beta": LOCAL}, *arguments, **environment)
    assert run.returncode == 2
    assert [message for message in messages if message not in run.output] == []
    assert run.output.count("fatal:") == 1
    assert "Test every GPU" not in run.output
    assert run.report is None


def test_hosts_that_cannot_be_tested_stop_nobody_and_are_all_in_the_report(tmp_path: Path, ready_lxd: Path) -> None:
    hosts: dict[str, dict[str, object]] = {
        "dead": {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_timeout": 5},
        "misset": {**LOCAL, "vm_cpus": "many"},
        # No function can have this address; what the machine that runs the tests has does not matter.
        "gpuless": {**LOCAL, "gpus": ["0000:ff:1f.7"]},
        "snakeless": {**LOCAL, "ansible_python_interpreter": "/nonexistent/python"},
    }
    run = Run(tmp_path, hosts, LXD_DIR=str(ready_lxd))
    assert run.returncode == 2
    reasons = run.reasons()
    assert set(reasons) == set(hosts)
    assert reasons["dead"].startswith(
        "dead cannot be reached: ssh: connect to host 127.0.0.1 port 1: Connection refused"
    )
    assert reasons["misset"].startswith("vm_cpus is 'many'; give a count such as 4")
    assert "0000:ff:1f.7" in reasons["gpuless"]
    assert "/nonexistent/python did not run on snakeless" in reasons["snakeless"]
    assert "0 passed, 4 failed, 0 skipped" in run.output
    assert all(f"FAILED {host} " in run.output for host in hosts)


def test_an_lxd_that_is_not_there_is_told_and_not_installed_against_ones_will(tmp_path: Path) -> None:
    # In check mode, or an LXD of this machine would be started.
    arguments = ("--limit", "alpha", "--check", "-e", "lxd_host_install=false")
    run = Run(tmp_path, {"alpha": LOCAL, "beta": LOCAL}, *arguments, LXD_DIR=str(tmp_path))
    assert run.returncode == 2
    # Which of the two depends on whether this machine has the program.
    assert "LXD does not answer on alpha" in run.output or "There is no LXD on alpha" in run.output
    assert "beta" not in run.output
    assert "0 passed, 1 failed, 0 skipped" in run.output
    assert run.report is None


def test_a_run_without_hosts_does_not_pass(tmp_path: Path) -> None:
    run = Run(tmp_path, {})
    assert run.returncode == 2
    assert "there is no host to test" in run.reasons()["localhost"]
