# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import hypervisor
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hypervisor import Hypervisor, HypervisorError
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.host_support import fake_qemu


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def says_version(version: str) -> str:
    return f'[ "$1" = --version ] && echo "QEMU emulator version {version} (Debian)"'


@pytest.mark.parametrize(
    ("version", "good"), [("7.2.22", False), ("10.0.13", False), ("10.1.0", True), ("10.1", True), ("11.1.3", True)]
)
def test_the_machines_own_qemu_is_taken_when_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, good: bool
):
    program(tmp_path / hypervisor.PROGRAM, says_version(version))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = hypervisor.installed()
    assert (found is not None) == good
    if found is not None:
        assert (found.command, found.version) == ((str(tmp_path / hypervisor.PROGRAM),), version)


def test_no_qemu_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hypervisor.installed() is None


def test_a_tree_is_run_by_its_own_loader(tmp_path: Path):
    loader = (
        'shift 2; [ "$QEMU_MODULE_DIR" = "$(dirname "$0")/../usr/lib/x86_64-linux-gnu/qemu" ] || exit 1; shift; shift 4; '
        + says_version("11.1.3")
    )
    program(
        tmp_path / "lib64" / "ld-linux-x86-64.so.2",
        loader.replace("$(dirname", "$(cd $(dirname").replace('")/../', '")/..; pwd)/'),
    )
    found = hypervisor.from_tree(str(tmp_path))
    assert found.version == "11.1.3"
    assert found.command[0] == f"{tmp_path}/lib64/ld-linux-x86-64.so.2"
    assert found.command[-2:] == ("-L", f"{tmp_path}/usr/share/seabios")


@pytest.mark.parametrize(("body", "message"), [(says_version("10.0.13"), "10.1 or later"), ("exit 1", "does not run")])
def test_a_tree_that_does_not_serve_is_refused(tmp_path: Path, body: str, message: str):
    program(tmp_path / "lib64" / "ld-linux-x86-64.so.2", "shift 7\n" + body)
    with pytest.raises(HypervisorError, match=message):
        hypervisor.from_tree(str(tmp_path))


def test_a_given_command_is_taken_as_it_is():
    assert hypervisor.given(fake_qemu()).version == "11.1.3"
    assert hypervisor.given(["/bin/true"]).version == "unknown"
    for command, message in ((["/nowhere/qemu"], "no program on this machine"), ([], "is empty")):
        with pytest.raises(HypervisorError, match=message):
            hypervisor.given(command)


def modules(tmp_path: Path, nested: str | None) -> str:
    folder = tmp_path / "module" / "kvm_amd" / "parameters"
    folder.mkdir(parents=True)
    if nested is not None:
        (folder / "nested").write_text(nested + "\n")
    return str(tmp_path / "module")


FIRMWARE_RUNS = (
    "import re, sys, time\n"
    "path = re.search('path=([^, ]+)', ' '.join(sys.argv)).group(1)\n"
    "open(path, 'w').write('SeaBIOS (version 1.17)')\n"
    "time.sleep(30)\n"
)


@pytest.mark.parametrize(
    ("device", "nested", "code", "accel", "reason"),
    [
        ("kvm", "1", FIRMWARE_RUNS, "kvm", "works here"),
        ("kvm", "Y", FIRMWARE_RUNS, "kvm", "works here"),
        ("kvm", "0", FIRMWARE_RUNS, "tcg", "nested virtualisation is off"),
        ("kvm", None, FIRMWARE_RUNS, "tcg", "nested virtualisation is off"),
        ("none", "1", FIRMWARE_RUNS, "tcg", "missing or not accessible"),
        ("kvm", "1", "import sys; sys.exit('failed to set MSR 0x10a')", "tcg", "failed to set MSR 0x10a"),
    ],
)
def test_kvm_is_taken_only_where_it_was_seen_to_work(
    tmp_path: Path, device: str, nested: str | None, code: str, accel: str, reason: str
):
    (tmp_path / "kvm").touch()
    choice = hypervisor.choose_accel(
        "auto", Hypervisor((sys.executable, "-c", code), "11.1.3"), str(tmp_path / device), modules(tmp_path, nested)
    )
    assert (choice.name, reason in choice.reason) == (accel, True), choice


def test_a_kvm_that_executes_nothing_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "kvm").touch()
    monkeypatch.setattr(hypervisor, "KVM_PROBE_TIMEOUT_S", 0.3)
    hangs = Hypervisor((sys.executable, "-c", "import time; time.sleep(30)"), "11.1.3")
    choice = hypervisor.choose_accel("auto", hangs, str(tmp_path / "kvm"), modules(tmp_path, "1"))
    assert choice.name == "tcg" and "no instruction of the firmware ran" in choice.reason


def test_what_was_asked_for_is_not_replaced(tmp_path: Path):
    any_qemu = Hypervisor((os.devnull,), "11.1.3")
    assert hypervisor.choose_accel("tcg", any_qemu).name == "tcg"
    with pytest.raises(HypervisorError, match=r"accel is kvm, but .* use accel: auto or tcg"):
        hypervisor.choose_accel("kvm", any_qemu, str(tmp_path / "kvm"), modules(tmp_path, "1"))
