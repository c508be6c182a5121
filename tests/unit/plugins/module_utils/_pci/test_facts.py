# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""The facts of a whole host put together: which functions, their groups and holders, and what is warned about."""

from __future__ import annotations

import json

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import PRESETS
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import load_machine
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.facts import Places, collect
from ansible_collections.gpulab.fleet.plugins.modules import gpu_host_info

H100 = "0000:41:00.0"


@pytest.fixture
def host(tree, fake):
    tree.add_function(H100, root="pci0000:40", bars=fake.H100_BARS, driver="nvidia", group=17, numa_node="0")
    tree.add_function(
        "0000:81:00.0", ids="10de:1eb8", subsystem="10de:12a2", root="pci0000:80", bars={1: 256 << 20}, group=18
    )
    tree.add_function(
        "0000:81:00.1", ids="10de:10f8", class_code="0x040300", root="pci0000:80", driver="snd_hda_intel", group=18
    )
    tree.add_function("0000:0a:00.0", ids="10de:22a3", class_code="0x068000", root="pci0000:00", group=19)
    tree.add_function("0000:03:00.0", ids="1a03:2000", class_code="0x030000", root="pci0000:00", driver="ast")
    tree.add_function(
        "0000:40:01.0", ids="8086:352a", class_code="0x060400", root="pci0000:40", driver="pcieport", group=17
    )
    tree.write("proc/cpuinfo", "vendor_id : GenuineIntel\naddress sizes : 46 bits physical, 57 bits virtual\n")
    tree.write("dev/kvm", "")
    return tree


def gather(tree, selectors=None, version=None):
    places = Places(tree.sysfs, tree.procfs, tree.dev, str(tree.path), tree.run_dir)
    collected = collect(selectors, BOARDS, version, places)
    return json.loads(json.dumps(collected.facts)), list(collected.warnings)


def addresses(entries):
    return [entry["address"] for entry in entries]


def test_everything_when_nothing_is_chosen(host):
    facts, warnings = gather(host)
    assert addresses(facts["gpus"]) == ["0000:03:00.0", H100, "0000:81:00.0"]
    assert [gpu["machine_display"] for gpu in facts["gpus"]] == [True, False, False]
    assert addresses(facts["nvswitches"]) == ["0000:0a:00.0"]
    assert [(other["address"], other["gpu"]) for other in facts["companions"]] == [("0000:81:00.1", "0000:81:00.0")]
    assert warnings == []


def test_a_gpu_with_its_board_and_verdict(host):
    gpu = gather(host, [H100])[0]["gpus"][0]
    assert (gpu["board"], gpu["product"]) == ("nvidia-h100-sxm5-80gb", BOARDS["nvidia-h100-sxm5-80gb"].gpu.product_name)
    assert (gpu["viable"], gpu["viability"], gpu["in_the_way"]) == (True, "IOMMU group 17 is viable", [])
    assert [(bar["index"], bar["size_bytes"]) for bar in gpu["bars"]] == [(0, 16 << 20), (2, 128 << 30), (4, 32 << 20)]


@pytest.mark.parametrize(
    ("selectors", "gpus", "nvswitches"),
    [
        (["all"], [H100, "0000:81:00.0"], []),
        (["10de:1eb8", "41:00.0"], ["0000:81:00.0", H100], []),
        (["0a:00.0"], [], ["0000:0a:00.0"]),
        ([], [], []),
    ],
)
def test_selectors(host, selectors, gpus, nvswitches):
    facts = gather(host, selectors)[0]
    assert (addresses(facts["gpus"]), addresses(facts["nvswitches"])) == (gpus, nvswitches)


def test_a_selector_that_nothing_answers_to(host):
    with pytest.raises(FleetError, match=r"gpus\[0\] is 0000:99:00.0, but this host has no PCI function there"):
        gather(host, ["99:00.0"])


def test_groups_with_all_members(host):
    groups = gather(host, ["all"])[0]["groups"]
    assert [(group["number"], [member["name"] for member in group["members"]]) for group in groups] == [
        (17, ["0000:40:01.0", H100]),
        (18, ["0000:81:00.0", "0000:81:00.1"]),
    ]


