# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of slices as the API server would have made them, but the same for the same input; private to the collection."""

from __future__ import annotations

import hashlib

# apiserver/pkg/storage/names: a generated name is cut here, and five characters of this alphabet follow.
_KEPT = 58
_SUFFIX = 5
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# Where the cut has taken away what tells nodes apart, five characters are too few for thousands of them.
_LONG_SUFFIX = 10


def generate_name(driver: str, node: str, index: int, indexed: bool) -> str:
    """What the driver's helper asks the API server to generate a name from."""
    return f"{index:05x}-{driver}-{node}-" if indexed else f"{node}-{driver}-"


def slice_name(prefix: str, place: str) -> str:
    """The name that is made of a prefix: ``place`` tells slices apart whose prefixes are the same."""
    length = _SUFFIX if len(prefix) <= _KEPT else _LONG_SUFFIX
    kept = prefix[: _KEPT + _SUFFIX - length]
    return kept + _suffix(f"gpulab.fleet/slice/{prefix}/{place}", length)


def _suffix(text: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
    characters = []
    for _place in range(length):
        number, place = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[place])
    return "".join(characters)
