# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""Reads a board of a description: its own functions and BARs, or what it changes of another board; private to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import refuse
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.facts import read_mig_profiles, read_nic
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.merge import merge
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    KINDS,
    SERVED,
    Bar,
    Board,
    DeviceServer,
    Function,
    GpuFacts,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.reader import Reader, check_name
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.units import parse_size

GIVEN = "given in the machine description"

BAR_KEYS = ("size", "prefetchable", "is_64bit", "is_io", "resizable")
_IDS = ("vendor_id", "device_id", "class_code", "subsystem_vendor_id", "subsystem_id", "revision")
FUNCTION_KEYS = ("name", *_IDS, "bars")
GPU_KEYS = tuple(GpuFacts.__dataclass_fields__)
SERVER_KEYS = ("command", "socket")
BOARD_KEYS = (
    "from", "kind", "vendor", "product", *_IDS, "bars", "functions", "served", "qemu_device", "gpu", "nic", "server", "behaviour", "sources", "unknown",
)  # fmt: skip

NAME_LIMIT = 63
_SIZE_LIMIT_MIB = 1 << 40


def read_board(name: str, value: object, path: str) -> Board:
    """A board that is complete in itself."""
    reader = Reader(value, path, BOARD_KEYS, "write a mapping of the board's fields")
    check_name(name, path, NAME_LIMIT)
    kind = reader.choice("kind", KINDS)
    reader.require("product", "write the product's name")
    main = _read_function(reader, 0, kind)
    others = reader.mapping("functions", "write a mapping of function numbers (1 to 7) to functions")
    companions = [
        _read_companion(number, item, f"{reader.at('functions')}.{number}") for number, item in others.items()
    ]
    return Board(
        name=name,
        kind=kind,
        vendor=reader.text("vendor"),
        product=reader.text("product"),
        functions=(main, *sorted(companions, key=lambda function: function.number)),
        served=reader.choice("served", SERVED, default="vfio-user"),
        qemu_device=reader.optional_text("qemu_device"),
        gpu=_read_gpu(reader.raw("gpu"), reader.at("gpu")) if reader.has("gpu") else None,
        nic=read_nic(reader.raw("nic"), reader.at("nic")),
        server=read_server(reader.raw("server"), reader.at("server")),
        behaviour=reader.mapping("behaviour", "write a mapping"),
        sources=reader.texts("sources"),
        unknown=tuple(sorted(reader.text_list("unknown"))),
    )


def patch_board(base: Mapping[str, object], patch: object, path: str) -> dict[str, object]:
    """The description of a board with changes applied; changed fields no longer claim the old source."""
    reader = Reader(patch, path, BOARD_KEYS, "write a mapping of the board's fields")
    changes = {
        key: reader.raw(key) for key in BOARD_KEYS if key != "from" and isinstance(patch, Mapping) and key in patch
    }
    for key in ("bars", "functions"):
        if key in changes:
            changes[key] = _spell_out(changes[key], key)
    merged = merge(base, changes)
    result = {str(key): value for key, value in merged.items()} if isinstance(merged, Mapping) else {}
    _own(result, changes)
    return result


def read_server(value: object, path: str) -> Optional[DeviceServer]:
    """The program that serves a device, by command or by socket."""
    if value is None:
        return None
    remedy = 'write either {"command": ["program", "argument"]} or {"socket": "/path"}'
    reader = Reader(value, path, SERVER_KEYS, remedy)
    if reader.has("command") == reader.has("socket"):
        raise refuse(path, value, "names not exactly one of command and socket", remedy)
    if reader.has("socket"):
        socket = reader.text("socket")
        if not socket.startswith("/"):
            raise refuse(reader.at("socket"), socket, "is not an absolute path", "write the whole path of the socket")
        return DeviceServer(socket=socket)
    command = reader.text_list("command")
    if not command:
        raise refuse(reader.at("command"), list(command), "is empty", remedy)
    return DeviceServer(command=command)


def _read_function(reader: Reader, number: int, name: str) -> Function:
    return Function(
        number=number,
        name=name,
        vendor_id=reader.hexadecimal("vendor_id", 4),
        device_id=reader.hexadecimal("device_id", 4),
        class_code=reader.hexadecimal("class_code", 6),
        subsystem_vendor_id=reader.hexadecimal("subsystem_vendor_id", 4, default=0),
        subsystem_id=reader.hexadecimal("subsystem_id", 4, default=0),
        revision=reader.hexadecimal("revision", 2, default=0),
        bars=_read_bars(reader.raw("bars"), reader.at("bars")),
    )


