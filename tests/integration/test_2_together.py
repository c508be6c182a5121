# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two GPUs of one host in one VM, after each had one of its own; and that the host has both back as they were."""

from __future__ import annotations

import pytest
from lab import H100_BARS, H100_HOST, Lab, Stream, bars_of
from whole_fleet import whole_fleet

# The first test that runs may have to build the hosts.
pytestmark = [pytest.mark.live, pytest.mark.timeout(7200)]

PAIR = ("0000:41:00.0", "0000:81:00.0")


def test_both_gpus_in_one_vm(hosts: Lab, stream: Stream, tmp_path_factory: pytest.TempPathFactory):
    report = whole_fleet(hosts, stream, tmp_path_factory)
    start = report.only(host=H100_HOST, test="vm_all", name="start")
    assert (start["status"], start["evidence"]["starts"]) == ("passed", 1)
    explained = start["evidence"]["qemu_opts"]
    assert "2 × (128 GiB + " in explained["explanation"], explained
    assert len(explained["inputs"]["slots"]) == 2
    # Nothing is set where the firmware's own window is wide enough; then the explanation says how wide.
    assert explained["tokens"] or "fit into the firmware's window" in explained["explanation"]
    guest = set()
    for address in PAIR:
        wanted = {"host": H100_HOST, "device": address, "test": "vm_all"}
        assert report.only(name="pci.present", **wanted)["status"] == "passed"
        check = report.only(name="pci.bars", **wanted)
        assert bars_of(check) == H100_BARS
        guest.add(check["evidence"]["guest_address"])
    assert len(guest) == 2, "both are the same function of the guest"
    release = report.only(host=H100_HOST, test="vm_all", name="release")
    assert {state["address"]: state["released"] for state in release["evidence"]["released"]} == dict.fromkeys(
        PAIR, True
    )


def test_one_after_the_other(hosts: Lab, stream: Stream, tmp_path_factory: pytest.TempPathFactory):
    report = whole_fleet(hosts, stream, tmp_path_factory)
    boots = []
    for address in PAIR:
        assert report.only(host=H100_HOST, device=address, test="vm", name="pci.bars")["status"] == "passed"
        boots += [
            check["evidence"]["boot_id"]
            for check in report.checks(host=H100_HOST, test="vm", name="guest.boot", device=address)
        ]
    boots.append(report.only(host=H100_HOST, test="vm_all", name="guest.boot")["evidence"]["boot_id"])
    assert len(set(boots)) == 3, boots


def test_the_host_has_them_back(hosts: Lab, stream: Stream, tmp_path_factory: pytest.TempPathFactory):
    """By sysfs and /proc of the host, not by what the modules say."""
    whole_fleet(hosts, stream, tmp_path_factory)
    for address in PAIR:
        state = hosts.gpu_state(H100_HOST, address)
        assert (state.override, state.driver, state.qemu_processes, state.instances) == ("", "", 0, ())
        group = hosts.ssh(H100_HOST, f"basename $(readlink /sys/bus/pci/devices/{address}/iommu_group)").strip()
        held = f"ls -l /proc/[0-9]*/fd 2>/dev/null | grep -E '/dev/vfio/{group}$|devices/{address}/' || true"
        assert hosts.ssh(H100_HOST, held).strip() == "", "a process still holds it"
