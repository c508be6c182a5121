# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes of BARs as people write them (128G, 16M, 256K) and back; private to the collection."""

from __future__ import annotations

import re

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import refuse

_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"([0-9]+)\s*([KMGT]?)(?:iB|B)?", re.IGNORECASE)
_REMEDY = 'write bytes as a number, or a whole number with K, M, G or T (powers of 1024), such as "128G"'


def parse_size(value: object, path: str) -> int:
    """The bytes that ``value`` means; a plain number is bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            raise refuse(path, value, "is not a size", _REMEDY)
        size = int(match.group(1)) * _FACTORS[match.group(2).upper()]
    else:
        raise refuse(path, value, "is not a size", _REMEDY)
    if size <= 0:
        raise refuse(path, value, "is not a size greater than zero", _REMEDY)
    return size


def format_size(size_bytes: int) -> str:
    """The shortest text that ``parse_size`` reads as ``size_bytes``."""
    for unit in ("T", "G", "M", "K"):
        if size_bytes and size_bytes % _FACTORS[unit] == 0:
            return f"{size_bytes // _FACTORS[unit]}{unit}"
    return str(size_bytes)