def _read_companion(number: str, value: object, path: str) -> Function:
    if not re.fullmatch(r"[1-7]", number):
        raise refuse(
            path, number, "is not the number of a companion function", "use 1 to 7; function 0 is the board itself"
        )
    reader = Reader(value, path, FUNCTION_KEYS, "write a mapping of the function's fields")
    name = check_name(reader.text("name", f"function{number}"), reader.at("name"), NAME_LIMIT)
    return _read_function(reader, int(number), name)


def _read_bars(value: object, path: str) -> tuple[Bar, ...]:
    if value is None:
        return ()
    remedy = 'write a mapping of register numbers (0 to 5) to sizes, such as {0: "16M", 2: "128G"}'
    if not isinstance(value, Mapping):
        raise refuse(path, value, "is not a mapping", remedy)
    bars = []
    for key, item in value.items():
        index = str(key)
        if not re.fullmatch(r"[0-5]", index):
            raise refuse(f"{path}.{index}", index, "is not the number of a BAR", "a function has the registers 0 to 5")
        bars.append(_read_bar(int(index), item, f"{path}.{index}"))
    return tuple(sorted(bars, key=lambda bar: bar.index))


def _read_bar(index: int, value: object, path: str) -> Bar:
    reader = Reader(_spell_out_bar(value), path, BAR_KEYS, "write a size or a mapping")
    reader.require("size", 'write a size such as "128G"')
    size_bytes = parse_size(reader.raw("size"), reader.at("size"))
    is_io = reader.boolean("is_io", False)
    resizable = reader.raw("resizable")
    if resizable is not None and not isinstance(resizable, (list, tuple)):
        raise refuse(
            reader.at("resizable"), resizable, "is not a list of sizes", 'write a list such as ["64G", "128G"]'
        )
    return Bar(
        index=index,
        size_bytes=size_bytes,
        prefetchable=reader.boolean("prefetchable", not is_io),
        is_64bit=reader.boolean("is_64bit", not is_io),
        is_io=is_io,
        resizable_bytes=tuple(
            sorted(parse_size(item, f"{reader.at('resizable')}[{n}]") for n, item in enumerate(resizable or ()))
        ),
    )


def _read_gpu(value: object, path: str) -> GpuFacts:
    reader = Reader(value, path, GPU_KEYS, "write a mapping of facts")
    reader.require("product_name", "write the name that the vendor's tool prints")
    return GpuFacts(
        product_name=reader.text("product_name"),
        architecture=reader.optional_text("architecture"),
        memory_mib=reader.optional_integer("memory_mib", 1, _SIZE_LIMIT_MIB),
        bar1_mib=reader.optional_integer("bar1_mib", 1, _SIZE_LIMIT_MIB),
        cuda_compute_capability=reader.optional_text("cuda_compute_capability"),
        brand=reader.optional_text("brand"),
        mig_capable=reader.optional_boolean("mig_capable"),
        gfx_target=reader.optional_text("gfx_target"),
        mig_profiles=read_mig_profiles(reader.raw("mig_profiles"), reader.at("mig_profiles")),
    )


def _spell_out_bar(value: object) -> object:
    """A BAR given by its size alone, as the mapping that it stands for."""
    return value if isinstance(value, Mapping) or value is None else {"size": value}


def _spell_out(value: object, key: str) -> object:
    """Short forms written out, so that a merge keeps the flags of the BAR whose size changes."""
    if not isinstance(value, Mapping):
        return value
    if key == "bars":
        return {str(index): _spell_out_bar(item) for index, item in value.items()}
    return {
        str(number): {**item, "bars": _spell_out(item["bars"], "bars")}
        if isinstance(item, Mapping) and "bars" in item
        else item
        for number, item in value.items()
    }


def _own(board: dict[str, object], changes: Mapping[str, object]) -> None:
    """Let a changed board say which of its fields its author gave."""
    fields: set[str] = set()
    for key, value in changes.items():
        if key in ("gpu", "nic", "functions") and isinstance(value, Mapping):
            fields.update(f"{key}.{name}" for name in value)
        elif key not in ("sources", "unknown", "server", "behaviour", "served", "qemu_device"):
            fields.add(key)
    sources = board.get("sources")
    given = changes.get("sources")
    own = {field: GIVEN for field in fields if not isinstance(given, Mapping) or field not in given}
    if own and isinstance(sources or {}, Mapping):
        board["sources"] = merge(sources or {}, own)
    unknown = board.get("unknown")
    if isinstance(unknown, (list, tuple)) and "unknown" not in changes:
        board["unknown"] = [name for name in unknown if name not in fields]
