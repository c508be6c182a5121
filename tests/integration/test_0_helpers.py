# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The helpers of these tests that read output, on output as Ansible prints it. Starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab import Report, Run, ad_hoc_result, bars_of, recap

RECAP = """
PLAY RECAP *********************************************************************
localhost                  : ok=2    changed=0    unreachable=0    failed=0    skipped=1    rescued=0    ignored=0
\x1b[0;33mvgpu-h100\x1b[0m                  : \x1b[0;32mok=31  \x1b[0m \x1b[0;33mchanged=4   \x1b[0m unreachable=0    failed=0

"""
AD_HOC = """[WARNING]: Host 'vgpu-h100' is using something.
vgpu-h100 | FAILED! => {
    "changed": false,
    "msg": "name is {x}"
}
"""


def test_recap():
    counts = recap("PLAY RECAP ***\nold : ok=1 changed=9\n" + RECAP)
    assert counts["vgpu-h100"] == {"ok": 31, "changed": 4, "unreachable": 0, "failed": 0}
    assert counts["localhost"]["changed"] == 0
    assert "old" not in counts


def test_ad_hoc_result():
    assert ad_hoc_result(AD_HOC, "vgpu-h100") == {"changed": False, "msg": "name is {x}"}
    with pytest.raises(AssertionError, match="no result of vgpu-mixed"):
        ad_hoc_result(AD_HOC, "vgpu-mixed")


def test_says():
    run = Run(1, "[ERROR]: vm_image is {''file'': ''/x''}; virtual host vgpu-\nh100\n  had crashed", 0.0, Path())
    run.says("vm_image is {'file': '/x'}", "virtual host vgpu-h100 had crashed")
    with pytest.raises(AssertionError, match="does not say 'started'"):
        run.says("started")


def test_report():
    passed = {"host": "a", "device": "x", "name": "pci.bars", "status": "passed", "reason": ""}
    report = Report({"checks": [passed, {**passed, "device": "y", "status": "skipped", "reason": "why"}]}, Path())
    assert report.only(device="y")["status"] == "skipped"
    report.assert_passed()
    with pytest.raises(AssertionError, match="2 checks are"):
        report.only(host="a")
    with pytest.raises(AssertionError, match="without a reason"):
        Report({"checks": [{**passed, "status": "failed"}]}, Path()).assert_reasons()


def test_bars_of():
    region = {"index": 2, "size_bytes": 1 << 37, "assigned": True, "io": False}
    unassigned, ports = {**region, "index": 0, "assigned": False}, {**region, "index": 5, "io": True}
    assert bars_of({"evidence": {"bars": [region, unassigned, ports]}}) == {2: 1 << 37}
