# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as the API server and NVIDIA's driver write them: quantities and semantic versions; private to the collection."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Optional

_QUANTITY = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
# The smallest difference that a quantity can hold.
_NANO = Fraction(1, 10**9)

# The grammar of https://semver.org, which the API server checks: three numbers without leading zeros, then -a.b and +c.d.
_NUMBER = r"(?:0|[1-9]\d*)"
_PRERELEASE = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRERELEASE}(?:\.{_PRERELEASE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?", re.ASCII
)


def mebibytes(amount_mib: int) -> str:
    """An amount of memory as the API server writes it."""
    return canonical_quantity(f"{amount_mib}Mi")


def parse_quantity(text: object) -> Optional[Fraction]:
    """The number that a quantity means; None when it is none. JSON and YAML may also have a plain number there."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        return None
    match = _QUANTITY.fullmatch(str(text).strip() if isinstance(text, str) else repr(text))
    if match is None:
        return None
    sign, digits, suffix = match.groups()
    value = Fraction(digits) * _factor(suffix)
    return -value if sign == "-" else value


@lru_cache(maxsize=4096)
def canonical_quantity(text: str) -> str:
    """A quantity as the API server returns it: the largest suffix of its kind that needs no fraction. Others stay as they are."""
    number = parse_quantity(text)
    if number is None:
        return text
    # What is finer than a billionth is rounded away from zero.
    scaled = number / _NANO
    if scaled.denominator != 1:
        number = (
            Fraction(
                -(-scaled.numerator // scaled.denominator) if scaled > 0 else scaled.numerator // scaled.denominator
            )
            * _NANO
        )
    suffix = re.sub(r"[-+0-9.]*", "", text.strip(), count=1)
    if suffix.endswith("i"):
        # Binary suffixes are for whole numbers of at least 1024.
        if number.denominator == 1 and abs(number) >= 1024:
            return _with_suffix(number, _BINARY, 1024, 0)
        return _with_suffix(number, _DECIMAL, 1000, 3)
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return _with_exponent(number)
    return _with_suffix(number, _DECIMAL, 1000, 3)


def semantic_version(text: str) -> str:
    """A version as NVIDIA's driver publishes it: three numbers without leading zeros. 580.105.08 is 580.105.8, 9.0 is 9.0.0."""
    parts = [str(int(part)) for part in text.split(".")]
    return ".".join([*parts, "0", "0"][:3])


def is_semantic_version(text: str) -> bool:
    """Whether the API server takes this for the value of a version attribute."""
    return _SEMVER.fullmatch(text) is not None


def _factor(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(1024 ** _BINARY.index(suffix))
    if suffix in _DECIMAL:
        return Fraction(1000) ** (_DECIMAL.index(suffix) - 3)
    return Fraction(10) ** int(suffix[1:])


def _with_suffix(number: Fraction, suffixes: tuple[str, ...], base: int, unit: int) -> str:
    if number == 0:
        return "0"
    place = len(suffixes) - 1
    while place > 0 and (number / Fraction(base) ** (place - unit)).denominator != 1:
        place -= 1
    return f"{int(number / Fraction(base) ** (place - unit))}{suffixes[place]}"


def _with_exponent(number: Fraction) -> str:
    if number == 0:
        return "0"
    for exponent in range(18, -10, -3):
        mantissa = number / Fraction(10) ** exponent
        if mantissa.denominator == 1:
            return f"{int(mantissa)}e{exponent}" if exponent else str(int(mantissa))
    return str(number)
