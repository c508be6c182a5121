# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Descriptions that build on others: a JSON merge patch (RFC 7396), so null removes and mappings merge; private to the collection."""

from __future__ import annotations

from collections.abc import Mapping


def merge(base: object, patch: object) -> object:
    """``base`` with ``patch`` applied; neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result: dict[str, object] = {str(key): value for key, value in base.items()} if isinstance(base, Mapping) else {}
    for key, value in patch.items():
        name = str(key)
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result
