# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Descriptions that build on others: a JSON merge patch (RFC 7396), so null removes and mappings merge; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import MachineError

# A description is less than ten deep; a YAML anchor that holds itself has no end.
_LIMIT = 32


def merge(base: object, patch: object, depth: int = 0) -> object:
    """``base`` with ``patch`` applied; neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    if depth > _LIMIT:
        raise MachineError("machine description: mappings are nested without end; does a YAML anchor hold itself?")
    result: dict[str, object] = {str(key): value for key, value in base.items()} if isinstance(base, Mapping) else {}
    for key, value in patch.items():
        name = str(key)
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value, depth + 1)
    return result
