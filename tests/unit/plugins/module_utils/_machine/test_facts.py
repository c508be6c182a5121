# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG tables, layouts, network adapters and drivers in a description: what is read, what is refused, and the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.dump import machine_to_dict
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.identity import derive_ipv4, derive_mig_uuid
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import MachineError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    Device,
    Machine,
    MigInstance,
    NetworkFacts,
    NvidiaDriver,
)

PROFILE = {
    "profile_id": 19, "memory_mib": 5888, "multiprocessors": 14, "copy_engines": 1, "decoders": 1, "jpeg_engines": 0,
    "ofa_engines": 0, "instances": 4, "memory_slices": 1, "placements": [3, 0, 1, 2],
}  # fmt: skip


def _with(gpu: Any = None, nic: Any = None, board: Any = None, **more: Any) -> dict[str, Any]:
    """A lab machine with changes of its GPU, of an adapter beside it, of the GPU's board, or of the machine."""
    devices: dict[str, Any] = {"gpu0": gpu or {}}
    if nic is not None:
        devices["nic0"] = {"address": "0000:42:00.0", "board": "nvidia-connectx-7", **nic}
    boards = {} if board is None else {"mine": {"from": "nvidia-h100-sxm5-80gb", **board}}
    if board is not None:
        devices["gpu0"] = {"board": "mine", **devices["gpu0"]}
    return {"from": "lab-h100", "name": "mine", "boards": boards, "roots": {"pci0000:40": {"devices": devices}}, **more}


def _device(machine: Machine, name: str) -> Device:
    return next(device for _root, device in machine.devices() if device.name == name)


def test_what_is_read() -> None:
    driver = {"version": "550.54.15", "cuda_version": "12.4", "addressing_mode": "ATS"}
    network = {"interface": "ibp66s0", "mtu": "4092", "rdma_device": "mlx5_9", "uplink": True}
    layout = ["3g.40gb", {"profile": "1g.10gb", "start": 6, "uuid": "MIG-mine"}]
    machine = load(_with({"mig": layout}, {"network": network}, nvidia_driver=driver))
    assert machine.nvidia_driver == NvidiaDriver("550.54.15", "12.4", "ATS")
    assert _device(machine, "nic0").network == NetworkFacts("ibp66s0", 4092, "mlx5_9", True)
    assert _device(machine, "gpu0").mig == (MigInstance("3g.40gb"), MigInstance("1g.10gb", 6, "MIG-mine"))
    assert _device(load(_with({"mig": []})), "gpu0").mig == ()
    assert _device(load(_with()), "gpu0").mig is None


def test_a_table_of_ones_own() -> None:
    machine = load(_with(board={"gpu": {"mig_profiles": {"1g.10gb": None, "1g.6gb": PROFILE}}}))
    gpu = _device(machine, "gpu0").board.gpu
    assert gpu is not None and gpu.mig_profiles is not None
    # A merge adds to the catalog's table, and null takes away.
    names = [profile.name for profile in gpu.mig_profiles]
    assert "1g.6gb" in names
    assert "1g.10gb" not in names
    mine = next(profile for profile in gpu.mig_profiles if profile.name == "1g.6gb")
    assert (mine.placements, mine.encoders) == ((0, 1, 2, 3), 0)