def test_holders_users_and_release(host):
    host.write(f"proc/driver/nvidia/gpus/{H100}/information", "Device Minor: 0\n")
    host.add_process(77, "burn", files=["/dev/nvidia0"])
    host.write("sys/module/nvidia/refcnt", "2\n")
    facts = gather(host, [H100])[0]
    assert [(holder["pid"], holder["path"]) for holder in facts["holders"]] == [(77, "/dev/nvidia0")]
    assert [(user["what"], user["count"]) for user in facts["kernel_users"]] == [("module nvidia", 2)]
    assert [(state["address"], state["released"]) for state in facts["released"]] == [(H100, False)]
    assert facts["holders_complete"] is True


def test_companions_are_looked_at_as_well(host):
    host.write(
        "run/0000:81:00.1.json",
        json.dumps({"schema": 1, "address": "0000:81:00.1", "ids": "10de:10f8", "driver": "another"}),
    )
    states = {state["address"]: state["reason"] for state in gather(host, ["81:00.0"])[0]["released"]}
    assert states["0000:81:00.1"] == "0000:81:00.1 is on snd_hda_intel; it was on another before"


def test_firmware_by_the_version_of_the_snap(host):
    host.write("var/snap/lxd/common/lxd/unix.socket", "")
    assert gather(host, version="6.1")[0]["firmware"]["dynamic_window"] is False
    assert gather(host, version="6.9")[0]["firmware"]["dynamic_window"] is True


def test_the_machine_loads(host):
    machine = load_machine(gather(host)[0]["machine"], PRESETS)
    assert [(root.name, device.address, device.board.kind) for root, device in machine.devices()] == [
        ("pci0000:00", "0000:0a:00.0", "nvswitch"),
        ("pci0000:40", H100, "gpu"),
        ("pci0000:80", "0000:81:00.0", "gpu"),
    ]


def test_a_group_that_cannot_be_handed_over_is_warned_about(host):
    host.add_function("0000:42:00.0", ids="8086:1572", class_code="0x020000", driver="ixgbe", group=17)
    facts, warnings = gather(host)
    assert [gpu["viable"] for gpu in facts["gpus"]] == [False, False, True]
    assert facts["gpus"][1]["in_the_way"][0]["name"] == "0000:42:00.0"
    assert len(warnings) == 1
    assert "IOMMU group 17 of 0000:41:00.0 is not viable: 0000:42:00.0 (ixgbe)" in warnings[0]


def test_no_iommu_and_no_kvm_are_warned_about_once(tree):
    for address in ("0000:41:00.0", "0000:42:00.0"):
        tree.add_function(address)
    warnings = gather(tree)[1]
    assert len(warnings) == 2
    assert "no IOMMU groups" in warnings[0]
    assert "/dev/kvm" in warnings[1]


def test_a_host_without_gpus_needs_no_warnings(tree):
    facts, warnings = gather(tree)
    assert (facts["gpus"], facts["nvswitches"], warnings) == ([], [], [])


def test_the_documentation_names_every_key(host):
    """What the module's RETURN says of lists is what these lists hold."""
    host.write(f"proc/driver/nvidia/gpus/{H100}/information", "Device Minor: 0\n")
    host.add_process(77, "burn", files=["/dev/nvidia0"])
    host.write("sys/module/nvidia/refcnt", "2\n")
    (host.folder(H100) / "sriov_totalvfs").write_text("16\n")
    documented = yaml.safe_load(gpu_host_info.RETURN)
    facts = gather(host)[0]
    for name in ("gpus", "groups", "holders", "kernel_users", "released"):
        assert set(documented[name]["contains"]) == set(facts[name][0]), name
    gpu = next(gpu for gpu in facts["gpus"] if gpu["address"] == H100)
    assert set(documented["gpus"]["contains"]["bars"]["contains"]) == set(gpu["bars"][0])
    assert set(documented["gpus"]["contains"]["sriov"]["contains"]) == set(gpu["sriov"])
    assert set(documented["groups"]["contains"]["members"]["contains"]) == set(facts["groups"][0]["members"][0])
    assert set(documented["firmware"]["contains"]) == set(facts["firmware"])
