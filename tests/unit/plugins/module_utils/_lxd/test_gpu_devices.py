# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.gpu_devices import (
    GpuDevice,
    GpuUnusable,
    addresses_of,
    free_name,
    gpu_devices,
    same_gpu,
    takes,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import CONTAINER, VIRTUAL_MACHINE

A = "0000:41:00.0"
PLAIN = {"type": "gpu", "gputype": "physical", "pci": A}
RUNTIME = {"nvidia.runtime": "true", "nvidia.driver.capabilities": "all"}
NVIDIA = {"pci_address": A, "driver": "nvidia", "nvidia": {"uuid": "GPU-1234", "card_name": "nvidia0"}}
DRM = {"pci_address": A, "driver": "virtio-pci", "drm": {"id": 0, "card_name": "card0"}}
BARE = {"pci_address": A, "driver": ""}


def cards(*entries):
    return {"gpu": {"cards": list(entries)}}


@pytest.mark.parametrize(
    ("kind", "card", "extensions", "device", "config"),
    [
        (VIRTUAL_MACHINE, BARE, "LXD_5_0", PLAIN, {}),
        (VIRTUAL_MACHINE, NVIDIA, "LXD_5_0", PLAIN, {}),
        (VIRTUAL_MACHINE, NVIDIA, "LXD_6_9_PLUS", PLAIN, {}),
        (VIRTUAL_MACHINE, None, "LXD_5_0", {"type": "pci", "address": A}, {}),
        (CONTAINER, DRM, "LXD_5_0", PLAIN, {}),
        (CONTAINER, DRM, "LXD_6_9_PLUS", PLAIN, {}),
        (CONTAINER, NVIDIA, "LXD_5_0", PLAIN, RUNTIME),
        (CONTAINER, NVIDIA, "LXD_6_7", PLAIN, RUNTIME),
        (
            CONTAINER,
            NVIDIA,
            "LXD_6_9_PLUS",
            {"type": "gpu", "gputype": "physical", "id": "nvidia.com/gpu=GPU-1234"},
            {},
        ),
    ],
)
def test_devices_by_kind_card_and_release(fake, kind, card, extensions, device, config):
    has = set(getattr(fake, extensions)).__contains__
    resources = cards(card) if card else cards()
    assert gpu_devices([A], kind, resources, has) == (GpuDevice(A, device, config),)


@pytest.mark.parametrize(
    ("kind", "card", "extensions", "reason", "words"),
    [
        (CONTAINER, BARE, "LXD_5_0", "gpu_unusable_in_container", [A, "none", "DRM", "VM"]),
        (CONTAINER, {**BARE, "driver": "vfio-pci"}, "LXD_5_0", "gpu_unusable_in_container", [A, "vfio-pci"]),
        (CONTAINER, None, "LXD_5_0", "gpu_unusable_in_container", [A]),
        (CONTAINER, {**NVIDIA, "nvidia": {"card_name": "x"}}, "LXD_6_9_PLUS", "gpu_unusable_in_container", ["UUID"]),
        (VIRTUAL_MACHINE, None, None, "gpu_unknown_to_lxd", [A, "pci_device_type"]),
    ],
)
def test_gpus_that_cannot_be_had(fake, kind, card, extensions, reason, words):
    has = set(getattr(fake, extensions) if extensions else ()).__contains__
    with pytest.raises(GpuUnusable) as error:
        gpu_devices([A], kind, cards(card) if card else {}, has)
    assert error.value.details["reason"] == reason
    assert [word for word in words if word not in error.value.message] == []


@pytest.mark.parametrize(
    ("device", "taken"),
    [
        (PLAIN, True),
        ({"type": "gpu", "pci": A.upper()}, True),
        ({"type": "pci", "address": A}, True),
        ({"type": "gpu"}, True),
        ({"type": "gpu", "gputype": "physical"}, True),
        ({"type": "gpu", "pci": "0000:81:00.0"}, False),
        ({"type": "gpu", "vendorid": "10de"}, False),
        ({"type": "gpu", "id": "0"}, False),
        ({"type": "nic", "pci": A}, False),
    ],
)
def test_which_devices_take_a_gpu(device, taken):
    assert takes(device, A) is taken


def test_addresses_and_names():
    devices = {"x": PLAIN, "y": {"type": "pci", "address": "0000:81:00.0"}, "z": {"type": "disk"}, "w": {"type": "gpu"}}
    assert addresses_of(devices) == (A, "0000:81:00.0")
    assert free_name([]) == "gpu0"
    assert free_name(["gpu0", "gpu2"]) == "gpu1"


def test_a_cdi_device_is_the_same_gpu_by_its_id_only():
    wanted = GpuDevice(A, {"type": "gpu", "id": "nvidia.com/gpu=GPU-1234"}, {})
    assert same_gpu({"type": "gpu", "gputype": "physical", "id": "nvidia.com/gpu=GPU-1234"}, wanted)
    assert not same_gpu(PLAIN, wanted)
