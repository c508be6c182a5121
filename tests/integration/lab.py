# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the integration tests share: virtual hosts in a state folder of their own, playbook runs, reports, and looks at a host over ssh."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import FileLock
from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import NAME, cache_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.ready import ssh_command
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import HostPaths, HostState, list_hosts

H100_HOST, MIXED_HOST, ODD_HOST = "vgpu-h100", "vgpu-mixed", "vgpu-odd"
H100 = "0000:41:00.0"
H100_VM = "gpulab-vm-0000-41-00-0"
MIB, GIB = 1 << 20, 1 << 30
H100_BARS = {0: 16 * MIB, 2: 128 * GIB, 4: 32 * MIB}
LXD_PYTHON = "/var/lib/gpulab-fleet/venv/bin/python"
# No test is about speed: these only keep a hang from lasting for ever.
START_LIMIT_S, PLAY_LIMIT_S, TEARDOWN_LIMIT_S, SSH_LIMIT_S = 4200.0, 1800.0, 300.0, 120.0
# What would steer a playbook from outside of its test.
STEERING = ("ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_CONFIG", "PYTHONPATH", "VM_RAM_MB", "VM_CPUS", "QEMU_OPTS")

Stream = Callable[..., Any]
Check = Mapping[str, Any]


@dataclass
class Lab:
    """The virtual hosts of this test session. The state folder is not the user's, so that hosts of theirs are never touched."""

    checkout: Path
    state_home: Path
    output: Path
    runs: int = 0
    started: bool = False
    fleet: Report | None = None
    failed: set[str] = field(default_factory=set)

    @property
    def state_root(self) -> str:
        return str(self.state_home / NAME)

    def play(
        self,
        stream: Stream,
        playbook: str | Path,
        *arguments: str,
        cwd: Path | None = None,
        timeout_s: float = PLAY_LIMIT_S,
        **environment: str,
    ) -> Run:
        """Runs a playbook as a person would: nothing of the test's own environment but PATH leads it to the collection."""
        self.runs += 1
        reports = self.output / f"run-{self.runs}"
        unset = [word for name in STEERING if name not in environment for word in ("-u", name)]
        argv = ["env", *unset, "ansible-playbook", str(playbook), "-e", f"lab_report_dir={reports}", *arguments]
        environment = {"XDG_STATE_HOME": str(self.state_home), **environment}
        done = stream(argv, cwd=cwd or self.checkout, timeout_s=timeout_s, **environment)
        return Run(done.returncode, done.output, done.seconds, reports)

    def module(
        self,
        stream: Stream,
        host: str,
        name: str,
        options: Mapping[str, object],
        *arguments: str,
        timeout_s: float = 600,
    ) -> dict[str, Any]:
        """The result of one module of the collection, called ad hoc."""
        argv = ["ansible", host, "-m", f"gpulab.fleet.{name}", "-a", json.dumps(options), *arguments]
        settings = {"ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "ANSIBLE_NOCOLOR": "1"}
        done = stream(argv, cwd=self.checkout, timeout_s=timeout_s, XDG_STATE_HOME=str(self.state_home), **settings)
        return ad_hoc_result(done.output, host)

    def ensure_started(self, stream: Stream) -> None:
        """Both hosts of inventories/virtual, once per session, by the playbook itself."""
        if self.started:
            return
        self.once("virtual hosts")
        run = self.play(stream, "playbooks/virtual_hosts.yml", timeout_s=START_LIMIT_S)
        assert run.returncode == 0, "the virtual hosts did not start; the output above says why"
        self.started = True
        self.failed.discard("virtual hosts")

    def once(self, what: str) -> None:
        """What takes minutes and failed is not tried again by each of the tests that need it; it has failed until it is discarded."""
        assert what not in self.failed, f"{what}: failed in an earlier test"
        self.failed.add(what)

    def state(self, host: str) -> HostState:
        state = HostPaths(host, self.state_root).load()
        assert state is not None, f"{host} has no state in {self.state_root}"
        return state

    def hosts(self) -> list[str]:
        return list_hosts(self.state_root)

    def with_odd(self) -> list[str]:
        """Inventories that name the small odd host as well."""
        return [
            f"--inventory={self.checkout}/{name}" for name in ("inventories/virtual", "tests/integration/inventory")
        ]

    def ssh(self, host: str, script: str, timeout_s: float = SSH_LIMIT_S, check: bool = True) -> str:
        """What a shell script prints on a virtual host."""
        argv = [*ssh_command(self.state(host), 60.0), script]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=False
        )
        assert not check or done.returncode == 0, f"{host}: {script!r} ended with {done.returncode}: {done.stderr}"
        return done.stdout

    def gpu_state(self, host: str, address: str) -> GpuState:
        """One look at what a test may have left: instances, QEMU processes, driver, override."""
        device = f"/sys/bus/pci/devices/{address}"
        script = (
            f"cat {device}/driver_override; readlink {device}/driver || echo -; pgrep -c -f '[-]name gpulab-' || true; "
            "lxc list --format csv --columns n"
        )
        override, driver, processes, *instances = self.ssh(host, script).splitlines()
        return GpuState(
            override="" if override == "(null)" else override.strip(),
            driver=driver.rpartition("/")[2].strip("-"),
            qemu_processes=int(processes),
            instances=tuple(name for name in instances if name.strip()),
        )

    def teardown(self) -> int:
        """Ends everything of this session; quiet, as nobody captures output any more when a session ends."""
        if not self.hosts():
            return 0
        self.keep_logs()
        argv = ["ansible-playbook", *self.with_odd(), str(self.checkout / "playbooks" / "teardown.yml")]
        environ = {**os.environ, "XDG_STATE_HOME": str(self.state_home)}
        with (self.output / "teardown.log").open("w") as log:
            done = subprocess.run(
                argv,
                cwd=self.checkout,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=TEARDOWN_LIMIT_S,
                check=False,
            )
        return done.returncode

    def keep_logs(self) -> None:
        """The logs go with their hosts; a failed test is understood by them."""
        for host in self.hosts():
            folder = self.output / "hosts" / host
            folder.mkdir(parents=True, exist_ok=True)
            for log in Path(HostPaths(host, self.state_root).folder).glob("*.log"):
                shutil.copyfile(log, folder / log.name)


