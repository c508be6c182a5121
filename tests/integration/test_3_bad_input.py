# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people get wrong: one clear message that names option, value and remedy, and afterwards the host is as it was."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from lab import H100, H100_HOST, LXD_PYTHON, ODD_HOST, Lab, Stream

# The first test that runs may have to build the hosts.
pytestmark = pytest.mark.timeout(7200)


class Case(NamedTuple):
    """`says` are option, value and remedy, as the message names them. `early`: it is wrong for every host, so none is asked."""

    name: str
    variables: dict[str, object]
    says: tuple[str, ...]
    early: bool = False


CASES = (
    Case(
        "global-that-is-none",
        {"qemu_opts": "-global nonsense"},
        ("qemu_opts has -global 'nonsense'", "write it as driver.property=value"),
    ),
    Case(
        "device-that-only-qemu-can-refuse",
        {"qemu_opts": "-device nonsense"},
        ("did not start", "QEMU refuses one of its options; correct qemu_opts", "nonsense"),
    ),
    Case(
        "image-alias-unknown",
        {"vm_image": "no-such-image"},
        ("image is 'no-such-image'", "neither an alias nor a fingerprint", "see lxc image list"),
    ),
    Case(
        "image-file-missing",
        {"vm_image": {"file": "/nonexistent/guest.qcow2"}},
        ("vm_image is {'file': '/nonexistent/guest.qcow2'}", "is no file on this controller", "correct the path"),
        early=True,
    ),
    Case(
        "gpu-unknown",
        {"gpus": ["0000:99:00.0"]},
        ("gpus[0] is 0000:99:00.0", "has no PCI function there", f"GPUs of this host: {H100} (10de:2330)"),
    ),
    Case(
        "gpu-malformed",
        {"gpus": ["0000:4g:00.0"]},
        ("gpus is ['0000:4g:00.0']", 'ids such as "10de:2330", or all'),
        early=True,
    ),
    Case(
        "more-memory-than-the-host", {"vm_ram_mb": 9999999}, ("ram_mb is 9999999 MiB", "but this host has", "give less")
    ),
    Case(
        "misspelled",
        {"vm_ram": 2048},
        ("vm_ram is no variable of this playbook", "did you mean vm_ram_mb?"),
        early=True,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_playbook(case: Case, hosts: Lab, stream: Stream):
    before = hosts.gpu_state(H100_HOST, H100)
    variables = {"gpus": [H100], "tests": ["vm"], **case.variables}
    run = hosts.play(
        stream, "playbooks/passthrough.yml", "--limit", f"{H100_HOST},localhost", "-e", json.dumps(variables)
    )
    assert run.returncode != 0
    if case.early:
        assert "Test every GPU" not in run.output, "a host was asked although nothing can come of it"
        run.says(*case.says)
    else:
        report = run.report()
        report.assert_reasons()
        # What failed is told once; that the release has nothing to do is no failure.
        (failed,) = report.failures()
        message = failed["reason"]
        for text in case.says:
            assert text in message, f"{text!r} is not in {message!r}"
    assert "Traceback" not in run.output
    after = hosts.gpu_state(H100_HOST, H100)
    assert (after.qemu_processes, after.instances, after.override) == (0, (), "")
    assert after == before


def test_name_too_long(hosts: Lab, stream: Stream):
    before = hosts.gpu_state(H100_HOST, H100)
    name = "a" * 64
    options = {"name": name, "gpus": [H100], "image": "any"}
    result = hosts.module(stream, H100_HOST, "lxd_gpu_vm", options, "-e", f"ansible_python_interpreter={LXD_PYTHON}")
    assert result["msg"].startswith(f"name is {name!r} with 64 characters"), result
    assert "choose a shorter one" in result["msg"]
    assert (result["option"], result["value"]) == ("name", name)
    assert hosts.gpu_state(H100_HOST, H100) == before


def test_group_not_viable(hosts: Lab, stream: Stream):
    """A display and a NIC behind one conventional bridge: VFIO would hand over both or none, and the host drives the NIC."""
    inventories = hosts.with_odd()
    started = hosts.play(stream, "playbooks/virtual_hosts.yml", *inventories, "--limit", ODD_HOST)
    assert started.returncode == 0
    # The catalog does not know these devices, so they are found by their ids: QEMU's display, and its Intel NIC.
    find = "for d in /sys/bus/pci/devices/*; do [ $(cat $d/vendor)$(cat $d/device) = %s ] && basename $d; done; true"
    (display,) = hosts.ssh(ODD_HOST, find % "0x12340x1111").split()
    (nic,) = hosts.ssh(ODD_HOST, find % "0x80860x100e").split()
    drive = f"modprobe e1000; basename $(readlink /sys/bus/pci/devices/{nic}/driver)"
    assert hosts.ssh(ODD_HOST, drive).split() == ["e1000"]
    variables = {"gpus": [display], "tests": ["vm"], "vm_ram_mb": 256}
    run = hosts.play(
        stream,
        "playbooks/passthrough.yml",
        *inventories,
        "--limit",
        f"{ODD_HOST},localhost",
        "-e",
        json.dumps(variables),
    )
    assert run.returncode != 0
    (failed,) = run.report().failures()
    assert f"gpus has {display}, which cannot be passed to a VM" in failed["reason"], failed
    assert nic in failed["reason"] and "e1000" in failed["reason"], failed
    after = hosts.gpu_state(ODD_HOST, display)
    assert (after.qemu_processes, after.instances, after.override) == (0, (), "")
    assert hosts.ssh(ODD_HOST, drive).split() == ["e1000"]
