# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.qemu_options import (
    QemuOptions,
    join_raw_qemu,
    parse_qemu_options,
    split_raw_qemu,
)

HOLE = ("-global", "q35-pcihost.pci-hole64-size=8192G")
MMAP = ("-global", "vfio-pci.x-no-mmap=on")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", QemuOptions()),
        ("  ", QemuOptions()),
        ([], QemuOptions()),
        ("auto", QemuOptions(auto=True)),
        (" auto ", QemuOptions(auto=True)),
        ("auto -global vfio-pci.x-no-mmap=on", QemuOptions(MMAP, True)),
        ("-vga auto", QemuOptions(("-vga", "auto"))),
        (["auto"], QemuOptions(auto=True)),
        (["auto", "-global vfio-pci.x-no-mmap=on"], QemuOptions(MMAP, True)),
        (["-global", "vfio-pci.x-no-mmap=on", "auto"], QemuOptions(MMAP, True)),
        ("-global q35-pcihost.pci-hole64-size=8192G", QemuOptions(HOLE)),
        # As people copy it from a launcher: the blank, then the quotes, then both, then twice.
        (" -global q35-pcihost.pci-hole64-size=8192G", QemuOptions(HOLE)),
        ('"-global q35-pcihost.pci-hole64-size=8192G"', QemuOptions(HOLE)),
        ('" -global q35-pcihost.pci-hole64-size=8192G"', QemuOptions(HOLE)),
        ("'\" -global q35-pcihost.pci-hole64-size=8192G\"'", QemuOptions(HOLE)),
        ('"-global" "q35-pcihost.pci-hole64-size=8192G"', QemuOptions(HOLE)),
        ("-smbios 'type=1,product=a b'", QemuOptions(("-smbios", "type=1,product=a b"))),
        ("-no-reboot", QemuOptions(("-no-reboot",))),
        ('"-no-reboot"', QemuOptions(("-no-reboot",))),
        (
            "-global driver=vfio-pci,property=x-no-mmap,value=on",
            QemuOptions(("-global", "driver=vfio-pci,property=x-no-mmap,value=on")),
        ),
        ("-global\nvfio-pci.x-no-mmap=on\n", QemuOptions(MMAP)),
    ],
)
def test_what_users_write(value, expected):
    assert parse_qemu_options(value) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("-global nonsense", ["qemu_opts", "nonsense", "driver.property=value"]),
        ("-global", ["qemu_opts", "-global", "driver.property=value"]),
        ("global q35-pcihost.pci-hole64-size=8192G", ["qemu_opts", "'global'", "dash"]),
        ("-global 'open", ["qemu_opts", "quot"]),
        ([1], ["qemu_opts[0]", "1", "string"]),
        (["auto", "nonsense"], ["qemu_opts", "nonsense", "dash"]),
    ],
)
def test_refusals_name_option_value_and_remedy(value, words):
    with pytest.raises(FleetError) as error:
        parse_qemu_options(value)
    assert [word for word in words if word not in error.value.message] == []


@pytest.mark.parametrize("tokens", [HOLE, ("-smbios", "type=1,product=a b"), ("-name", "it's"), ("-x", "")])
def test_what_is_written_is_read_back_as_a_shell_reads_it(tokens):
    text = join_raw_qemu(tokens)
    assert tuple(shlex.split(text)) == tokens == split_raw_qemu(text)


def test_nothing_to_set_is_no_key():
    assert join_raw_qemu(()) is None


def test_an_open_quote_in_an_existing_value_is_told_from_any_plan():
    assert split_raw_qemu("-global 'open") == ("-global 'open",)
