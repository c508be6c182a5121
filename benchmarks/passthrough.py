# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts a virtual host with one H100, tests the GPU in a VM, and prints which step took how long.

Usage: scripts/bench does the same for a whole playbook and its tasks; this one looks inside the steps.
    python benchmarks/passthrough.py [ansible-playbook's options]
The host has a state folder of its own and is ended afterwards. Nothing is judged: compare two runs of the same machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "playbooks" / "collections"))
sys.path.insert(0, str(CHECKOUT / "benchmarks"))

from tasks import sections

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.ready import ssh_command
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import HostPaths

HOST = "vgpu-bench"
VM = "gpulab-vm-0000-41-00-0"
INVENTORY = {"all": {"children": {"virtual_gpu_hosts": {"hosts": {HOST: {"virtual_gpu_host_machine": "lab-h100"}}}}}}
EVENTS = "/run/gpulab-bench-events.jsonl"
# Shown line: how the task's name begins in the playbook's output.
TASKS = (
    ("look at the host, LXD's first answer and set-up", ("Look at the host", "Make LXD", "Start LXD", "Initialise")),
    ("pylxd to the host", ("Fetch the packages", "Install the packages", "Bring the packages", "Make the virtual env")),
    ("huge pages", ("Ask the kernel",)),
    ("read the GPUs", ("Read the host's GPUs",)),
    ("images to the host", ("Sum up", "Copy the image")),
    ("VM: one call until its agent answers", ("Start a VM",)),
    ("checks in the guest", ("Look from inside the VM",)),
    ("removal and release", ("Remove the VM",)),
)


def play(environ: Mapping[str, str], *arguments: str) -> tuple[int, list[tuple[str, str, float]]]:
    """Runs a playbook, shows its output, and returns its tasks with their seconds."""
    argv = ["ansible-playbook", *arguments]
    started = time.monotonic()
    lines: list[tuple[float, str]] = [(0.0, "")]
    with subprocess.Popen(
        argv, cwd=CHECKOUT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            lines.append((time.monotonic() - started, line))
            print(line, end="", flush=True)
    lines.append((time.monotonic() - started, ""))
    return run.returncode, sections(lines)


def grouped(found: Sequence[tuple[str, str, float]]) -> list[tuple[str, float]]:
    """The playbook's tasks as the steps that a person thinks in; everything else is one row."""
    rows = {name: 0.0 for name, _beginnings in TASKS}
    rest = 0.0
    for _play, task, seconds in found:
        # Tasks of a role are shown as `namespace.collection.role : task`.
        title = task.rpartition(" : ")[2]
        step = next((name for name, beginnings in TASKS if title.startswith(beginnings)), None)
        if step is None:
            rest += seconds
        else:
            rows[step] += seconds
    return [*rows.items(), ("everything else", rest)]


def lxd_steps(text: str) -> list[tuple[str, float]]:
    """From LXD's lifecycle events: how far apart creation, start, the agent's first answer and deletion are."""
    times: dict[str, float] = {}
    for line in text.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        metadata: dict[str, Any] = event.get("metadata") or {}
        if str(metadata.get("source", "")).rsplit("/", maxsplit=1)[-1] == VM:
            # Go prints nanoseconds, datetime takes microseconds.
            stamp, zone = event["timestamp"][:19], event["timestamp"][-6:]
            fraction = event["timestamp"][19:].partition(".")[2].rstrip("Z").partition("+")[0][:6] or "0"
            moment = datetime.fromisoformat(stamp + (zone if zone[0] in "+-" else "+00:00")).timestamp()
            times.setdefault(metadata["action"], moment + float(f"0.{fraction}"))
    pairs = (
        ("LXD: created to started", "instance-created", "instance-started"),
        ("LXD: started to first command in the guest", "instance-started", "instance-exec"),
        ("LXD: started to stopped", "instance-started", "instance-stopped"),
    )
    return [(name, times[end] - times[begin]) for name, begin, end in pairs if begin in times and end in times]


def guest_steps(report: Mapping[str, Any]) -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    for check in report["checks"]:
        evidence = check["evidence"] or {}
        if check["name"] == "start" and evidence.get("ready"):
            rows.append(("VM: begin of the call to the agent's answer", float(evidence["ready"]["seconds"])))
        if check["name"] == "guest.boot":
            rows.append(("guest: uptime when the checks look", float(evidence["uptime_s"])))
    return rows


def show(title: str, rows: Sequence[tuple[str, float]]) -> None:
    print(f"\n{title}")
    for name, seconds in rows:
        print(f"{seconds:9.1f} s  {name}")


def bench(folder: Path, options: Sequence[str]) -> int:
    environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    (folder / "hosts.json").write_text(json.dumps(INVENTORY))
    # The first inventory brings the settings of virtual hosts, the second the host.
    where = ["-i", "inventories/virtual", "-i", str(folder / "hosts.json"), "--limit", f"{HOST},localhost"]
    try:
        returncode, started = play(environ, *where, "playbooks/virtual_hosts.yml")
        if returncode:
            return returncode
        state = HostPaths(HOST, str(folder / "state" / "gpulab-fleet")).load()
        assert state is not None
        begun = time.monotonic()
        ssh = [*ssh_command(state, 300.0)]
        monitor = (
            f"lxc info >/dev/null && systemd-run --quiet --unit gpulab-bench --setenv HOME=/root --property StandardOutput=file:{EVENTS} "
            "lxc monitor --type lifecycle --format json"
        )
        subprocess.run([*ssh, monitor], check=True)
        lxd_ready_s = time.monotonic() - begun
        variables = ["-e", "tests=vm", "-e", "tiers=pci", "-e", f"lab_report_dir={folder / 'reports'}"]
        returncode, tested = play(environ, *where, "playbooks/passthrough.yml", *variables, *options)
        events = subprocess.run([*ssh, f"cat {EVENTS}"], capture_output=True, text=True, check=False).stdout
        host = [(name.replace("_", " "), seconds) for name, seconds in state.seconds.items()]
        whole = sum(seconds for _play, _task, seconds in started)
        show("Host", [*host, ("playbook virtual_hosts in all", whole), ("LXD's first answer", lxd_ready_s)])
        show("Passthrough, by steps", grouped(tested))
        report = folder / "reports" / "latest" / "report.json"
        if report.is_file():
            show("Inside the VM test", [*lxd_steps(events), *guest_steps(json.loads(report.read_text()))])
        show("In all", [("playbook passthrough", sum(seconds for _play, _task, seconds in tested))])
        return returncode
    finally:
        play(environ, *where, "playbooks/teardown.yml")


def main() -> int:
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    with tempfile.TemporaryDirectory(prefix="gpulab-bench-", dir="/var/tmp") as folder:
        return bench(Path(folder), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
