# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passthrough playbook in the three ways that people start it, and what the guest itself says of its GPU, memory, CPUs and boots."""

from __future__ import annotations

import json
import os
from datetime import datetime
from xml.etree import ElementTree

import pytest
from lab import H100, H100_BARS, H100_HOST, H100_VM, LXD_PYTHON, MIXED_HOST, Lab, Report, Run, Stream, bars_of
from whole_fleet import whole_fleet

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load

# The first test that runs may have to build the hosts.
pytestmark = pytest.mark.timeout(7200)

ONE_H100 = ("--limit", H100_HOST, "-e", f"gpus={H100}", "-e", "tests=vm")
EVENTS = "/run/gpulab-test-events.jsonl"
MONITOR = "gpulab-test-monitor"


def test_from_the_playbooks_folder(hosts: Lab, stream: Stream):
    """Literally `ansible-playbook passthrough.yml -e vm_ram_mb=8192`, for one GPU."""
    run = hosts.play(stream, "passthrough.yml", "-e", "vm_ram_mb=8192", *ONE_H100, cwd=hosts.checkout / "playbooks")
    # The pages of the large VM go back, so that this machine has them for the following tests.
    hosts.ssh(H100_HOST, "echo 1024 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    assert run.returncode == 0
    report = run.report()
    report.assert_passed()
    check_files(run, report)
    memory = report.only(name="guest.memory")["evidence"]
    assert memory["asked_mib"] == 8192
    assert 0.8 * 8192 - 64 <= (memory["system_ram_mib"] or memory["mem_total_mib"]) <= 8192
    bars = report.only(name="pci.bars", device=H100)
    assert bars_of(bars) == H100_BARS
    assert all(int(region["start"], 16) for region in bars["evidence"]["bars"]), "a BAR without an address"
    assert {check["test"] for check in report.checks(device=H100)} == {"vm"}


def check_files(run: Run, report: Report) -> None:
    """report.json by its schema, JUnit XML by its parser, and the link to the newest."""
    raw = report.raw
    assert raw["schema"] == 1
    assert datetime.fromisoformat(raw["started"]) <= datetime.fromisoformat(raw["finished"])
    assert sum(raw["summary"].values()) == len(raw["checks"])
    for check in raw["checks"]:
        assert {"host", "device", "test", "name", "status", "reason", "evidence", "seconds"} <= set(check)
    latest = run.reports / "latest"
    assert latest.is_symlink() and not os.path.isabs(os.readlink(latest))
    suites = ElementTree.parse(latest / "report.junit.xml").getroot()
    assert suites.tag == "testsuites"
    assert len(suites.findall("testsuite/testcase")) == len(raw["checks"]) == int(suites.attrib["tests"])
    assert int(suites.attrib["failures"]) == raw["summary"]["failed"] == len(suites.findall(".//failure"))
    run.says("report.json", H100)


def test_from_the_checkout_with_the_environment_twice(hosts: Lab, stream: Stream):
    """VM_RAM_MB and VM_CPUS are what the guest has. The second run of a kept VM changes nothing, and the VM was booted once."""
    # LXD's own events tell how often the VM was started, whatever the modules say that they did.
    hosts.ssh(
        H100_HOST,
        f"systemctl reset-failed {MONITOR} 2>/dev/null; rm -f {EVENTS}; "
        f"systemd-run --quiet --unit {MONITOR} --setenv HOME=/root --property StandardOutput=file:{EVENTS} "
        "lxc monitor --type lifecycle --format json",
    )
    try:
        sized = {"VM_RAM_MB": "2048", "VM_CPUS": "2"}
        runs = [
            hosts.play(stream, "playbooks/passthrough.yml", *ONE_H100, "-e", "keep_instances=true", **sized)
            for _time in ("first", "second")
        ]
        text = hosts.ssh(H100_HOST, f"cat {EVENTS}")
    finally:
        hosts.ssh(H100_HOST, f"systemctl stop {MONITOR}", check=False)
        gone = hosts.module(
            stream, H100_HOST, "lxd_gpu_vm", {"name": H100_VM, "state": "absent"},
            "-e", f"ansible_python_interpreter={LXD_PYTHON}",
        )  # fmt: skip
    boots = []
    for run in runs:
        assert run.returncode == 0
        report = run.report()
        report.assert_passed()
        memory = report.only(name="guest.memory")["evidence"]
        assert memory["asked_mib"] == 2048
        assert 0.8 * 2048 - 64 <= (memory["system_ram_mib"] or memory["mem_total_mib"]) <= 2048
        assert report.only(name="guest.cpus")["evidence"]["cpus"] == 2
        boots.append(report.only(name="guest.boot")["evidence"]["boot_id"])
    first, second = runs
    assert first.changed(H100_HOST) > 0
    assert second.changed(H100_HOST) == 0, "the second run changed something on the host"
    assert boots[0] and boots[0] == boots[1], "the VM was booted in between"
    actions = [json.loads(line)["metadata"] for line in text.splitlines() if line.startswith("{")]
    mine = [event["action"] for event in actions if event["source"].rpartition("/")[2] == H100_VM]
    assert mine.count("instance-created") == 1, mine
    assert mine.count("instance-started") == 1, mine
    assert "instance-restarted" not in mine and "instance-stopped" not in mine, mine
    assert first.report().only(name="start")["evidence"]["starts"] == 1
    assert second.report().only(name="start")["evidence"]["starts"] == 0
    assert gone["changed"] and [state["released"] for state in gone["released"]] == [True], gone


@pytest.mark.live
def test_installed_collection_on_the_whole_fleet(hosts: Lab, stream: Stream, tmp_path_factory: pytest.TempPathFactory):
    """`gpulab.fleet.passthrough` from the installed tarball, from anywhere: every GPU of both hosts in a VM and in a container."""
    report = whole_fleet(hosts, stream, tmp_path_factory)
    report.assert_passed()
    machines = {H100_HOST: load("lab-h100-pair"), MIXED_HOST: load("lab-mixed")}
    gpus = [(host, device) for host, machine in machines.items() for _root, device in machine.devices()]
    assert len(gpus) == 5
    for host, device in gpus:
        wanted = {"host": host, "device": device.address}
        check = report.only(test="vm", name="pci.bars", **wanted)
        assert check["status"] == "passed", check
        if device.board.served == "vfio-user":
            described = {region.index: region.size_bytes for region in device.board.main.bars if not region.is_io}
            assert bars_of(check) == described
        else:
            assert bars_of(check), "no BAR of a device that QEMU itself plays"
        assert report.only(test="vm", name="release", **wanted)["status"] == "passed"
        in_container = report.checks(test="container", **wanted)
        if device.board.kind == "display":
            # Its driver is there, so a container can have it.
            assert in_container and {check["status"] for check in in_container if check["name"].startswith("pci")} == {
                "passed"
            }, in_container
            assert report.only(test="container", name="start", **wanted)["status"] == "passed"
            assert report.only(test="container", name="release", **wanted)["status"] == "passed"
        else:
            start = report.only(test="container", name="start", **wanted)
            assert (start["status"], len(in_container)) == ("skipped", 1)
            assert "driver" in start["reason"], start["reason"]
