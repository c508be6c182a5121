# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""Writes a machine as the description that loads as the same machine; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.facts import (
    facts_to_dict,
    mig_layout_to_list,
    mig_profiles_to_dict,
    nic_to_dict,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.identity import derived_identities
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    Bar,
    Board,
    Device,
    DeviceServer,
    Function,
    GpuFacts,
    Machine,
    PcieRoot,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.units import format_size


def machine_to_dict(machine: Machine) -> dict[str, object]:
    """Plain data (also for JSON and YAML) that stands alone: every board in use is spelled out.

    Identities that follow from the machine's name stay out, so that a machine built on this one gets its own.
    """
    derived = derived_identities(machine)
    result: dict[str, object] = {
        "name": machine.name,
        "cpus": machine.cpus,
        "memory_mb": machine.memory_mb,
        "numa_nodes": machine.numa_nodes,
        "phys_bits": machine.phys_bits,
        "boards": {board.name: board_to_dict(board) for board in machine.boards()},
        "roots": {root.name: _root_to_dict(root, derived) for root in machine.roots},
    }
    return _with_filled(
        result,
        description=machine.description,
        nvidia_driver=facts_to_dict(machine.nvidia_driver) if machine.nvidia_driver else {},
        sources=dict(machine.sources),
        unknown=list(machine.unknown),
    )


def board_to_dict(board: Board) -> dict[str, object]:
    """A board as it stands in the boards section of a description."""
    result: dict[str, object] = {
        "kind": board.kind,
        "vendor": board.vendor,
        "product": board.product,
        "served": board.served,
    }
    result.update(_function_to_dict(board.main))
    companions = {
        str(function.number): {"name": function.name, **_function_to_dict(function)} for function in board.functions[1:]
    }
    return _with_filled(
        result,
        functions=companions,
        qemu_device=board.qemu_device,
        gpu=_gpu_to_dict(board.gpu),
        nic=nic_to_dict(board.nic) if board.nic else {},
        server=_server_to_dict(board.server),
        behaviour=dict(board.behaviour),
        sources=dict(board.sources),
        unknown=list(board.unknown),
    )


def _function_to_dict(function: Function) -> dict[str, object]:
    result: dict[str, object] = {
        "vendor_id": f"0x{function.vendor_id:04x}",
        "device_id": f"0x{function.device_id:04x}",
        "class_code": f"0x{function.class_code:06x}",
        "subsystem_vendor_id": f"0x{function.subsystem_vendor_id:04x}",
        "subsystem_id": f"0x{function.subsystem_id:04x}",
        "revision": f"0x{function.revision:02x}",
    }
    return _with_filled(result, bars={str(bar.index): _bar_to_dict(bar) for bar in function.bars})


def _bar_to_dict(bar: Bar) -> dict[str, object]:
    result: dict[str, object] = {
        "size": format_size(bar.size_bytes),
        "prefetchable": bar.prefetchable,
        "is_64bit": bar.is_64bit,
    }
    return _with_filled(result, is_io=bar.is_io, resizable=[format_size(size) for size in bar.resizable_bytes])


def _gpu_to_dict(gpu: GpuFacts | None) -> dict[str, object]:
    if gpu is None:
        return {}
    facts = {key: value for key, value in vars(gpu).items() if value is not None}
    # An empty table says that the board has no MIG; none says that nobody told.
    if gpu.mig_profiles is not None:
        facts["mig_profiles"] = mig_profiles_to_dict(gpu.mig_profiles)
    return facts


def _server_to_dict(server: DeviceServer | None) -> dict[str, object]:
    if server is None:
        return {}
    return _with_filled({}, command=list(server.command), socket=server.socket)


def _root_to_dict(root: PcieRoot, derived: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    devices = {device.name: _device_to_dict(device, derived[device.name]) for device in root.devices}
    result: dict[str, object] = {"devices": devices}
    if root.numa_node is not None:
        result["numa_node"] = root.numa_node
    return result


def _device_to_dict(device: Device, derived: Mapping[str, str]) -> dict[str, object]:
    own_behaviour = {
        key: value
        for key, value in device.behaviour.items()
        if key not in device.board.behaviour or device.board.behaviour[key] != value
    }
    result: dict[str, object] = {"address": device.address, "board": device.board.name}
    if device.mig is not None:
        result["mig"] = mig_layout_to_list(device.mig)
    return _with_filled(
        result,
        network=facts_to_dict(device.network) if device.network else {},
        server=_server_to_dict(device.server) if device.server != device.board.server else {},
        behaviour=own_behaviour,
        identity={key: value for key, value in device.identity.items() if derived.get(key) != value},
    )


def _with_filled(result: dict[str, object], **fields: object) -> dict[str, object]:
    """The mapping with those of the fields that hold something."""
    result.update({key: value for key, value in fields.items() if value not in (None, "", False, {}, [])})
    return result
