# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import DeviceServer, Machine, PcieRoot
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.devices import device_specs
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qemu import QemuError, QemuInputs, command_line
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.host_support import (
    DISPLAY,
    GPU_WITH_AUDIO,
    device,
    machine,
    pair,
)


def inputs(described: Machine, **changes: Any) -> QemuInputs:
    sockets = {spec.name: f"/run/x/{spec.name}.sock" for spec in device_specs(described)}
    base = QemuInputs(
        "host", 2, 4096, "/i/vmlinuz", "/i/initrd", "/s/disk.qcow2", "/s/console", "/r/qmp", "/r/mon", 2222, sockets
    )
    return replace(base, **changes)


def values(argv: list[str], option: str) -> list[str]:
    return [argv[index + 1] for index, word in enumerate(argv[:-1]) if word == option]


def devices(argv: list[str]) -> list[dict[str, Any]]:
    return [json.loads(word) for word in values(argv, "-device") if word.startswith("{")]


def test_the_arguments_that_passthrough_needs():
    described = pair()
    argv = command_line(described, inputs(described))
    assert values(argv, "-machine")[0].startswith("q35,kernel-irqchip=split,")
    assert values(argv, "-accel") == ["tcg,thread=multi"]
    assert values(argv, "-cpu") == ["max,phys-bits=46"]
    assert values(argv, "-device")[0] == "intel-iommu,intremap=on,aw-bits=48,caching-mode=on"
    append = values(argv, "-append")[0]
    for word in (
        "intel_iommu=on",
        "iommu=nopt",
        "tsc=reliable",
        "clocksource=tsc",
        "root=/dev/vda",
        "systemd.hostname=host",
    ):
        assert word in append.split()
    assert {"-nodefaults", "-no-reboot"} <= set(argv)


def test_devices_are_served_over_their_sockets_at_their_ports():
    described = pair()
    argv = command_line(described, inputs(described))
    assert devices(argv) == [
        {
            "driver": "vfio-user-pci",
            "id": "dev-gpu0",
            "bus": "port41",
            "addr": "00.0",
            "socket": {"type": "unix", "path": "/run/x/gpu0.sock"},
        },
        {
            "driver": "vfio-user-pci",
            "id": "dev-gpu1",
            "bus": "port81",
            "addr": "00.0",
            "socket": {"type": "unix", "path": "/run/x/gpu1.sock"},
        },
    ]
    words = values(argv, "-device")
    assert "pxb-pcie,id=root40,bus_nr=0x40,bus=pcie.0,addr=0x01,numa_node=0" in words
    assert "pcie-root-port,id=port41,bus=root40,addr=0x00,chassis=1,hotplug=off,io-reserve=0" in words


def test_a_device_comes_after_its_bus():
    described = pair()
    words = values(command_line(described, inputs(described)), "-device")
    order = [next(i for i, word in enumerate(words) if mark in word) for mark in ("id=root40", "id=port41", "dev-gpu0")]
    assert order == sorted(order)


def test_companion_functions_share_the_slot():
    described = machine(PcieRoot("pci0000:40", 0, (device("gpu0", "0000:41:00.0", GPU_WITH_AUDIO),)))
    found = devices(command_line(described, inputs(described)))
    assert [(item["id"], item["addr"], item.get("multifunction")) for item in found] == [
        ("dev-gpu0", "00.0", True),
        ("dev-gpu0.1", "00.1", None),
    ]


def test_a_board_that_qemu_serves_goes_through_the_iommu():
    described = machine(PcieRoot("pci0000:40", 0, (device("display0", "0000:41:00.0", DISPLAY),)))
    argv = command_line(described, inputs(described, sockets={}))
    assert "virtio-gpu-pci,id=dev-display0,bus=port41,addr=0x00,iommu_platform=on" in values(argv, "-device")


def test_a_socket_of_the_users_own_is_used():
    own = device("gpu0", "0000:41:00.0", server=DeviceServer(socket="/tmp/mine.sock"))
    described = machine(PcieRoot("pci0000:40", 0, (own,)))
    argv = command_line(described, inputs(described, sockets={}, shared_memory=True))
    assert devices(argv)[0]["socket"]["path"] == "/tmp/mine.sock"
    assert values(argv, "-object") == ["memory-backend-memfd,share=on,id=ram0,size=4096M"]


