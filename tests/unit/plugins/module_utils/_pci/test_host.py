# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a host from the files that the kernel has for them."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.host import read_host

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8480C
flags\t\t: fpu vme pdpe1gb vmx la57
address sizes\t: 46 bits physical, 57 bits virtual

processor\t: 1
vendor_id\t: SomebodyElse
address sizes\t: 12 bits physical, 57 bits virtual
"""


@pytest.fixture
def host(tree):
    tree.write("proc/cpuinfo", CPUINFO)
    tree.write("proc/meminfo", "MemTotal:        6020000 kB\nMemFree:  1 kB\nMemAvailable:    5120000 kB\n")
    tree.write("proc/sys/kernel/osrelease", "7.3.4-amd64\n")
    tree.write("proc/sys/kernel/random/boot_id", "0b2ff3a1-8d8a-4f05-9d6c-2f8ef6b6b4a1\n")
    tree.write("sys/devices/system/cpu/online", "0-3,8\n")
    tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    for size_kib, counts in (("2048", ("256", "200")), ("1048576", ("0", "0"))):
        for folder in ("sys/kernel/mm/hugepages", "sys/devices/system/node/node0/hugepages"):
            tree.write(f"{folder}/hugepages-{size_kib}kB/nr_hugepages", counts[0] + "\n")
            tree.write(f"{folder}/hugepages-{size_kib}kB/free_hugepages", counts[1] + "\n")
    (tree.path / "sys/devices/system/node/node1").mkdir()
    tree.write("sys/devices/system/memory/block_size_bytes", "8000000\n")
    for number in range(49):
        tree.write(f"sys/devices/system/memory/memory{number}/state", "offline\n" if number == 48 else "online\n")
    return tree


def read(tree):
    return read_host(tree.sysfs, tree.procfs, tree.dev)


def test_cpu(host):
    facts = read(host)
    assert (facts.cpu_vendor, facts.phys_bits, facts.la57, facts.pages_1gib, facts.virtualisation) == (
        "GenuineIntel",
        46,
        True,
        True,
        "vmx",
    )
    assert (facts.cpus, facts.kernel, facts.architecture) == (5, "7.3.4-amd64", os.uname().machine)


def test_memory_is_what_is_fitted_not_what_the_kernel_left(host):
    facts = read(host)
    assert (facts.memory_mib, facts.memory_available_mib) == (6144, 5000)


def test_memory_without_memory_blocks(host):
    (host.path / "sys/devices/system/memory/block_size_bytes").unlink()
    assert read(host).memory_mib == 5878


def test_hugepages_by_size_and_node(host):
    pools = [(pool.size_kib, pool.total, pool.free, dict(pool.nodes)) for pool in read(host).hugepages]
    assert pools == [(2048, 256, 200, {0: (256, 200), 1: (0, 0)}), (1048576, 0, 0, {0: (0, 0), 1: (0, 0)})]
    assert read(host).transparent_hugepages == "madvise"
    assert read(host).numa_nodes == 2


def test_iommu_counts_when_it_has_groups(host):
    (host.path / "sys/class/iommu/dmar0").mkdir(parents=True)
    facts = read(host)
    assert (facts.iommu, facts.iommu_units) == (False, ("dmar0",))
    host.add_function(group=1)
    assert read(host).iommu is True


def test_kvm(host):
    assert read(host).kvm is False
    host.write("dev/kvm", "")
    assert read(host).kvm is True


def test_a_host_that_tells_nothing(tmp_path):
    facts = read_host(*(str(tmp_path / name) for name in ("sys", "proc", "dev")))
    assert (facts.phys_bits, facts.cpu_vendor, facts.memory_mib, facts.hugepages, facts.iommu) == (
        None,
        "",
        0,
        (),
        False,
    )
    assert (facts.cpus >= 1, facts.numa_nodes) == (True, 1)


def test_as_data(host):
    data = json.loads(json.dumps(read(host).to_dict()))
    assert data["hugepages"][0]["nodes"][0] == {"node": 0, "total": 256, "free": 200}
    assert (data["phys_bits"], data["iommu_units"], data["boot_id"]) == (46, [], "0b2ff3a1-8d8a-4f05-9d6c-2f8ef6b6b4a1")
