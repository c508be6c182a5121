# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which IOMMU groups VFIO can hand over, by the members that stay with the host."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.groups import judge, read_groups
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import read_functions

GPU = "0000:41:00.0"


def member(address, driver=None, class_code="0x020000", ids="8086:1572"):
    return {"address": address, "driver": driver, "class_code": class_code, "ids": ids, "root": "pci0000:40"}


AUDIO = member("0000:41:00.1", "snd_hda_intel", "0x040300", "10de:10f8")
BRIDGE = member("0000:40:01.0", "pcieport", "0x060400", "8086:352a")


def verdict(tree, *others, passed=(GPU,)):
    tree.add_function(GPU, driver="nvidia", group=10)
    for other in others:
        tree.add_function(group=10, **other)
    functions = read_functions(tree.sysfs)
    return judge(functions[[f.address for f in functions].index(GPU)], read_groups(functions, tree.sysfs), passed)


@pytest.mark.parametrize(
    ("others", "passed", "in_the_way"),
    [
        pytest.param([], (GPU,), [], id="alone"),
        pytest.param([AUDIO], (GPU,), [], id="companion-of-the-same-slot-goes-along"),
        pytest.param([BRIDGE], (GPU,), [], id="bridge-with-pcieport"),
        pytest.param([member("0000:40:01.0", None, "0x060400")], (GPU,), [], id="bridge-without-a-driver"),
        pytest.param([member("0000:42:00.0", None)], (GPU,), [], id="other-slot-without-a-driver"),
        pytest.param([member("0000:42:00.0", "vfio-pci")], (GPU,), [], id="other-slot-on-vfio-pci"),
        pytest.param([member("0000:42:00.0", "nvgrace-gpu-vfio-pci")], (GPU,), [], id="variant-of-vfio-pci"),
        pytest.param([member("0000:42:00.0", "pci-stub")], (GPU,), [], id="pci-stub"),
        pytest.param([member("0000:42:00.0", "ixgbe")], (GPU,), ["0000:42:00.0"], id="nic-of-the-host"),
        pytest.param([member("0000:42:00.0", "nvidia", "0x030200")], (GPU,), ["0000:42:00.0"], id="second-gpu-stays"),
        pytest.param(
            [member("0000:42:00.0", "nvidia", "0x030200")], (GPU, "0000:42:00.0"), [], id="second-gpu-is-passed-too"
        ),
        pytest.param(
            [BRIDGE, member("0000:42:00.0", "xhci_hcd"), member("0000:43:00.0", "nvme")],
            (GPU,),
            ["0000:42:00.0", "0000:43:00.0"],
            id="incus-3422-board-without-acs",
        ),
    ],
)
def test_viability(tree, others, passed, in_the_way):
    judged = verdict(tree, *others, passed=passed)
    assert [other.name for other in judged.in_the_way] == in_the_way
    assert judged.viable is not bool(in_the_way)


def test_reason_names_group_member_and_driver(tree):
    reason = verdict(tree, member("0000:42:00.0", "ixgbe")).reason
    assert reason.startswith(
        "IOMMU group 10 of 0000:41:00.0 is not viable: 0000:42:00.0 (ixgbe) would stay with the host; "
    )


def test_no_group_means_no_iommu(tree):
    tree.add_function(GPU)
    functions = read_functions(tree.sysfs)
    judged = judge(functions[0], read_groups(functions, tree.sysfs), (GPU,))
    assert not judged.viable
    assert "is in no IOMMU group" in judged.reason


def test_members_of_all_kinds(tree):
    tree.add_function(GPU, group=2, driver="nvidia")
    tree.add_function("0000:40:01.0", class_code="0x060400", group=10, driver="pcieport")
    platform = tree.path / "sys/devices/platform/arm-smmu.0"
    platform.mkdir(parents=True)
    tree.link("sys/devices/platform/arm-smmu.0/driver", tree.add_driver("arm-smmu"))
    tree.link("sys/kernel/iommu_groups/10/devices/arm-smmu.0", platform)
    groups = read_groups(read_functions(tree.sysfs), tree.sysfs)
    assert [(g.number, g.kind, [(m.name, m.driver) for m in g.members]) for g in groups] == [
        (2, "DMA-FQ", [(GPU, "nvidia")]),
        (10, "DMA-FQ", [("0000:40:01.0", "pcieport"), ("arm-smmu.0", "arm-smmu")]),
    ]
    assert [m.to_dict()["bridge"] for m in groups[1].members] == [True, False]


def test_a_platform_device_with_a_driver_is_in_the_way(tree):
    tree.add_function(GPU, group=10, driver="nvidia")
    platform = tree.path / "sys/devices/platform/dma0"
    platform.mkdir(parents=True)
    tree.link("sys/devices/platform/dma0/driver", tree.add_driver("dma-engine"))
    tree.link("sys/kernel/iommu_groups/10/devices/dma0", platform)
    functions = read_functions(tree.sysfs)
    judged = judge(functions[0], read_groups(functions, tree.sysfs), (GPU,))
    assert [m.name for m in judged.in_the_way] == ["dma0"]