def test_a_device_without_a_socket_is_named():
    described = pair()
    with pytest.raises(QemuError, match="'gpu0' has no vfio-user socket"):
        command_line(described, inputs(described, sockets={}))


@pytest.mark.parametrize(
    ("nodes", "cpus", "memory_mb", "expected"),
    [
        (1, 2, 4096, ["node,nodeid=0,cpus=0,cpus=1,memdev=ram0"]),
        (2, 2, 4096, ["node,nodeid=0,cpus=0,memdev=ram0", "node,nodeid=1,cpus=1,memdev=ram1"]),
        (2, 1, 4096, ["node,nodeid=0,cpus=0,memdev=ram0", "node,nodeid=1,memdev=ram1"]),
        (2, 5, 4096, ["node,nodeid=0,cpus=0,cpus=1,memdev=ram0", "node,nodeid=1,cpus=2,cpus=3,cpus=4,memdev=ram1"]),
    ],
)
def test_numa_nodes_share_processors_and_memory(nodes: int, cpus: int, memory_mb: int, expected: list[str]):
    described = replace(pair(), numa_nodes=nodes)
    argv = command_line(described, inputs(described, cpus=cpus, memory_mb=memory_mb))
    assert values(argv, "-numa") == expected
    sizes = [int(word.rpartition("size=")[2].rstrip("M")) for word in values(argv, "-object")]
    assert sum(sizes) == memory_mb and len(sizes) == nodes


def test_memory_that_does_not_divide_is_not_lost():
    described = replace(pair(), numa_nodes=3)
    sizes = [
        int(w.rpartition("size=")[2].rstrip("M"))
        for w in values(command_line(described, inputs(described, memory_mb=4001)), "-object")
    ]
    assert sizes == [1337, 1332, 1332]


def test_too_little_memory_is_refused():
    described = replace(pair(), numa_nodes=64)
    with pytest.raises(QemuError, match="too little for 64 NUMA nodes"):
        command_line(described, inputs(described, memory_mb=64))


def test_a_node_that_is_not_there_is_not_named():
    described = machine(PcieRoot("pci0000:40", 3, (device("gpu0", "0000:41:00.0"),)), numa_nodes=2)
    expander = next(
        word for word in values(command_line(described, inputs(described)), "-device") if word.startswith("pxb-pcie")
    )
    assert "numa_node" not in expander


def test_kvm_gets_the_processor_of_the_machine_below():
    described = pair()
    argv = command_line(described, inputs(described, accel="kvm"))
    assert values(argv, "-accel") == ["kvm"]
    assert values(argv, "-cpu") == ["host,host-phys-bits=on,host-phys-bits-limit=46"]


def test_the_ssh_key_comes_as_a_systemd_credential():
    described = pair()
    (append,) = values(command_line(described, inputs(described, public_key="ssh-ed25519 AAAA me\n")), "-append")
    word = next(word for word in append.split() if word.startswith("systemd.set_credential_binary="))
    name, _colon, encoded = word.partition("=")[2].partition(":")
    assert (name, base64.b64decode(encoded)) == ("ssh.authorized_keys.root", b"ssh-ed25519 AAAA me\n")
    assert "credential" not in " ".join(command_line(described, inputs(described)))


def test_ssh_is_forwarded_on_loopback_only_and_nothing_gets_out():
    described = pair()
    assert values(command_line(described, inputs(described)), "-netdev") == [
        "user,id=net0,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22"
    ]


def test_commas_in_paths_are_doubled():
    described = pair()
    argv = command_line(described, inputs(described, disk="/a,b/disk", qmp_socket="/a,b/qmp"))
    assert "file=/a,,b/disk," in values(argv, "-drive")[0]
    assert values(argv, "-qmp") == ["unix:/a,,b/qmp,server=on,wait=off"]


def test_the_users_arguments_come_last_and_the_guards_before_the_kernel():
    described = pair()
    argv = command_line(
        described,
        inputs(
            described,
            extra_arguments=("-d", "int"),
            plugin_arguments=("-plugin", "file=x.so"),
            kernel_arguments="debug",
        ),
    )
    assert argv[-2:] == ["-d", "int"]
    assert argv.index("-plugin") < argv.index("-kernel")
    assert values(argv, "-append")[0].endswith(" debug")


def test_the_same_input_gives_the_same_arguments():
    assert command_line(pair(), inputs(pair())) == command_line(pair(), inputs(pair()))
