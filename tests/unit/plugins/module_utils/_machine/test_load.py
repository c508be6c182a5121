# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""Descriptions that load, and what each wrong one is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import MachineError, load_machine


def _gpu0(small: dict[str, Any]) -> dict[str, Any]:
    return small["roots"]["pci0000:40"]["devices"]["gpu0"]  # type: ignore[no-any-return]


def _mine(small: dict[str, Any]) -> dict[str, Any]:
    return small["boards"]["mine"]  # type: ignore[no-any-return]


def test_all_of_it_arrives(small: dict[str, Any]) -> None:
    _gpu0(small)["server"] = {"command": ["/usr/bin/model", "--socket", "{socket}"]}
    _gpu0(small)["behaviour"] = {"stall_config_reads_s": 1}
    machine = load_machine(small)
    assert (machine.name, machine.cpus, machine.memory_mb, machine.numa_nodes, machine.phys_bits) == (
        "small",
        2,
        4096,
        2,
        46,
    )
    (first_root, first), (second_root, second) = machine.devices()
    assert (first_root.name, first_root.numa_node, second_root.name, second_root.numa_node) == (
        "pci0000:40",
        0,
        "pci0000:80",
        1,
    )
    assert (first.name, first.address, second.name, second.address) == ("gpu0", "0000:41:00.0", "gpu1", "0000:81:00.0")
    assert first.server is not None and first.server.command[0] == "/usr/bin/model"
    assert first.behaviour == {"stall_config_reads_s": 1}
    assert second.server is None
    main, audio = first.board.functions
    assert (main.vendor_id, main.device_id, main.class_code) == (0x10DE, 0x2330, 0x030200)
    assert [(bar.index, bar.size_bytes, bar.prefetchable, bar.is_64bit) for bar in main.bars] == [
        (0, 16 << 20, True, True),
        (2, 128 << 30, True, True),
        (4, 32 << 20, True, True),
    ]
    assert (audio.number, audio.name, audio.class_code, audio.bars[0].is_64bit) == (1, "audio", 0x040300, False)
    assert first.board.gpu is not None and first.board.gpu.memory_mib == 81559


def test_templates_make_strings_of_numbers(small: dict[str, Any]) -> None:
    small.update(cpus="4", memory_mb=" 8192 ")
    machine = load_machine(small)
    assert (machine.cpus, machine.memory_mb) == (4, 8192)


def test_server_and_behaviour_of_the_board_hold_for_its_devices(small: dict[str, Any]) -> None:
    _mine(small).update(server={"socket": "/run/gpu.sock"}, behaviour={"a": 1, "b": 2})
    _gpu0(small)["behaviour"] = {"b": 3}
    (_, first), (_, second) = load_machine(small).devices()
    assert first.server == second.server == first.board.server
    assert (first.behaviour, second.behaviour) == ({"a": 1, "b": 3}, {"a": 1, "b": 2})


def _set(*path: object, value: object) -> Callable[[dict[str, Any]], None]:
    def change(small: dict[str, Any]) -> None:
        place: Any = small
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


GPU0 = ("roots", "pci0000:40", "devices", "gpu0")
MINE = ("boards", "mine")
GPU0_AT = "roots.pci0000:40.devices.gpu0"

