# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""Every machine of the catalog in a real QEMU with the real device server, as far as the firmware: it numbers the buses and places the BARs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load, machine_names
from ansible_collections.gpulab.fleet.plugins.module_utils._common import build
from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import cache_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._common.processes import Child, end, spawn
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.check import require_machine_bars
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import MachineError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import hypervisor, images, serve
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.devices import device_specs, server_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hostplan import lay_out
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.install import install
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qcow2 import create_overlay
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qemu import QemuInputs, command_line
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qmp import Qmp

BUILD_TIMEOUT_S = 900.0
FIRMWARE_TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def qemu(checkout: Path) -> hypervisor.Hypervisor:
    """The QEMU that virtual hosts get on this machine."""
    found = hypervisor.installed()
    if found is not None:
        return found
    recipe = images.recipe("qemu", str(checkout / "roles" / "virtual_gpu_host" / "files"), {})
    made = build.ensure(recipe, cache_dir(), Progress(None, "test"), BUILD_TIMEOUT_S)
    return hypervisor.from_tree(made.output("tree"))


@pytest.fixture
def started() -> Iterator[list[Child]]:
    children: list[Child] = []
    yield children
    for child in reversed(children):
        end(child.ref)
        child.popen.wait()


def await_file(path: Path, mark: str, child: Child) -> None:
    deadline = time.monotonic() + FIRMWARE_TIMEOUT_S
    while not (path.exists() and mark in path.read_text(errors="replace")):
        assert child.exit_status() is None, f"ended with {child.exit_status()}"
        assert time.monotonic() < deadline, f"no {mark!r} in {path}"
        time.sleep(0.1)


def functions(buses: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for device in buses:
        yield device
        yield from functions(device.get("pci_bridge", {}).get("devices", []))


def run_firmware(
    machine: Machine, qemu: hypervisor.Hypervisor, folder: Path, started: list[Child]
) -> dict[str, dict[str, Any]]:
    """The functions of our devices by name, as the firmware left them."""
    specs = device_specs(machine)
    sockets = {spec.name: str(folder / f"{index}.s") for index, spec in enumerate(specs)}
    served = server_devices(specs, sockets)
    if served:
        (folder / "config.json").write_text(json.dumps({"devices": served, "log": str(folder / "devices.log")}))
        words = ["-m", serve.__name__, "--config", str(folder / "config.json"), "--ready-file", str(folder / "ready")]
        source = install(serve.__name__, str(folder / "server"))
        started.append(spawn([sys.executable, *words], str(folder / "out"), {"PYTHONPATH": source}))
        await_file(folder / "ready", "", started[-1])
    (folder / "disk.raw").write_bytes(b"\0" * 65536)
    create_overlay(str(folder / "disk.qcow2"), str(folder / "disk.raw"))
    inputs = QemuInputs(
        "firmware", 1, 1024, "none", "none", str(folder / "disk.qcow2"), str(folder / "console"), str(folder / "qmp"),
        str(folder / "mon"), 0, sockets,
    )  # fmt: skip
    arguments = command_line(machine, inputs)
    # Nothing is to be booted, and the firmware is to say what it does.
    first = arguments.index("-kernel")
    del arguments[first : first + 6]
    log = folder / "firmware.log"
    arguments += ["-chardev", f"file,id=firmware,path={log}", "-device", "isa-debugcon,iobase=0x402,chardev=firmware"]
    started.append(spawn([*qemu.command, *arguments], str(folder / "qemu.log"), qemu.environ))
    await_file(log, "No bootable device", started[-1])
    with Qmp(str(folder / "qmp")) as qmp:
        found = [function for bus in qmp.execute("query-pci") for function in functions(bus["devices"])]
    return {item["qdev_id"].removeprefix("dev-"): item for item in found if item["qdev_id"].startswith("dev-")}


def has_bars(name: str) -> bool:
    """Whether all of the machine's BARs are known; a board that no public source describes so far cannot be played as it is."""
    try:
        require_machine_bars(load(name))
    except MachineError:
        return False
    return True


def test_a_machine_without_bars_is_refused_before_anything_is_started():
    (name,) = (name for name in machine_names() if not has_bars(name))
    with pytest.raises(MachineError, match=r"boards\.nvidia-gb200\.bars is missing"):
        lay_out(load(name))


@pytest.mark.parametrize("name", [name for name in machine_names() if has_bars(name)])
def test_devices_are_where_they_are_described(
    name: str, qemu: hypervisor.Hypervisor, tmp_path_factory: pytest.TempPathFactory, started: list[Child]
):
    machine = load(name)
    # A short name: the paths of sockets are limited.
    folder = tmp_path_factory.mktemp("f")
    assert len(os.fsencode(str(folder))) < 90
    found = run_firmware(machine, qemu, folder, started)
    seen = {key: f"0000:{item['bus']:02x}:{item['slot']:02x}.{item['function']:x}" for key, item in found.items()}
    assert {key: address for key, address in seen.items() if "." not in key} == lay_out(machine).addresses()
    for spec in device_specs(machine):
        item = found[spec.name]
        assert item["function"] == spec.function
        if spec.spec is None:
            continue
        described = {bar["index"]: bar["size_bytes"] for bar in spec.spec["bars"]}  # type: ignore[attr-defined]
        assert {region["bar"]: region["size"] for region in item["regions"]} == described, spec.name
        assert all(region["address"] >= 0 for region in item["regions"]), f"{spec.name} has a BAR without a place"
        assert (item["id"]["vendor"], item["id"]["device"]) == (spec.spec["vendor_id"], spec.spec["device_id"])
