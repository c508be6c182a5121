# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities and versions as the API server and the driver write them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.values import (
    canonical_quantity,
    is_semantic_version,
    mebibytes,
    parse_quantity,
    semantic_version,
)


# Left: what somebody writes. Right: what kube-apiserver returns for it (k8s.io/apimachinery/pkg/api/resource).
@pytest.mark.parametrize(
    ("written", "returned"),
    [
        ("40960Mi", "40Gi"), ("81559Mi", "81559Mi"), ("15360Mi", "15Gi"), ("1024Ki", "1Mi"), ("1048576Mi", "1Ti"),
        ("0.5Gi", "512Mi"), ("1.5Gi", "1536Mi"), ("0Mi", "0"), ("0", "0"), ("1000", "1k"), ("1024", "1024"),
        ("1000k", "1M"), ("1500m", "1500m"), ("1000m", "1"), ("0.1", "100m"), ("132", "132"), ("1e3", "1e3"), ("1E3", "1e3"),
        ("85520809984", "85520809984"), ("17179873281", "17179873281"), ("1Ki", "1Ki"), ("0.5Ki", "512"), ("-1Gi", "-1Gi"),
        ("+1", "1"), ("1.", "1"), (".5", "500m"), ("1n", "1n"), ("0.1n", "1n"), ("12345678901Ki", "12345678901Ki"),
        ("not one", "not one"),
    ],
)  # fmt: skip
def test_canonical_quantities(written: str, returned: str) -> None:
    assert canonical_quantity(written) == returned
    # Whatever is returned stays as it is, and means the same.
    assert canonical_quantity(returned) == returned
    if parse_quantity(written) is not None and written != "0.1n":
        assert parse_quantity(written) == parse_quantity(returned)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1Ki", 1024), ("1k", 1000), ("1.5", Fraction(3, 2)), (5, 5), (0.5, Fraction(1, 2)), ("5e-1", Fraction(1, 2)), ("1E", 10**18),
        ("", None), ("Mi", None), ("1KB", None), ("1 Gi", None), ("1gi", None), ("1m2", None), (None, None), (True, None), ("1Zi", None),
        ([], None), ("1.2.3", None), ("1\n", 1),
    ],
)  # fmt: skip
def test_what_is_a_quantity(text: object, number: object) -> None:
    assert parse_quantity(text) == number


def test_memory() -> None:
    assert [mebibytes(amount) for amount in (81559, 40960, 15360, 1, 1 << 20)] == [
        "81559Mi",
        "40Gi",
        "15Gi",
        "1Mi",
        "1Ti",
    ]


@pytest.mark.parametrize(
    ("told", "published"),
    [("580.105.08", "580.105.8"), ("580.126.20", "580.126.20"), ("9.0", "9.0.0"), ("13.0", "13.0.0"), ("12", "12.0.0"), ("535.08.00", "535.8.0")],
)  # fmt: skip
def test_versions_of_the_driver(told: str, published: str) -> None:
    assert semantic_version(told) == published
    assert is_semantic_version(published)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("1.2.3", True), ("0.0.0", True), ("1.2.3-rc.1+build.5", True), ("1.2", False), ("580.105.08", False), ("v1.2.3", False),
        ("1.2.3-", False), ("1.2.3-01", False), ("1.2.3\n", False), ("", False), ("1.2.3.4", False), ("١.2.3", False),
    ],
)  # fmt: skip
def test_semantic_versions(text: str, is_one: bool) -> None:
    assert is_semantic_version(text) is is_one
