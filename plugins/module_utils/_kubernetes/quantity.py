# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities and semantic versions as numbers that compare as Kubernetes compares them. Private to the collection."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Union

_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)?)")
_SCALE = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)

# Numeric parts come before words, and a release after all its pre-releases.
_Part = tuple[int, int, str]
VersionKey = tuple[int, int, int, int, tuple[_Part, ...]]


def parse_quantity(text: Union[str, int]) -> Fraction:
    """The number that a quantity such as `40Gi`, `500m` or `1e3` means; ValueError when it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, exponent, suffix = match.groups()
    return Fraction(number + (exponent or "")) * _SCALE[suffix or ""]


def version_key(text: str) -> VersionKey:
    """What a semantic version is ordered by; ValueError when it is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a semantic version")
    major, minor, patch, before = match.groups()
    parts: list[_Part] = [
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in (before.split(".") if before else ())
    ]
    return int(major), int(minor), int(patch), 0 if before else 1, tuple(parts)
