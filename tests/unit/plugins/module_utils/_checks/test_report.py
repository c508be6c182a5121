# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.report import build_report, junit, table
from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Subject, check_dict, summarise
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

ALPHA = Subject("alpha", "vm")
CHECKS = [
    ALPHA.passed("0000:41:00.0", "pci.present", "there", {"guest_address": "0000:06:00.0"}, 1.25).to_dict(),
    ALPHA.failed("0000:41:00.0", "pci.bars", "BAR1 is not assigned", {"log": "<\x1b[0m & \x00>"}).to_dict(),
    ALPHA.skipped("0000:41:00.0", "driver.gpus", "no nvidia-smi").to_dict(),
    Subject("alpha", "container").skipped("0000:41:00.0", "container", "no device node").to_dict(),
    Subject("beta", "vm").passed("0000:81:00.0", "pci.present", "there").to_dict(),
]


def report() -> dict[str, object]:
    return build_report(
        CHECKS,
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:05:00+00:00",
        {"labels": {"alpha": {"0000:41:00.0": "H100"}}, "schema": 99},
    )


def test_the_schema_of_the_report() -> None:
    content = json.loads(json.dumps(report()))
    assert content["schema"] == 1
    assert content["summary"] == {"passed": 2, "failed": 1, "skipped": 2}
    assert set(content["checks"][0]) == {"host", "device", "test", "name", "status", "reason", "evidence", "seconds"}
    assert content["checks"][0]["seconds"] == 1.25
    assert (content["started"], content["finished"]) == ("2026-01-01T00:00:00+00:00", "2026-01-01T00:05:00+00:00")


def test_a_claim_takes_the_place_of_a_device() -> None:
    claim = {
        "host": "node-1",
        "claim": "team-a/train",
        "test": "dra",
        "name": "allocated",
        "status": "passed",
        "reason": "on node-1",
    }
    content = build_report([claim], "", "")
    assert check_dict(claim)["claim"] == "team-a/train"
    assert "team-a/train" in table(content)
    assert 'classname="node-1.team-a/train"' in junit(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "ok"}, r"checks\[1\] has status 'ok'"),
        ({"device": ""}, r"checks\[1\] has device ''"),
        ({"host": None}, r"checks\[1\] has host None"),
    ],
)
def test_a_check_with_a_gap_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(FleetError, match=message):
        build_report([CHECKS[0], {**CHECKS[1], **change}], "", "")


def test_junit_can_be_read_and_counts_right() -> None:
    root = ElementTree.fromstring(junit(report()).encode())
    assert [suite.get("name") for suite in root] == ["alpha", "beta"]
    assert [root.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["5", "1", "0", "2"]
    assert [root[0].get(key) for key in ("tests", "failures", "skipped")] == ["4", "1", "2"]
    failure = root.find("./testsuite/testcase/failure")
    assert failure is not None
    assert failure.get("message") == "BAR1 is not assigned"
    assert len(root.findall("./testsuite/testcase/skipped")) == 2


def test_the_table_shows_host_device_and_test_and_every_reason() -> None:
    lines = table(report()).splitlines()
    assert lines[0].split() == ["HOST", "DEVICE", "VM", "CONTAINER"]
    assert lines[1].split() == ["alpha", "0000:41:00.0", "H100", "FAILED", "1/3", "skipped"]
    assert lines[2].split() == ["beta", "0000:81:00.0", "passed", "1", "-"]
    assert "FAILED alpha 0000:41:00.0 vm pci.bars: BAR1 is not assigned" in lines
    assert "skipped alpha 0000:41:00.0 container container: no device node" in lines
    assert lines[-1] == "2 passed, 1 failed, 2 skipped"


def test_claims_have_a_line_for_each_test_after_the_devices() -> None:
    dra = Subject("lab", "one_pod", kind="claim")
    claims = [dra.passed(f"pod-{number}:gpu", "claim.allocated", "it is").to_dict() for number in range(6)]
    claims.append(dra.failed("pod-0:gpu", "claim.node", "elsewhere").to_dict())
    lines = table(build_report([*CHECKS, *claims], "", "")).splitlines()
    start = lines.index("")
    assert lines[0].split() == ["HOST", "DEVICE", "VM", "CONTAINER"] and "lab" not in "".join(lines[:start])
    assert lines[start + 1].split() == ["HOST", "TEST", "RESULT", "OF"]
    assert lines[start + 2].split(maxsplit=4) == [
        "lab",
        "one_pod",
        "FAILED",
        "1/7",
        "pod-0:gpu, pod-1:gpu, pod-2:gpu, pod-3:gpu and 2 more",
    ]
    assert "FAILED lab pod-0:gpu one_pod claim.node: elsewhere" in lines


def test_equal_reasons_are_told_once_and_long_ones_cut_to_the_width() -> None:
    checks = [ALPHA.failed(device, "pci.bars", "no place\nfor it " + "x" * 200).to_dict() for device in ("a", "b")]
    lines = [line for line in table(build_report(checks, "", ""), width=60).splitlines() if line.startswith("FAILED")]
    assert len(lines) == 1
    assert lines[0].startswith("FAILED alpha a, b vm pci.bars: no place for it")
    assert len(lines[0]) == 60


def test_a_report_without_checks_says_so() -> None:
    assert table(build_report([], "", "")).splitlines() == ["no checks were made", "", "0 passed, 0 failed, 0 skipped"]
    assert summarise([]) == {"passed": 0, "failed": 0, "skipped": 0}
