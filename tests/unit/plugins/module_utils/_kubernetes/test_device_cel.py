# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CEL over devices, with the expressions that people write for DRA."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.device_cel import (
    CelError,
    compile_selector,
    rewrite,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.quantity import parse_quantity, version_key

GPU = {
    "name": "gpu-0",
    "attributes": {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "architecture": {"string": "Hopper"},
        "driverVersion": {"version": "580.105.8"},
        "minor": {"int": 0},
        "healthy": {"bool": True},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:44"},
        "resource.kubernetes.io/numaNode": {"ints": [0, 1]},
    },
    "capacity": {"memory": {"value": "81559Mi"}},
}
D = "device.attributes['gpu.nvidia.com']"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'", True),
        (f"{D}.productName.lowerAscii().matches('^.*h100.*$')", True),
        (f"{D}.productName.contains('A100')", False),
        (f"{D}.architecture in ['Hopper', 'Blackwell']", True),
        (f"{D}.minor >= 0 && {D}.healthy", True),
        (f"{D}.driverVersion.isGreaterThan(semver('580.20.0'))", True),
        (f"{D}.driverVersion.compareTo(semver('580.105.8')) == 0", True),
        (f"{D}.driverVersion.major() == 580", True),
        (f"{D}.driverVersion == semver('580.105.8')", True),
        (f"{D}.driverVersion == '580.105.8'", False),
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0", True),
        ("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('80Gi'))", False),
        ("device.capacity['gpu.nvidia.com'].memory == quantity('83516416Ki')", True),
        ("device.capacity['gpu.nvidia.com'].memory.add(quantity('1Mi')).isGreaterThan(quantity('81559Mi'))", True),
        ("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:44'", True),
        ("device.attributes['resource.kubernetes.io'].numaNode.includes(1)", True),
        ("device.attributes['resource.kubernetes.io'].numaNode.includes(7)", False),
        ("device.attributes['resource.kubernetes.io'].numaNode.exists(n, n == 1)", True),
        ("'dra.net' in device.attributes && device.attributes['dra.net'].rdma", False),
        ("'gpu.nvidia.com' in device.attributes", True),
        ("has(device.attributes['dra.net'].rdma)", False),
        ("has(device.attributes['gpu.nvidia.com'].type)", True),
        (f"{D}.?nothing.orValue('x') == 'x'", True),
        (f"{D}.?type.orValue('x') == 'gpu'", True),
        ("cel.bind(gpu, device.attributes['gpu.nvidia.com'], gpu.type == 'gpu' && gpu.architecture == 'Hopper')", True),
        ("cel.bind(a, 1, cel.bind(b, 2, a + b == 3))", True),
        ("device.allowMultipleAllocations", False),
        ('device . attributes [ "gpu.nvidia.com" ] . type == "gpu"', True),
        ("\"device.attributes['x']\" != '' // a comment", True),
        (f"{D}.type == 'gpu' || device.attributes['x'].y == 1", True),
    ],
)
def test_expressions(expression, expected):
    assert compile_selector(expression).matches(GPU, "gpu.nvidia.com") is expected


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("device.attributes['x.example.com'].y == 1", "no such key: y"),
        (f"{D}.index == 0", "no such key: index"),
        (f"{D}.type", "evaluates to 'gpu', and not to true or false"),
        (f"{D}.minor + 'x' == ''", "."),
        ("nonsense == 1", "nonsense"),
        (f"{D}.driverVersion.isGreaterThan(quantity('1'))", "a version cannot be compared with a quantity"),
    ],
)
def test_what_fails_for_a_device_says_why(expression, words):
    with pytest.raises(CelError, match=words):
        compile_selector(expression).matches(GPU, "gpu.nvidia.com")


@pytest.mark.parametrize("expression", ["device.driver ==", "", "cel.bind(a, 1)", "'open", "1 +* 2"])
def test_what_is_no_cel_is_refused_at_once(expression):
    with pytest.raises(CelError):
        compile_selector(expression)


def test_one_selector_serves_many_devices():
    selector = compile_selector(f"{D}.minor == 3")
    devices = [{"attributes": {"minor": {"int": number}}} for number in range(8)]
    assert [selector.matches(device, "gpu.nvidia.com") for device in devices].count(True) == 1


def test_strings_are_not_rewritten():
    assert rewrite("'device.attributes[\"x\"]' == r'cel.bind('") == "'device.attributes[\"x\"]' == r'cel.bind('"


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        ("1.2.3", "1.2.10"),
        ("1.0.0-rc.1", "1.0.0"),
        ("1.0.0-rc.2", "1.0.0-rc.10"),
        ("1.0.0-1", "1.0.0-a"),
        ("2.0.0-a", "2.0.0-a.b"),
    ],
)
def test_versions_have_the_order_of_semver(smaller, greater):
    assert version_key(smaller) < version_key(greater)


@pytest.mark.parametrize("text", ["1.2", "01.2.3", "v1.2.3", "1.2.3-", ""])
def test_no_version(text):
    with pytest.raises(ValueError, match="semantic version"):
        version_key(text)


@pytest.mark.parametrize(
    ("text", "number"), [("40Gi", 40 * 2**30), ("1e3", 1000), ("500m", 0.5), ("1.5k", 1500), ("-2", -2)]
)
def test_quantities(text, number):
    assert parse_quantity(text) == number


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "1ee3"])
def test_no_quantity(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)
