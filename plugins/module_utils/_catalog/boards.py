# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All boards of the catalog by name; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog import amd, display, network, nvidia
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Board

BOARDS: Mapping[str, Board] = {**nvidia.BOARDS, **amd.BOARDS, **network.BOARDS, **display.BOARDS}