@pytest.mark.parametrize(
    "description",
    [
        _with({"mig": ["3g.40gb", {"profile": "1g.10gb", "start": 6, "uuid": "MIG-mine"}]}),
        _with({"mig": []}),
        _with(nic={"network": {"interface": "eth0"}}),
        _with(nic={"network": {"uplink": True}, "identity": {"ipv4": "10.0.0.1/8"}}),
        _with(nvidia_driver={"version": "550.54.15", "cuda_version": "12.4"}),
        _with(board={"gpu": {"mig_profiles": {"1g.6gb": PROFILE}}}),
        "oci-gb200",
        "aws-p4d",
    ],
)
def test_there_and_back(description: Any) -> None:
    machine = load(description)
    assert load(json.loads(json.dumps(machine_to_dict(machine)))) == machine


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (_with({"mig": "3g.40gb"}), ["roots.pci0000:40.devices.gpu0.mig", "is not a list"]),
        (_with({"mig": ["3g40gb"]}), ["gpu0.mig[0]", "'3g40gb' is not the name of a MIG profile"]),
        (_with({"mig": [{"start": 0}]}), ["gpu0.mig[0].profile is missing"]),
        (_with({"mig": [{"profile": "3g.40gb", "begin": 0}]}), ["gpu0.mig[0].begin", "allowed: profile, start, uuid"]),
        (_with({"mig": ["3g.40gb"] * 3}), ["gpu0.mig[0]", "3 times", "at most 2"]),
        (_with({"mig": ["3g.40gb"], "board": "nvidia-t4"}), ["gpu0.mig", "is a board without MIG"]),
        (_with(nic={"mig": []}), ["nic0.mig", "is no kind of board that MIG divides"]),
        (_with({"network": {"interface": "eth0"}}), ["gpu0.network", "is not the kind of a network adapter"]),
        (_with(nic={"network": {"interface": "a name"}}), ["nic0.network.interface", "'a name'", "15 characters"]),
        (_with(nic={"network": {"interface": "x" * 16}}), ["nic0.network.interface"]),
        (_with(nic={"network": {"mtu": 10}}), ["nic0.network.mtu", "from 68 to 65536"]),
        (_with(nic={"network": {"ifname": "eth0"}}), ["nic0.network.ifname", "allowed: interface"]),
        (_with(board={"nic": {"rdma": True}}), ["boards.mine.nic", "'gpu'", "drop nic"]),
        (_with(nvidia_driver={"version": 580.1, "cuda_version": "13.0"}), ["nvidia_driver.version", "580.1 is not a version", "quotes"]),
        (_with(nvidia_driver={"version": "580"}), ["nvidia_driver.cuda_version is missing"]),
        (_with(nvidia_driver={"version": "580", "cuda_version": "13.0", "addressing_mode": "HMMM"}), ["addressing_mode", "did you mean 'HMM'"]),
        (_with(nvidia_driver="580.105.08"), ["nvidia_driver", "is not a mapping"]),
        (_with(board={"gpu": {"mig_profiles": ["1g.10gb"]}}), ["boards.mine.gpu.mig_profiles", "is not a mapping"]),
        (_with(board={"gpu": {"mig_profiles": {"1g.6gb": {**PROFILE, "placements": []}}}}), ["mig_profiles.1g.6gb.placements", "memory slices"]),
        (_with(board={"gpu": {"mig_profiles": {"1g.6gb": {**PROFILE, "memory_mib": 0}}}}), ["mig_profiles.1g.6gb.memory_mib", "out of range"]),
    ],
)  # fmt: skip
def test_what_is_refused(description: Any, words: list[str]) -> None:
    with pytest.raises(MachineError) as caught:
        load(description)
    assert [word for word in words if word not in caught.value.message] == [], caught.value.message


def test_a_changed_fact_has_no_old_source() -> None:
    machine = load(_with(nvidia_driver={"version": "550.54.15", "cuda_version": "12.4"}))
    assert machine.sources["nvidia_driver"] == "given in the machine description"
    board = _device(load(_with(board={"gpu": {"mig_profiles": {"1g.6gb": PROFILE}}})), "gpu0").board
    assert board.sources["gpu.mig_profiles"] == "given in the machine description"


def test_addresses_of_interfaces() -> None:
    addresses = {derive_ipv4("node", number) for number in range(500)}
    assert len(addresses) > 490
    assert all(address.startswith(("198.18.", "198.19.")) and address.endswith("/15") for address in addresses)
    plain = load(_with(nic={}))
    assert "ipv4" not in _device(plain, "nic0").identity
    up = load(_with(nic={"network": {"interface": "eth0"}}))
    assert _device(up, "nic0").identity["ipv4"] == derive_ipv4("mine", 0)


def test_uuids_of_instances() -> None:
    uuids = {derive_mig_uuid(node, index, 19, start) for node in ("a", "b") for index in range(8) for start in range(7)}
    assert len(uuids) == 2 * 8 * 7
    # Part of the interface, as those of GPUs.
    assert derive_mig_uuid("node", 0, 19, 0) == "MIG-37d8a605-ea06-1844-9819-40501b67fee2"
