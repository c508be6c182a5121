# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""Finds a QEMU that can be a vfio-user client, and the accelerator that really works. Private to the collection."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

PROGRAM = "qemu-system-x86_64"
# The first release with the device vfio-user-pci.
MINIMUM_VERSION = (10, 1)
LIBRARIES = "usr/lib/x86_64-linux-gnu"
QUERY_TIMEOUT_S = 20.0
KVM_PROBE_TIMEOUT_S = 10.0
ACCELS = ("auto", "kvm", "tcg")

_VERSION = re.compile(r"QEMU emulator version (\d+)\.(\d+)(?:\.(\d+))?")


class HypervisorError(FleetError):
    """No QEMU that serves, or no accelerator."""


@dataclass(frozen=True)
class Hypervisor:
    """How QEMU is called: the words before its arguments, and the environment it needs."""

    command: tuple[str, ...]
    version: str
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AccelChoice:
    name: str
    reason: str


def installed() -> Optional[Hypervisor]:
    """The machine's own QEMU when it is new enough, else None."""
    path = shutil.which(PROGRAM)
    if path is None:
        return None
    version = query_version((path,), {})
    if version is None or parse_version(version) < MINIMUM_VERSION:
        return None
    return Hypervisor((path,), version)


def from_tree(tree: str) -> Hypervisor:
    """The QEMU of a Debian tree, run by the tree's own loader and libraries: no chroot, so sockets and images keep their paths."""
    command = (
        os.path.join(tree, "lib64/ld-linux-x86-64.so.2"),
        "--library-path",
        os.path.join(tree, LIBRARIES),
        os.path.join(tree, "usr/bin", PROGRAM),
        "-L",
        os.path.join(tree, "usr/share/qemu"),
        "-L",
        os.path.join(tree, "usr/share/seabios"),
    )
    environ = {"QEMU_MODULE_DIR": os.path.join(tree, LIBRARIES, "qemu")}
    version = query_version(command, environ)
    if version is None:
        raise HypervisorError(f"the QEMU of {tree} does not run", tree=tree, command=list(command))
    return _checked(Hypervisor(command, version, environ))


def given(command: Sequence[str]) -> Hypervisor:
    """A command that the user names (option qemu_command). It is taken as it is: it may be a wrapper that only adds arguments."""
    if not command:
        raise HypervisorError("qemu_command is empty; leave it out or name a program")
    if shutil.which(command[0]) is None:
        raise HypervisorError(
            f"qemu_command names {command[0]!r}, which is no program on this machine", qemu_command=list(command)
        )
    return Hypervisor(tuple(command), query_version(command, {}) or "unknown")


def _checked(hypervisor: Hypervisor) -> Hypervisor:
    if parse_version(hypervisor.version) < MINIMUM_VERSION:
        wanted = ".".join(str(number) for number in MINIMUM_VERSION)
        raise HypervisorError(
            f"QEMU {hypervisor.version} has no vfio-user-pci; {wanted} or later is needed",
            command=list(hypervisor.command),
        )
    return hypervisor


def query_version(command: Sequence[str], environ: Mapping[str, str]) -> Optional[str]:
    try:
        answer = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environ},
            timeout=QUERY_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stdout.decode(errors="replace"))
    return None if match is None else ".".join(part for part in match.groups() if part)


def parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def choose_accel(
    wanted: str, hypervisor: Hypervisor, device: str = "/dev/kvm", modules: str = "/sys/module"
) -> AccelChoice:
    """KVM when it can carry a host that itself runs VMs, else plain emulation; the reason is for the person who wonders."""
    if wanted == "tcg":
        return AccelChoice("tcg", "asked for")
    obstacle = _kvm_obstacle(hypervisor, device, modules)
    if obstacle is None:
        return AccelChoice("kvm", "KVM with nested virtualisation works here")
    if wanted == "kvm":
        raise HypervisorError(f"accel is kvm, but {obstacle}; use accel: auto or tcg", accel=wanted)
    return AccelChoice("tcg", obstacle)


def nested_enabled(modules: str = "/sys/module") -> bool:
    for module in ("kvm_amd", "kvm_intel"):
        try:
            with open(os.path.join(modules, module, "parameters", "nested"), encoding="ascii") as stream:
                if stream.read().strip() in ("1", "Y", "y"):
                    return True
        except OSError:
            continue
    return False


def _kvm_obstacle(hypervisor: Hypervisor, device: str, modules: str) -> Optional[str]:
    if not os.access(device, os.R_OK | os.W_OK):
        return f"{device} is missing or not accessible"
    if not nested_enabled(modules):
        return "nested virtualisation is off (parameter nested of kvm_amd or kvm_intel)"
    return _try_kvm(hypervisor)


def _try_kvm(hypervisor: Hypervisor) -> Optional[str]:
    """Whether firmware runs on a virtual processor: some machines have a /dev/kvm that accepts everything and executes nothing."""
    with tempfile.TemporaryDirectory(prefix="gpulab-kvm-") as folder:
        log, output = os.path.join(folder, "firmware.log"), os.path.join(folder, "output")
        argv = [
            *hypervisor.command,
            "-accel",
            "kvm",
            "-machine",
            "q35,kernel-irqchip=split",
            "-cpu",
            "host",
            "-m",
            "64",
            "-nodefaults",
            "-no-user-config",
        ]
        argv += [
            "-display",
            "none",
            "-chardev",
            f"file,id=log,path={log}",
            "-device",
            "isa-debugcon,iobase=0x402,chardev=log",
        ]
        with open(output, "wb") as stream:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    env={**os.environ, **hypervisor.environ},
                )
            except OSError as error:
                return f"QEMU does not start with KVM: {error}"
            try:
                return _await_firmware(process, log, output)
            finally:
                process.kill()
                process.wait()


def _await_firmware(process: subprocess.Popen[bytes], log: str, output: str) -> Optional[str]:
    deadline = Deadline(KVM_PROBE_TIMEOUT_S)
    while not deadline.expired():
        if b"SeaBIOS" in _content(log):
            return None
        if process.poll() is not None:
            last = _content(output).decode(errors="replace").strip().splitlines()
            return f"QEMU ends at once with KVM: {last[-1] if last else f'status {process.returncode}'}"
        time.sleep(0.05)
    return f"no instruction of the firmware ran within {KVM_PROBE_TIMEOUT_S:.0f} s with KVM"


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(65536)
    except OSError:
        return b""
