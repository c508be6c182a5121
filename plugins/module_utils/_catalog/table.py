# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=disallowed-name  # a BAR may be called one
"""The catalog as a page of documentation; private to the collection."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.machines import MACHINES
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Bar, Board, Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.units import format_size

_HEAD = """<!--
SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
SPDX-License-Identifier: GPL-3.0-or-later
-->
<!-- Written by plugins/module_utils/_catalog/table.py; to renew: python3 -m ansible_collections.gpulab.fleet.plugins.module_utils._catalog.table -->

# Boards and machines that ship with the collection

A machine description may name any of them; see [machine-description.md](machine-description.md). Every figure has a
source, listed below. What no public source tells is *unknown*: nothing is guessed. Where it matters, give it in the
description, for example the BARs of a board that has none here.
"""


def catalog_page() -> str:
    """The page, in Markdown."""
    parts = [
        _HEAD,
        "## Boards\n",
        _table(
            ("name", "product", "kind", "PCI id", "subsystem", "class", "rev", "BARs", "memory", "unknown"),
            (_board_row(BOARDS[name]) for name in sorted(BOARDS)),
        ),
        "## GPUs\n",
        _table(
            ("name", "product name", "architecture", "compute capability or target", "BAR1", "MIG", "MIG profiles"),
            (_gpu_row(BOARDS[name]) for name in sorted(BOARDS) if BOARDS[name].gpu is not None),
        ),
        "## Machines\n",
        _table(
            ("name", "what it is", "CPUs", "memory", "NUMA nodes", "roots", "boards", "NVIDIA driver", "unknown"),
            (_machine_row(MACHINES[name]) for name in sorted(MACHINES)),
        ),
        "## Sources\n",
        *(_sources(name, BOARDS[name].sources) for name in sorted(BOARDS)),
        *(_sources(name, MACHINES[name].sources) for name in sorted(MACHINES)),
    ]
    return "\n".join(parts)


def _board_row(board: Board) -> tuple[str, ...]:
    main = board.main
    known_subsystem = "subsystem_id" not in board.unknown
    return (
        f"`{board.name}`",
        board.product,
        board.kind,
        f"{main.vendor_id:04x}:{main.device_id:04x}",
        f"{main.subsystem_vendor_id:04x}:{main.subsystem_id:04x}" if known_subsystem else "",
        f"{main.class_code >> 8:04x}",
        f"{main.revision:02x}" if "revision" not in board.unknown else "",
        ", ".join(_bar(bar) for bar in main.bars),
        f"{board.gpu.memory_mib} MiB" if board.gpu and board.gpu.memory_mib else "",
        ", ".join(board.unknown),
    )


def _bar(bar: Bar) -> str:
    kind = "I/O" if bar.is_io else ("64" if bar.is_64bit else "32") + (" pref" if bar.prefetchable else "")
    return f"{bar.index}: {format_size(bar.size_bytes)} ({kind})"


def _gpu_row(board: Board) -> tuple[str, ...]:
    gpu = board.gpu
    if gpu is None:
        return ()
    mig = {True: "yes", False: "no", None: ""}[gpu.mig_capable]
    return (
        f"`{board.name}`",
        gpu.product_name,
        gpu.architecture or "",
        gpu.cuda_compute_capability or gpu.gfx_target or "",
        f"{gpu.bar1_mib} MiB" if gpu.bar1_mib else "",
        mig,
        ", ".join(profile.name for profile in gpu.mig_profiles or ()),
    )


def _machine_row(machine: Machine) -> tuple[str, ...]:
    counts: dict[str, int] = {}
    for _root, device in machine.devices():
        counts[device.board.name] = counts.get(device.board.name, 0) + 1
    return (
        f"`{machine.name}`",
        machine.description,
        str(machine.cpus),
        f"{machine.memory_mb} MiB",
        str(machine.numa_nodes),
        ", ".join(root.name for root in machine.roots),
        ", ".join(f"{count} x `{name}`" for name, count in counts.items()),
        f"{machine.nvidia_driver.version}, CUDA {machine.nvidia_driver.cuda_version}" if machine.nvidia_driver else "",
        "; ".join(machine.unknown),
    )


def _sources(name: str, sources: Mapping[str, str]) -> str:
    by_text: dict[str, list[str]] = {}
    for field, text in sources.items():
        by_text.setdefault(text, []).append(field)
    lines = [f"- {', '.join(sorted(fields))}: {text}" for text, fields in sorted(by_text.items())]
    return "\n".join([f"### `{name}`\n", *lines, ""])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines.extend("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.stdout.write(catalog_page())
