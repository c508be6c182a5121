# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns a machine description (a preset's name, a file, a mapping) into a Machine; private to the collection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import (
    format_root,
    locate,
    parse_address,
    parse_root,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.boards import (
    GIVEN,
    NAME_LIMIT,
    patch_board,
    read_board,
    read_server,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.check import check_machine
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.dump import board_to_dict, machine_to_dict
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import (
    MachineError,
    nearest,
    refuse,
    refuse_missing,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.facts import (
    read_mig_layout,
    read_network,
    read_nvidia_driver,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.files import (
    file_path,
    is_file_name,
    read_description,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.identity import IDENTITY_KEYS, with_identities
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.merge import merge
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    DEFAULT_PHYS_BITS,
    Board,
    Device,
    Machine,
    PcieRoot,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.reader import Reader, check_name

__all__ = ["MachineError", "Presets", "load_machine"]

MACHINE_KEYS = (
    "from", "name", "description", "cpus", "memory_mb", "numa_nodes", "phys_bits", "boards", "roots", "nvidia_driver", "sources", "unknown",
)  # fmt: skip
ROOT_KEYS = ("numa_node", "devices")
DEVICE_KEYS = ("address", "board", "server", "behaviour", "identity", "network", "mig")

# A machine's name may be a host name, and those have 253 characters at most (RFC 1035, 2.3.4).
_MACHINE_NAME_LIMIT = 253
_MAX_NUMA_NODES = 128

# Follows the source of roots that a description inherited and then changed.
_CHANGED = "; changed in the machine description"


@dataclass(frozen=True)
class Presets:
    """The boards and machines that a description may name."""

    boards: Mapping[str, Board] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)


def load_machine(description: object, presets: Presets | None = None, base_dir: str | None = None) -> Machine:
    """The machine that a preset's name, a file's name or a mapping describes."""
    return _Loader(presets or Presets()).load(description, base_dir)


class _Loader:
    """One loading: the presets, and the files that are being read."""

    def __init__(self, presets: Presets) -> None:
        self.presets = presets

    def load(self, description: object, base_dir: str | None) -> Machine:
        if isinstance(description, Machine):
            check_machine(description)
            return with_identities(description)
        resolved = self._resolve(description, base_dir, (), "machine")
        try:
            machine = self._build(resolved)
            check_machine(machine)
        except MachineError as error:
            if isinstance(description, str) and is_file_name(description):
                raise _in_file(error, file_path(description, base_dir)) from error
            raise
        return with_identities(machine)

    def _resolve(
        self, description: object, base_dir: str | None, reading: tuple[str, ...], at: str
    ) -> dict[str, object]:
        """The description with everything that it builds on."""
        if isinstance(description, str):
            if not is_file_name(description):
                return self._preset(description, at)
            content, path = read_description(description, base_dir)
            if path in reading:
                raise MachineError(
                    f"machine description {path}: builds on itself by way of {' and '.join(reading)}; remove one 'from'",
                    path=path,
                )
            if not isinstance(content, Mapping):
                raise refuse(
                    "",
                    content,
                    f"in {path} is not a mapping",
                    "write the machine's fields, such as name, cpus and roots",
                )
            try:
                return self._resolve(content, os.path.dirname(path), (*reading, path), at)
            except MachineError as error:
                raise _in_file(error, path) from error
        reader = Reader(
            description,
            "",
            MACHINE_KEYS,
            "give a preset's name, a file's name or a mapping with name, cpus, memory_mb and roots",
        )
        base: dict[str, object] = {}
        if reader.has("from"):
            base = self._resolve(reader.text("from"), base_dir, reading, "from")
        own = {
            key: reader.raw(key) for key in MACHINE_KEYS if key not in ("from", "boards") and _present(description, key)
        }
        if own.get("roots") is not None:
            own["roots"] = _normal_roots(own["roots"])
        merged = merge(base, own)
        result = {str(key): value for key, value in merged.items()} if isinstance(merged, Mapping) else {}
        result["boards"] = self._resolve_boards(reader, base.get("boards"))
        if base:
            _own(result, own)
        return result

    def _preset(self, name: str, path: str) -> dict[str, object]:
        if name not in self.presets.machines:
            remedy = nearest(name, self.presets.machines) + "; or a file's name with .yml or .json"
            raise refuse(path, name, "is not a machine preset", remedy)
        return machine_to_dict(self.presets.machines[name])

    def _resolve_boards(self, reader: Reader, inherited: object) -> dict[str, object]:
        boards: dict[str, object] = (
            {str(key): value for key, value in inherited.items()} if isinstance(inherited, Mapping) else {}
        )
        own = reader.mapping("boards", "write a mapping of board names to boards")
        finished: dict[str, object] = {}

        def finish(name: str, chain: tuple[str, ...]) -> object:
            if name in finished:
                return finished[name]
            path = f"{reader.at('boards')}.{name}"
            item = own[name]
            start = item.get("from") if isinstance(item, Mapping) else None
            if start is None:
                finished[name] = patch_board(_mapping(boards[name]), item, path) if name in boards else item
                return finished[name]
            if not isinstance(start, str):
                raise refuse(f"{path}.from", start, "is not the name of a board", "write a board's name")
            if start in own and start != name:
                if start in chain:
                    raise refuse(f"{path}.from", start, "builds on itself", "remove one 'from'")
                base = finish(start, (*chain, name))
            elif start in boards:
                base = boards[start]
            elif start in self.presets.boards:
                base = board_to_dict(self.presets.boards[start])
            else:
                raise refuse(
                    f"{path}.from",
                    start,
                    "is not a board",
                    nearest(start, {*own, *boards, *self.presets.boards} - {name}),
                )
            finished[name] = patch_board(_mapping(base), item, path)
            return finished[name]

        for name, item in own.items():
            if item is None:
                boards.pop(name, None)
            elif name not in finished:
                finish(name, (name,))
        boards.update(finished)
        return boards

    def _build(self, description: Mapping[str, object]) -> Machine:
        reader = Reader(description, "", MACHINE_KEYS, "give a mapping")
        reader.require("name", 'write the machine\'s name, such as "my-lab"')
        boards = {
            name: self._read_board(name, item) for name, item in reader.mapping("boards", "give a mapping").items()
        }
        roots = [self._read_root(name, item, boards) for name, item in reader.mapping("roots", _ROOTS_REMEDY).items()]
        numa_of_roots = [root.numa_node for root in roots if root.numa_node is not None]
        return Machine(
            name=check_name(reader.text("name"), "name", _MACHINE_NAME_LIMIT),
            cpus=reader.integer("cpus", 1, 8192),
            memory_mb=reader.integer("memory_mb", 1, 1 << 30),
            numa_nodes=reader.integer("numa_nodes", 1, _MAX_NUMA_NODES, default=max(numa_of_roots, default=0) + 1),
            phys_bits=reader.integer("phys_bits", 36, 52, default=DEFAULT_PHYS_BITS),
            roots=tuple(sorted(roots, key=lambda root: parse_root(root.name, root.name))),
            description=reader.text("description"),
            nvidia_driver=read_nvidia_driver(reader.raw("nvidia_driver"), "nvidia_driver"),
            sources=reader.texts("sources"),
            unknown=tuple(sorted(reader.text_list("unknown"))),
        )

    def _read_board(self, name: str, item: object) -> Board:
        path = f"boards.{name}"
        if isinstance(item, Mapping) and name in self.presets.boards and "kind" not in item:
            raise refuse_missing(
                f"{path}.from", f'to change the preset, add from: "{name}"; to replace it, give all of its fields'
            )
        return read_board(name, item, path)

    def _read_root(self, name: str, item: object, boards: Mapping[str, Board]) -> PcieRoot:
        path = f"roots.{name}"
        reader = Reader({} if item is None else item, path, ROOT_KEYS, "write a mapping with devices and numa_node")
        devices = [
            self._read_device(device, value, f"{path}.devices.{device}", boards)
            for device, value in reader.mapping("devices", _DEVICES_REMEDY).items()
        ]
        return PcieRoot(
            name=format_root(*parse_root(name, path)),
            numa_node=reader.optional_integer("numa_node", 0, _MAX_NUMA_NODES - 1),
            devices=tuple(sorted(devices, key=lambda device: _place(device.address))),
        )

    def _read_device(self, name: str, item: object, path: str, boards: Mapping[str, Board]) -> Device:
        check_name(name, path, NAME_LIMIT)
        reader = Reader(item, path, DEVICE_KEYS, "write a mapping with address and board")
        reader.require("address", 'write the bus address in quotes, such as "0000:41:00.0"')
        reader.require("board", f"write a board's name; {nearest('', {*boards, *self.presets.boards})}")
        wanted = reader.text("board")
        board = boards.get(wanted) or self.presets.boards.get(wanted)
        if board is None:
            raise refuse(reader.at("board"), wanted, "is not a board", nearest(wanted, {*boards, *self.presets.boards}))
        identity = reader.texts("identity")
        for key in identity:
            if key not in IDENTITY_KEYS:
                raise refuse(
                    f"{path}.identity.{key}",
                    identity[key],
                    "is given for a key that is not known here",
                    nearest(key, IDENTITY_KEYS),
                )
        return Device(
            name=name,
            address=parse_address(reader.raw("address"), reader.at("address")),
            board=board,
            server=read_server(reader.raw("server"), reader.at("server")) or board.server,
            behaviour={**board.behaviour, **reader.mapping("behaviour", "write a mapping")},
            identity=identity,
            network=read_network(reader.raw("network"), reader.at("network")),
            mig=read_mig_layout(reader.raw("mig"), reader.at("mig")),
        )


_ROOTS_REMEDY = 'write a mapping of root names to roots, such as {"pci0000:40": {"devices": {}}}'
_DEVICES_REMEDY = (
    'write a mapping of device names to devices, such as {"gpu0": {"address": "0000:41:00.0", "board": "nvidia-t4"}}'
)


def _normal_roots(value: object) -> object:
    """Roots under the names that sysfs has, so that a patch meets the root that it means."""
    if not isinstance(value, Mapping):
        raise refuse("roots", value, "is not a mapping", _ROOTS_REMEDY)
    result: dict[str, object] = {}
    for key, item in value.items():
        name = format_root(*parse_root(key, f"roots.{key}"))
        if name in result:
            raise refuse(f"roots.{key}", key, f"is the same root as {name}", "give each root once")
        result[name] = item
    return result


def _own(result: dict[str, object], changes: Mapping[str, object]) -> None:
    """Let a machine that builds on another say which figures are not the other's."""
    own = {
        key: GIVEN
        for key in ("cpus", "memory_mb", "numa_nodes", "phys_bits", "nvidia_driver")
        if changes.get(key) is not None
    }
    sources, unknown, given = result.get("sources", {}), result.get("unknown"), _mapping(changes.get("sources"))
    if isinstance(sources, Mapping):
        before = sources.get("roots")
        if changes.get("roots") is not None and isinstance(before, str) and not before.endswith(_CHANGED):
            own["roots"] = before + _CHANGED
        result["sources"] = {**sources, **{key: text for key, text in own.items() if key not in given}}
    if isinstance(unknown, (list, tuple)) and "unknown" not in changes:
        result["unknown"] = [name for name in unknown if name not in own]


def _in_file(error: MachineError, path: str) -> MachineError:
    """The error with the file in front, once."""
    if "file" in error.details:
        return error
    return MachineError(f"{path}: {error.message}", **{**error.details, "file": path})


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _place(address: str) -> tuple[int, int, int, int]:
    location = locate(address, "address")
    return location.domain, location.bus, location.device, location.function


def _present(description: object, key: str) -> bool:
    return isinstance(description, Mapping) and key in description
