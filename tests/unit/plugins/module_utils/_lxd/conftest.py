# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake LXD server to talk to, and a fake host with GPUs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import fake_lxd
import fake_tree
import pytest


@pytest.fixture
def fake():
    """The module with the server's constants."""
    return fake_lxd


@pytest.fixture
def server():
    """An LXD 5.0. The folder's path is short, as sockets want it."""
    folder = Path(tempfile.mkdtemp(prefix="lxd"))
    with fake_lxd.FakeLxd(folder) as running:
        yield running
    shutil.rmtree(folder)


@pytest.fixture
def lxd(server):
    from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import connect

    return connect(str(server.socket))


@pytest.fixture
def tree(tmp_path):
    """A host with two H100s, each alone in its IOMMU group and without a driver, 4 CPUs and 64 GiB."""
    host = fake_tree.FakeTree(tmp_path)
    host.add_function("0000:41:00.0", bars=fake_tree.H100_BARS, group=1)
    host.add_function("0000:81:00.0", bars=fake_tree.H100_BARS, group=2, root="pci0000:80")
    host.write("proc/meminfo", f"MemTotal: {64 << 20} kB\nMemAvailable: {60 << 20} kB\n")
    host.write(
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\nflags\t\t: vmx pdpe1gb\naddress sizes\t: 46 bits physical, 48 bits virtual\n\n",
    )
    host.write("sys/devices/system/cpu/online", "0-3\n")
    return host


@pytest.fixture
def host_gpus(tree):
    from ansible_collections.gpulab.fleet.plugins.module_utils._pci.passthrough import HostGpus

    return HostGpus(tree.sysfs, tree.procfs, tree.run_dir)
