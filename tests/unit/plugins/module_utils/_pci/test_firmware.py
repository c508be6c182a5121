# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What firmware a host's LXD uses, and how large its window is; versions are in the tables of the hole's tests."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.firmware import (
    FirmwareFacts,
    installed_version,
    read_firmware,
    read_lxd_version,
    trusts_phys_bits,
    window_bytes,
)

GIB = 1 << 30
STATUS = """\
Package: ovmf-ia32
Status: install ok installed
Version: 1.0

Package: lxd
Version: 5.0.2
Status: install ok installed

Package: ovmf
Status: {status}
Priority: optional
Version: 2025.02-8
"""


@pytest.mark.parametrize(
    ("status", "version"),
    [("install ok installed", "2025.02-8"), ("deinstall ok config-files", None), ("install ok half-installed", None)],
)
def test_version_of_the_package(tree, status, version):
    path = tree.write("var/lib/dpkg/status", STATUS.format(status=status))
    assert installed_version("ovmf", str(path)) == version


def test_no_dpkg(tmp_path):
    assert installed_version("ovmf", str(tmp_path / "status")) is None


def test_a_host_with_the_distributions_lxd(tree):
    tree.write("var/lib/dpkg/status", STATUS.format(status="install ok installed"))
    facts = read_firmware("5.0.2", str(tree.path))
    assert (facts.snap, facts.edk2_version, facts.dynamic_window) == (False, "2025.02-8", True)


def test_a_host_with_the_snap(tree):
    tree.write("var/lib/dpkg/status", STATUS.format(status="install ok installed"))
    tree.write("var/snap/lxd/common/lxd/unix.socket", "")
    facts = read_firmware("6.5", str(tree.path))
    assert (facts.snap, facts.edk2_version, facts.dynamic_window) == (True, None, False)


@pytest.mark.parametrize("line", ["version: 6.5-3ee3f8d", "version: '5.21.5-abc'", 'version: "6.7"'])
def test_version_of_lxd_by_the_snap(tree, line):
    tree.write("var/lib/dpkg/status", STATUS.format(status="install ok installed"))
    tree.write("snap/lxd/current/meta/snap.yaml", f"name: lxd\n{line}\nbase: core24\n")
    assert read_lxd_version(str(tree.path)) == line.split(" ")[1].strip("'\"").split("-")[0]


def test_version_of_lxd_by_the_package(tree):
    tree.write("var/lib/dpkg/status", STATUS.format(status="install ok installed"))
    assert read_lxd_version(str(tree.path)) == "5.0.2"


def test_no_lxd(tmp_path):
    assert read_lxd_version(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("bits", "vendor", "trusted"),
    [
        (36, "GenuineIntel", True),
        (39, "GenuineIntel", True),
        (40, "GenuineIntel", False),
        (38, "GenuineIntel", False),
        (40, "AuthenticAMD", True),
        (39, "AuthenticAMD", False),
        (40, "", False),
        (41, "GenuineIntel", True),
        (46, "", True),
        (52, "AuthenticAMD", True),
    ],
)
def test_widths_that_edk2_believes(bits, vendor, trusted):
    assert trusts_phys_bits(bits, vendor) is trusted


@pytest.mark.parametrize(
    ("dynamic", "bits", "vendor", "window_gib"),
    [
        (None, 46, "GenuineIntel", None),
        (False, 46, "GenuineIntel", 32),
        (True, 40, "GenuineIntel", 32),
        (True, 36, "GenuineIntel", 32),
        (True, 39, "GenuineIntel", 64),
        (True, 40, "AuthenticAMD", 128),
        (True, 46, "GenuineIntel", 8192),
        (True, 52, "AuthenticAMD", 8192),
    ],
)
def test_window(dynamic, bits, vendor, window_gib):
    assert window_bytes(FirmwareFacts(dynamic, ""), bits, vendor) == (window_gib and window_gib * GIB)
