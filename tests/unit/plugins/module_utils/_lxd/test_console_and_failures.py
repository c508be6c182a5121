# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._lxd import failures
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.console import (
    ConsoleReader,
    boot_stage,
    console_paths,
    plain_text,
)

OVMF = 'BdsDxe: loading Boot0001 "UEFI QEMU QEMU HARDDISK " from PciRoot(0x0)/Pci(0x1,0x1)/Pci(0x0,0x0)/Scsi(0x0,0x1)'


@pytest.mark.parametrize(
    ("lines", "stage", "reason"),
    [
        ([], "silent", "not_booted"),
        (["", "  "], "silent", "not_booted"),
        ([OVMF], "firmware", "firmware_only"),
        ([OVMF, "BdsDxe: No bootable option or device was found."], "not_bootable", "firmware_only"),
        ([OVMF, 'BdsDxe: failed to load Boot0001 "UEFI": Access Denied'], "not_bootable", "firmware_only"),
        ([OVMF, "EFI stub: Loaded initrd from LINUX_EFI_INITRD_MEDIA_GUID device path"], "kernel", "agent_missing"),
        (["[    0.000000] Linux version 6.12.0"], "kernel", "agent_missing"),
        ([OVMF, "guest: init started"], "kernel", "agent_missing"),
        (["[    3.1] x", "debian login:"], "userspace", "agent_missing"),
        (["Welcome to Debian GNU/Linux 13"], "userspace", "agent_missing"),
        (["[    1.234567] Kernel panic - not syncing: VFS: Unable to mount root fs"], "panic", "kernel_panic"),
        (["debian login: ", "Kernel panic - not syncing: Fatal exception"], "panic", "kernel_panic"),
    ],
)
def test_how_far_a_guest_has_come(lines, stage, reason):
    assert boot_stage(lines) == stage
    assert failures.boot_cause(stage).reason == reason


def test_escape_sequences_are_not_for_people():
    assert plain_text("\x1b[2J\x1b[01;01H\x1b[=3h\x1b[0m\x1b[35m\x1b[40mBdsDxe: loading\x00\r") == "BdsDxe: loading"


FORKLIMITS = (
    "Failed to run: forklimits limit=memlock:unlimited:unlimited fd=3 -- /usr/bin/qemu-system-x86_64 -S : exit status 1"
)


@pytest.mark.parametrize(
    ("error", "log", "reason"),
    [
        (
            FORKLIMITS,
            [
                "qemu-system-x86_64: can't apply global q35-pcihost.pci-hole64=1: Property 'q35-pcihost.pci-hole64' not found"
            ],
            "qemu_opts",
        ),
        (FORKLIMITS, ["qemu-system-x86_64: --nonsense: invalid option"], "qemu_opts"),
        (
            FORKLIMITS,
            ["qemu-system-x86_64: Address space limit 0xfffffffff < 0x8ffffffffff phys-bits too low (36)"],
            "phys_bits",
        ),
        (
            FORKLIMITS,
            ["qemu-system-x86_64: -device vfio-pci: vfio 0000:c6:00.0: group 10 is not viable"],
            "group_not_viable",
        ),
        (
            FORKLIMITS,
            ["qemu-system-x86_64: unable to map backing store for guest RAM: Cannot allocate memory"],
            "hugepages",
        ),
        (FORKLIMITS, ["qemu-system-x86_64: cannot set up guest memory 'mem0': Cannot allocate memory"], "memory"),
        (
            FORKLIMITS,
            ["qemu-system-x86_64: vfio_container_dma_map(0x5, 0x380000000000) = -22 (Invalid argument)"],
            "vfio",
        ),
        (
            'Failed to start device "gpu0": Cannot use device "/dev/nvidia0", 2 processes are still attached to it',
            [],
            "gpu_busy",
        ),
        ('Failed to start device "gpu0": Failed detecting requested GPU device', [], "gpu_not_found"),
        ('Failed to start device "gpu0": Failed to detect requested GPU device', [], "gpu_not_found"),
        ("The image used by this instance is incompatible with secure boot", [], "secure_boot"),
        ("vhost_vsock kernel module not loaded", [], "vsock"),
        (FORKLIMITS, ["Could not access KVM kernel module: Permission denied"], "kvm"),
        (FORKLIMITS, [], "start_failed"),
    ],
)
def test_why_starts_fail(error, log, reason):
    assert failures.start_cause(error, log).reason == reason


def test_last_lines_leaves_out_empty_ones():
    assert failures.last_lines("a\n\n b \nc\n", 2) == [" b", "c"]
    assert failures.last_lines(None) == []


def wait_for(condition, limit_s=5.0):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def test_a_console_is_followed_from_its_first_byte_over_restarts():
    folder = Path(tempfile.mkdtemp(prefix="con"))
    path = folder / "qemu.console"
    with ConsoleReader(console_paths([str(folder / "not-here"), str(folder)]), keep_lines=3) as reader:
        for said in (b"\x1b[2Jfirst\r\nsec", b"third\nno end"):
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.bind(str(path))
            server.listen(1)
            connection, _peer = server.accept()
            connection.sendall(said)
            wait_for(lambda said=said: reader.lines() and said.split(b"\n")[-1].decode() in reader.lines()[-1])
            connection.close()
            server.close()
            path.unlink()
    assert reader.lines() == ["first", "secthird", "no end"]
    assert reader.lines(1) == ["no end"]


def test_a_console_without_line_ends_does_not_grow():
    folder = Path(tempfile.mkdtemp(prefix="con"))
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(folder / "qemu.console"))
    server.listen(1)
    with ConsoleReader(console_paths([str(folder)])) as reader:
        connection, _peer = server.accept()
        connection.sendall(b"x" * 300_000 + b"end")
        wait_for(lambda: reader.lines() and reader.lines()[-1].endswith("end"))
        assert len(reader.lines()[-1]) <= 400
        connection.close()
    server.close()
