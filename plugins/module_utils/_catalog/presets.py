# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog and the loader brought together: what modules call; private to the collection."""

from __future__ import annotations

from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.machines import MACHINES
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import Presets, load_machine
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine

PRESETS = Presets(boards=BOARDS, machines=MACHINES)


def load(description: object, base_dir: Optional[str] = None) -> Machine:
    """The machine that a description means: a preset's name, a file's name (from ``base_dir``) or a mapping."""
    return load_machine(description, PRESETS, base_dir)


def board_names() -> list[str]:
    """The names of the boards that ship with the collection."""
    return sorted(BOARDS)


def machine_names() -> list[str]:
    """The names of the machines that ship with the collection."""
    return sorted(MACHINES)