# What is changed, the path that the message begins with, and texts that it contains.
WRONG = [
    (_set("cpu", value=3), "cpu", ["3", "did you mean 'cpus'?", "memory_mb"]),
    (_set("cpus", value=0), "cpus", ["0", "from 1 to"]),
    (_set("cpus", value="two"), "cpus", ["'two'", "whole number"]),
    (_set("cpus", value=True), "cpus", ["True", "whole number"]),
    (_set("cpus", value=2.5), "cpus", ["2.5", "whole number"]),
    (_set("cpus", value=None), "cpus", ["missing", "whole number"]),
    (_set("name", value=None), "name", ["missing", "my-lab"]),
    (_set("name", value="../etc"), "name", ["'../etc'", "letters"]),
    (_set("phys_bits", value=64), "phys_bits", ["64", "36 to 52"]),
    (_set("numa_nodes", value=1), "roots.pci0000:80.numa_node", ["1", "numa_nodes: 1", "raise numa_nodes"]),
    (_set("roots", value=[]), "roots", ["[]", "mapping"]),
    (_set("roots", "pci0000:4", value={}), "roots.pci0000:4", ["'pci0000:4'", "pci0000:40"]),
    (_set("roots", "0000:40", value={}), "roots.0000:40", ["same root as pci0000:40"]),
    (_set("roots", "pci0000:40", "device", value={}), "roots.pci0000:40.device", ["did you mean 'devices'?"]),
    (_set("roots", "pci0000:40", "devices", value=[]), "roots.pci0000:40.devices", ["mapping of device names"]),
    (_set("roots", "pci0000:40", "numa_node", value=-1), "roots.pci0000:40.numa_node", ["-1"]),
    (_set(*GPU0, value="0000:41:00.0"), GPU0_AT, ["'0000:41:00.0'", "address and board"]),
    (_set(*GPU0, "address", value=2460.0), f"{GPU0_AT}.address", ["2460.0", "YAML", '"0000:41:00.0"']),
    (_set(*GPU0, "address", value=None), f"{GPU0_AT}.address", ["missing", "in quotes"]),
    (
        _set(*GPU0, "address", value="0000:81:00.0"),
        f"{GPU0_AT}.address",
        ["not below this root", "0000:40:00.0 to 0000:7f:1f.0"],
    ),
    (_set(*GPU0, "address", value="0000:3f:00.0"), f"{GPU0_AT}.address", ["not below this root"]),
    (_set(*GPU0, "address", value="0001:41:00.0"), f"{GPU0_AT}.address", ["not below this root"]),
    (_set(*GPU0, "address", value="0000:41:00.1"), f"{GPU0_AT}.address", ["function number 1", "function 0"]),
    (_set(*GPU0, "address", value="0000:41:00.8"), f"{GPU0_AT}.address", ["function number 8", "0 to 7"]),
    (_set(*GPU0, "board", value="mime"), f"{GPU0_AT}.board", ["'mime'", "did you mean 'mine'?"]),
    (_set(*GPU0, "board", value=None), f"{GPU0_AT}.board", ["missing", "mine"]),
    (
        _set(*GPU0, "uuid", value="GPU-1"),
        f"{GPU0_AT}.uuid",
        ["allowed: address, behaviour, board, identity, mig, network, server"],
    ),
    (_set(*GPU0, "identity", value={"uid": "x"}), f"{GPU0_AT}.identity.uid", ["did you mean 'uuid'?"]),
    (_set(*GPU0, "identity", value={"serial": 12}), f"{GPU0_AT}.identity.serial", ["12", "not text"]),
    (_set(*GPU0, "server", value={}), f"{GPU0_AT}.server", ["command", "socket"]),
    (_set(*GPU0, "server", value={"command": ["x"], "socket": "/y"}), f"{GPU0_AT}.server", ["not exactly one"]),
    (_set(*GPU0, "server", value={"command": "x --y"}), f"{GPU0_AT}.server.command", ["'x --y'", "list"]),
    (_set(*GPU0, "server", value={"command": []}), f"{GPU0_AT}.server.command", ["empty"]),
    (_set(*GPU0, "server", value={"socket": "gpu.sock"}), f"{GPU0_AT}.server.socket", ["absolute"]),
    (_set(*GPU0, "behaviour", value="crash"), f"{GPU0_AT}.behaviour", ["'crash'", "mapping"]),
    (
        _set("roots", "pci0000:80", "devices", "gpu0", value={"address": "0000:82:00.0", "board": "mine"}),
        "roots.pci0000:80.devices.gpu0",
        [f"also the name of {GPU0_AT}"],
    ),
    (
        _set("roots", "pci0000:40", "devices", "gpu9", value={"address": "41:00.0", "board": "mine"}),
        "roots.pci0000:40.devices.gpu9.address",
        ["'0000:41:00.0'", f"also the address of {GPU0_AT}"],
    ),
    (_set(*MINE, "kind", value="gup"), "boards.mine.kind", ["'gup'", "did you mean 'gpu'?"]),
    (_set(*MINE, "kind", value="nic"), "boards.mine.gpu", ["'nic'"]),
    (_set(*MINE, "product", value=None), "boards.mine.product", ["missing"]),
    (_set(*MINE, "device_id", value=2330), "boards.mine.device_id", ["2330", "another base", "in quotes"]),
    (_set(*MINE, "device_id", value="0x12345"), "boards.mine.device_id", ["at most 4 digits"]),
    (_set(*MINE, "device_id", value=None), "boards.mine.device_id", ["missing", "hexadecimal"]),
    (_set(*MINE, "class_code", value="vga"), "boards.mine.class_code", ["'vga'", "at most 6 digits"]),
    (_set(*MINE, "bar", value={}), "boards.mine.bar", ["did you mean 'bars'?"]),
    (_set(*MINE, "bars", value=["16M"]), "boards.mine.bars", ["mapping of register numbers"]),
    (_set(*MINE, "bars", value={6: "16M"}), "boards.mine.bars.6", ["registers 0 to 5"]),
    (_set(*MINE, "bars", value={5: "16M"}), "boards.mine.bars.5", ["register 6", "does not exist"]),
    (_set(*MINE, "bars", value={0: "16M", 1: "32M"}), "boards.mine.bars.1", ["register 1", "BAR 0 takes"]),
    (_set(*MINE, "bars", value={0: "17M"}), "boards.mine.bars.0.size", ["'17M'", "power of two"]),
    (_set(*MINE, "bars", value={0: 8}), "boards.mine.bars.0.size", ["power of two from 16"]),
    (_set(*MINE, "bars", value={0: {"size": "4G", "is_64bit": False}}), "boards.mine.bars.0.size", ["'4G'", "to 2G"]),
    (
        _set(*MINE, "bars", value={0: {"size": "1K", "is_io": True}}),
        "boards.mine.bars.0.size",
        ["'1K'", "I/O BAR", "to 256"],
    ),
    (
        _set(*MINE, "bars", value={0: {"size": 128, "is_io": True, "is_64bit": True}}),
        "boards.mine.bars.0",
        ["flags of memory"],
    ),
    (_set(*MINE, "bars", value={0: {"sise": "1G"}}), "boards.mine.bars.0.sise", ["did you mean 'size'?"]),
    (_set(*MINE, "bars", value={0: {"prefetchable": True}}), "boards.mine.bars.0.size", ["missing"]),
    (
        _set(*MINE, "bars", value={0: {"size": "1G", "prefetchable": "yes"}}),
        "boards.mine.bars.0.prefetchable",
        ["'yes'", "true or false"],
    ),
    (
        _set(*MINE, "bars", value={0: {"size": "1G", "resizable": "2G"}}),
        "boards.mine.bars.0.resizable",
        ["list of sizes"],
    ),
    (
        _set(*MINE, "bars", value={0: {"size": "1G", "resizable": ["2G"]}}),
        "boards.mine.bars.0.resizable",
        ["does not offer 1G"],
    ),
    (
        _set(*MINE, "bars", value={0: {"size": "512K", "resizable": ["512K", "1M"]}}),
        "boards.mine.bars.0.resizable",
        ["'512K'", "from 1M"],
    ),
    (
        _set(*MINE, "bars", value={0: {"size": "1G", "resizable": ["1G", "some"]}}),
        "boards.mine.bars.0.resizable[1]",
        ["'some'"],
    ),
    (_set(*MINE, "functions", "8", value={}), "boards.mine.functions.8", ["use 1 to 7"]),
    (_set(*MINE, "functions", "0", value={}), "boards.mine.functions.0", ["function 0 is the board itself"]),
    (_set(*MINE, "functions", 1, "bars", value={5: "1M"}), "boards.mine.functions.1.bars.5", ["register 6"]),
    (_set(*MINE, "functions", 1, "kind", value="x"), "boards.mine.functions.1.kind", ["allowed: bars"]),
    (_set(*MINE, "served", value="qemu"), "boards.mine.qemu_device", ["names its qemu_device"]),
    (_set(*MINE, "qemu_device", value="virtio-gpu-pci"), "boards.mine.qemu_device", ["vfio-user"]),
    (_set(*MINE, "gpu", value={"memory_mib": 1}), "boards.mine.gpu.product_name", ["missing"]),
    (_set(*MINE, "gpu", value={"product_name": "x", "memory": 1}), "boards.mine.gpu.memory", ["memory_mib"]),
    (_set(*MINE, "sources", value={"bars": 1}), "boards.mine.sources.bars", ["not text"]),
    (_set(*MINE, "unknown", value="bars"), "boards.mine.unknown", ["list"]),
]


@pytest.mark.parametrize(
    ("change", "path", "texts"), WRONG, ids=[f"{n}-{path}" for n, (_, path, _texts) in enumerate(WRONG)]
)
def test_wrong(small: dict[str, Any], change: Callable[[dict[str, Any]], None], path: str, texts: list[str]) -> None:
    load_machine(small)
    change(small)
    with pytest.raises(MachineError) as caught:
        load_machine(small)
    message = caught.value.message
    assert message.startswith((f"{path}: ", f"{path} is missing; "))
    assert [text for text in texts if text not in message] == [], message
    assert caught.value.details["path"] == path
    assert "\n" not in message


@pytest.mark.parametrize("description", [None, 3, [], ["lab-h100"]])
def test_not_a_description(description: object) -> None:
    with pytest.raises(MachineError, match="a preset's name, a file's name or a mapping"):
        load_machine(description)


def test_a_long_value_is_cut(small: dict[str, Any]) -> None:
    small["cpus"] = "x" * 5000
    with pytest.raises(MachineError) as caught:
        load_machine(small)
    assert len(caught.value.message) < 300