@dataclass(frozen=True)
class GpuState:
    """What a host shows of a GPU and of the instances of tests."""

    override: str
    driver: str
    qemu_processes: int
    instances: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One run of a playbook."""

    returncode: int
    output: str
    seconds: float
    reports: Path

    def report(self) -> Report:
        path = self.reports / "latest" / "report.json"
        assert path.is_file(), f"the run left no report at {path}"
        return Report(json.loads(path.read_text()), path)

    def changed(self, host: str) -> int:
        """The recap's count for a host."""
        return recap(self.output)[host]["changed"]

    def says(self, *texts: str) -> None:
        """Each text is in the output, however Ansible wrapped it."""
        flat = _words(self.output)
        for text in texts:
            assert _words(text) in flat, f"the run does not say {text!r}"


@dataclass(frozen=True)
class Report:
    """A report.json with short ways to its checks."""

    raw: Mapping[str, Any]
    path: Path

    def checks(self, **wanted: str) -> list[Check]:
        return [check for check in self.raw["checks"] if all(check[key] == value for key, value in wanted.items())]

    def only(self, **wanted: str) -> Check:
        found = self.checks(**wanted)
        assert len(found) == 1, f"{len(found)} checks are {wanted}: {found}"
        return found[0]

    def failures(self) -> list[Check]:
        return self.checks(status="failed")

    def assert_passed(self) -> None:
        assert not self.failures(), self.failures()
        assert self.checks(status="passed"), "nothing passed"
        self.assert_reasons()

    def assert_reasons(self) -> None:
        """Whatever did not pass says why."""
        silent = [check for check in self.raw["checks"] if check["status"] != "passed" and not check["reason"]]
        assert not silent, f"checks without a reason: {silent}"


class HostScript(threading.Thread):
    """Runs a script on a host while a play is at work there, and calls `then` when it has succeeded."""

    def __init__(
        self, lab: Lab, host: str, script: str, timeout_s: float, then: Callable[[], None] | None = None
    ) -> None:
        super().__init__(daemon=True)
        self._lab, self._host, self._script, self._timeout_s, self._then = lab, host, script, timeout_s, then
        self.output = ""
        self.problem = "its time has not come"
        self.done_at = 0.0

    def run(self) -> None:
        try:
            self.output = self._lab.ssh(self._host, self._script, self._timeout_s)
            if self._then is not None:
                self._then()
            self.problem, self.done_at = "", time.monotonic()
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            self.problem = str(error)


def until_running(limit_s: int) -> str:
    """Shell: wait until the H100's VM is what LXD calls running; its QEMU's pid is in $pid then."""
    return (
        f"end=$(($(date +%s) + {limit_s})); while :; do pid=$(pgrep -o -f '[-]name {H100_VM}') && "
        f"lxc list --format csv --columns s '^{H100_VM}$' | grep -q -i running && break; "
        '[ $(date +%s) -lt $end ] || { echo "the VM was not seen running" >&2; exit 1; }; sleep 1; done; '
    )


def open_lab(checkout: Path, output: Path, lock_timeout_s: float = 5.0) -> tuple[Lab, FileLock]:
    """The lab of this checkout, and the lock that keeps it to one session; what an earlier session left is still in it."""
    mark = hashlib.sha256(str(checkout).encode()).hexdigest()[:10]
    home = Path(cache_dir()) / "integration-tests" / mark
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(str(home / "lock"), lock_timeout_s)
    lock.acquire()
    output.mkdir(parents=True, exist_ok=True)
    return Lab(checkout, home, output), lock


def _words(text: str) -> str:
    """Without what Ansible adds: line breaks, also behind a hyphen, and the quotes of YAML."""
    return re.sub(r"[\s'\"]", "", text)


def recap(output: str) -> dict[str, dict[str, int]]:
    """The counts of every host in the recap of ansible-playbook."""
    found: dict[str, dict[str, int]] = {}
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    for line in plain.rpartition("PLAY RECAP")[2].splitlines():
        match = re.match(r"^(\S+)\s+:\s+(ok=\d+.*)$", line)
        if match:
            found[match[1]] = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", match[2])}
    return found


def ad_hoc_result(output: str, host: str) -> dict[str, Any]:
    """The JSON that `ansible HOST -m MODULE` prints, warnings around it left out."""
    match = re.search(rf"^{re.escape(host)} \| [A-Z!]+ => (?=\{{)", output, re.MULTILINE)
    assert match, f"no result of {host} in: {output}"
    result: dict[str, Any] = json.JSONDecoder().raw_decode(output, match.end())[0]
    return result


def bars_of(check: Check) -> dict[int, int]:
    """Index and size of the BARs that a pci.bars check saw assigned in the guest."""
    bars = check["evidence"]["bars"]
    return {region["index"]: region["size_bytes"] for region in bars if region["assigned"] and not region["io"]}
