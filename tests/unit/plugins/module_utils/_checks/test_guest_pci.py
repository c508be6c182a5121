# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_container import check_container
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_pci import (
    ExpectedBar,
    ExpectedGpu,
    check_pci,
    expected_gpu,
    pair,
    size_text,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_probe import (
    GuestBar,
    GuestFacts,
    GuestFunction,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_size import check_size
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

GIB = 2**30
MEM64 = 0x14220C
SUBJECT = Subject("alpha", "vm", "0000:41:00.0")
H100 = ExpectedGpu(
    "0000:41:00.0", "10de:2330", (ExpectedBar(0, 2**24), ExpectedBar(1, 128 * GIB), ExpectedBar(3, 2**25))
)
SECOND = replace(H100, address="0000:81:00.0")


def region(index: int, start: int, size_bytes: int, flags: int = MEM64) -> GuestBar:
    return GuestBar(index, start, start + size_bytes - 1, flags)


def h100(address: str, **changes: object) -> GuestFunction:
    bars = (region(0, 0x81000000, 2**24), region(1, 0x380000000000, 128 * GIB), region(3, 0x382000000000, 2**25))
    return replace(GuestFunction(address, "10de:2330", 0x030200, None, bars), **changes)  # type: ignore[arg-type]


def facts(*functions: GuestFunction, log: tuple[str, ...] = (), **more: object) -> GuestFacts:
    return GuestFacts(functions=functions, log=log, log_lines=500, log_complete=True, **more)  # type: ignore[arg-type]


def by_name(checks: list[Check], device: str = H100.address) -> dict[str, Check]:
    return {check.name: check for check in checks if check.device == device}


def test_a_complete_gpu_passes_and_its_bars_are_the_evidence() -> None:
    checks = by_name(check_pci(SUBJECT, [H100], facts(h100("0000:06:00.0"))))
    assert {check.status for check in checks.values()} == {"passed"}
    assert set(checks) == {"pci.present", "pci.bars", "pci.kernel_log", "pci.driver"}
    evidence = checks["pci.bars"].evidence
    assert isinstance(evidence, dict)
    assert evidence["guest_address"] == "0000:06:00.0"
    assert evidence["bars"][1] == {
        "index": 1,
        "assigned": True,
        "start": "0x380000000000",
        "size_bytes": 128 * GIB,
        "host_size_bytes": 128 * GIB,
        "io": False,
    }
    assert "BAR1 128 GiB" in checks["pci.bars"].reason


@pytest.mark.parametrize(
    ("bars", "message"),
    [
        # all zeros, and zero with the size as its end: both are what kernels show for a BAR without a place
        (
            (region(0, 0x81000000, 2**24), GuestBar(1, 0, 0, 0), region(3, 0x9000000, 2**25)),
            "BAR1 (128 GiB on the host) is not assigned",
        ),
        (
            (region(0, 0x81000000, 2**24), GuestBar(1, 0, 128 * GIB - 1, MEM64), region(3, 0x9000000, 2**25)),
            "BAR1 (128 GiB on the host) is not assigned",
        ),
        (
            (region(0, 0x81000000, 2**24), region(1, 0x380000000000, 64 * GIB), region(3, 0x9000000, 2**25)),
            "BAR1 has 64 GiB, on the host 128 GiB",
        ),
        (
            (region(0, 0x81000000, 2**24), region(1, 0x380000000000, 128 * GIB)),
            "BAR3 (32 MiB on the host) is not assigned",
        ),
    ],
)
def test_presence_is_no_proof(bars: tuple[GuestBar, ...], message: str) -> None:
    checks = by_name(check_pci(SUBJECT, [H100], facts(h100("0000:06:00.0", bars=bars))))
    assert checks["pci.present"].status == "passed"
    assert checks["pci.bars"].status == "failed"
    assert message in checks["pci.bars"].reason


def test_a_port_bar_may_stay_without_a_place() -> None:
    gpu = replace(H100, bars=(*H100.bars, ExpectedBar(5, 128, is_io=True)))
    line = "pci 0000:06:00.0: BAR 5: failed to assign [io  size 0x0080]"
    checks = by_name(check_pci(SUBJECT, [gpu], facts(h100("0000:06:00.0"), log=(line,))))
    assert checks["pci.bars"].status == "passed"
    assert checks["pci.kernel_log"].status == "passed"


def test_the_kernel_log_decides_for_its_device_only() -> None:
    line = "pci 0000:07:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]"
    checks = check_pci(SUBJECT, [H100, SECOND], facts(h100("0000:06:00.0"), h100("0000:07:00.0"), log=(line,)))
    assert by_name(checks)["pci.kernel_log"].status == "passed"
    second = by_name(checks, SECOND.address)["pci.kernel_log"]
    assert (second.status, line in second.reason) == ("failed", True)


def test_a_log_that_cannot_be_read_is_skipped_with_its_reason() -> None:
    check = by_name(check_pci(SUBJECT, [H100], GuestFacts(functions=(h100("0000:06:00.0"),))))["pci.kernel_log"]
    assert (check.status, "dmesg" in check.reason) == ("skipped", True)


@pytest.mark.parametrize(
    ("driver", "expected", "status"),
    [
        (None, None, "passed"),
        ("nvidia", None, "passed"),
        ("nvidia", "nvidia", "passed"),
        ("nouveau", "nvidia", "failed"),
        (None, "nvidia", "failed"),
    ],
)
def test_driver(driver: str | None, expected: str | None, status: str) -> None:
    check = by_name(check_pci(SUBJECT, [H100], facts(h100("0000:06:00.0", driver=driver)), expected))["pci.driver"]
    assert check.status == status
    assert (driver or "no driver") in check.reason


def test_a_missing_gpu_says_how_many_came() -> None:
    checks = check_pci(SUBJECT, [H100, SECOND], facts(h100("0000:06:00.0")))
    assert by_name(checks)["pci.present"].status == "passed"
    missing = by_name(checks, SECOND.address)
    assert set(missing) == {"pci.present"}
    assert missing["pci.present"].reason == "the guest has 1 of the 2 devices 10de:2330 that were passed"


def test_one_device_too_many_is_noticed_but_for_the_vms_own_display() -> None:
    surplus = check_pci(SUBJECT, [H100], facts(h100("0000:06:00.0"), h100("0000:07:00.0")))
    assert by_name(surplus)["pci.present"].status == "failed"
    display = ExpectedGpu("0000:41:00.0", "1af4:1050", (ExpectedBar(1, 4096), ExpectedBar(4, 16384)))
    passed = GuestFunction(
        "0000:06:00.0",
        "1af4:1050",
        0x038000,
        "virtio-pci",
        (region(1, 0x80000000, 4096), region(4, 0x3800000000, 16384)),
    )
    own = GuestFunction(
        "0000:01:00.0",
        "1af4:1050",
        0x030000,
        "virtio-pci",
        (region(0, 0x81000000, 2**23), region(4, 0x3900000000, 16384)),
    )
    checks = by_name(check_pci(SUBJECT, [display], facts(own, passed)))
    assert checks["pci.present"].status == "passed"
    assert checks["pci.bars"].status == "passed"


def test_gpus_are_paired_by_sizes_first_then_by_order() -> None:
    small = ExpectedGpu("0000:41:00.0", "10de:20b0", (ExpectedBar(1, 64 * GIB),))
    large = ExpectedGpu("0000:81:00.0", "10de:20b0", (ExpectedBar(1, 128 * GIB),))
    one = GuestFunction("0000:06:00.0", "10de:20b0", 0x030200, None, (region(1, 0x380000000000, 128 * GIB),))
    two = GuestFunction("0000:07:00.0", "10de:20b0", 0x030200, None, (region(1, 0x384000000000, 64 * GIB),))
    assert {host: guest.address for host, guest in pair([small, large], [one, two]).items()} == {
        small.address: "0000:07:00.0",
        large.address: "0000:06:00.0",
    }
    equal = pair([H100, SECOND], [h100("0000:07:00.0"), h100("0000:06:00.0")])
    assert {host: guest.address for host, guest in equal.items()} == {
        H100.address: "0000:06:00.0",
        SECOND.address: "0000:07:00.0",
    }


@pytest.mark.parametrize(
    ("vendor_id", "device_id"),
    [(0x10DE, 0x2330), ("0x10de", "0x2330"), ("10de", "2330"), ("10DE", "2330"), ("0x10DE", 9008)],
)
def test_ids_as_numbers_and_texts(vendor_id: object, device_id: object) -> None:
    bars = [
        {"index": 1, "size_bytes": 4096},
        {"index": 2, "size_bytes": 0},
        {"index": 6, "size_bytes": 2048},
        {"index": 5, "size_bytes": 128, "is_io": True},
    ]
    gpu = expected_gpu({"address": "0000:41:00.0", "vendor_id": vendor_id, "device_id": device_id, "bars": bars})
    assert gpu == ExpectedGpu("0000:41:00.0", "10de:2330", (ExpectedBar(1, 4096), ExpectedBar(5, 128, True)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": None}, r"gpus\[2\].address is None"),
        ({"vendor_id": "xyz"}, r"gpus\[2\].vendor_id is 'xyz'"),
        ({"device_id": 70000}, r"gpus\[2\].device_id is 70000"),
        ({"bars": [{"index": 0}]}, r"gpus\[2\].bars\[0\]"),
        ({"bars": "many"}, r"gpus\[2\].bars is 'many'"),
    ],
)
def test_a_gpu_that_is_described_wrongly_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        expected_gpu({"address": "0000:41:00.0", "vendor_id": 0x10DE, "device_id": 0x2330, **change}, 2)


@pytest.mark.parametrize(
    ("asked", "ram_mib", "total_mib", "status"),
    [
        (2048, 2040, 1960, "passed"),
        (2048, 2048, 1960, "passed"),
        (2048, 1953, 1870, "failed"),  # 2048 MB, where MiB were asked for
        (2048, 1024, 980, "failed"),
        (2048, 4096, 3900, "failed"),
        (2048, 0, 1900, "passed"),
        (2048, 0, 980, "failed"),
        (512, 0, 440, "passed"),
        (2048, 0, None, "failed"),
    ],
)
def test_memory(asked: int, ram_mib: int, total_mib: int | None, status: str) -> None:
    seen = GuestFacts(system_ram_bytes=ram_mib * 2**20, memory_kib=None if total_mib is None else total_mib * 1024)
    assert by_name(check_size(SUBJECT, seen, asked, None))["guest.memory"].status == status


@pytest.mark.parametrize(("cpus", "status"), [(2, "passed"), (1, "failed"), (None, "failed")])
def test_cpus(cpus: int | None, status: str) -> None:
    assert by_name(check_size(SUBJECT, GuestFacts(cpus=cpus), None, 2))["guest.cpus"].status == status


def test_what_was_not_asked_for_is_evidence_only() -> None:
    checks = by_name(check_size(SUBJECT, GuestFacts(cpus=1, memory_kib=1024, boot_id="b", uptime_s=3.0), None, None))
    assert set(checks) == {"guest.boot"}
    assert checks["guest.boot"].evidence == {
        "boot_id": "b",
        "uptime_s": 3.0,
        "kernel": "",
        "memory_kib": 1024,
        "cpus": 1,
    }


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (128 * GIB, "128 GiB"),
        (2**40, "1 TiB"),
        (2**24, "16 MiB"),
        (4096, "4 KiB"),
        (128, "128 B"),
        (GIB + 2**20, "1025 MiB"),
    ],
)
def test_size_text(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


NVIDIA = ExpectedGpu("0000:41:00.0", "10de:2330")
DISPLAY = ExpectedGpu("0000:05:00.0", "1af4:1050")


@pytest.mark.parametrize(
    ("gpu", "drm", "minors", "nodes", "status", "message"),
    [
        (DISPLAY, {"card0": "0000:05:00.0"}, {}, {"/dev/dri/card0": True}, "passed", "/dev/dri/card0"),
        (
            DISPLAY,
            {"card0": "0000:05:00.0", "renderD128": "0000:05:00.0"},
            {},
            {"/dev/dri/renderD128": True},
            "passed",
            "renderD128",
        ),
        (DISPLAY, {"card0": "0000:05:00.0"}, {}, {}, "failed", "expected /dev/dri/card0"),
        (DISPLAY, {"card0": "0000:05:00.0"}, {}, {"/dev/dri/card0": False}, "failed", "may not open /dev/dri/card0"),
        (DISPLAY, {"card1": "0000:06:00.0"}, {}, {"/dev/dri/card1": True}, "failed", "no device node"),
        (NVIDIA, {}, {"0000:41:00.0": 1}, {"/dev/nvidia1": True, "/dev/nvidiactl": True}, "passed", "/dev/nvidia1"),
        (NVIDIA, {}, {"0000:41:00.0": 1}, {"/dev/nvidia0": True}, "failed", "/dev/nvidia1"),
        (NVIDIA, {}, {}, {"/dev/nvidia0": True, "/dev/nvidiactl": True}, "passed", "/dev/nvidia0"),
        (NVIDIA, {}, {}, {"/dev/nvidiactl": True}, "failed", "no device node"),
    ],
)
def test_container_nodes(
    gpu: ExpectedGpu, drm: dict[str, str], minors: dict[str, int], nodes: dict[str, bool], status: str, message: str
) -> None:
    seen = GuestFacts(drm=drm, nvidia_minors=minors, nodes=nodes)
    check = by_name(check_container(SUBJECT, [gpu], seen), gpu.address)["pci.device_nodes"]
    assert (check.status, message in check.reason) == (status, True)


@pytest.mark.parametrize(
    ("address", "ids", "status"),
    [
        ("0000:05:00.0", "1af4:1050", "passed"),
        ("0000:06:00.0", "1af4:1050", "failed"),
        ("0000:05:00.0", "10de:2330", "failed"),
    ],
)
def test_container_sees_the_gpu_at_the_hosts_address(address: str, ids: str, status: str) -> None:
    seen = GuestFacts(functions=(GuestFunction(address, ids, 0x038000, "virtio-pci"),))
    assert by_name(check_container(SUBJECT, [DISPLAY], seen), DISPLAY.address)["pci.present"].status == status
