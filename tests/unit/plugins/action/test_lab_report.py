# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.action.lab_report import ARGUMENT_SPEC, new_folder, write
from ansible_collections.gpulab.fleet.plugins.modules import lab_report as documented

PASSED = {
    "host": "alpha",
    "device": "0000:41:00.0",
    "test": "vm",
    "name": "pci.bars",
    "status": "passed",
    "reason": "ok",
}
FAILED = {**PASSED, "name": "release", "status": "failed", "reason": "held by python3"}


def run(
    folder: Path, checks: list[dict[str, str]], *arguments: str, **options: object
) -> subprocess.CompletedProcess[str]:
    """The role in a play, from a folder of its own: a relative path of reports counts from there."""
    variables = {"lab_report_checks": checks, **options}
    play = [
        {
            "hosts": "all",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.include_role": {"name": "gpulab.fleet.lab_report"}, "vars": variables}],
        }
    ]
    (folder / "play.yml").write_text(json.dumps(play))
    command = ["ansible-playbook", "-i", "alpha,", *arguments, "play.yml"]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PWD": "/"}, capture_output=True, text=True, timeout=120, check=False
    )


def test_options_are_documented_as_they_are() -> None:
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    shown = {name: {key: option[key] for key in option if key != "description"} for name, option in options.items()}
    assert shown == ARGUMENT_SPEC


def test_report_files_link_and_table(tmp_path: Path) -> None:
    first = run(tmp_path, [PASSED], lab_report_labels={"alpha": {"0000:41:00.0": "H100"}}, lab_report_extra={"run": 7})
    assert first.returncode == 0, first.stdout + first.stderr
    assert "alpha  0000:41:00.0 H100  passed 1" in first.stdout
    assert "changed=0" in first.stdout
    latest = tmp_path / "reports" / "latest"
    report = json.loads((latest / "report.json").read_text())
    assert (report["schema"], report["run"], report["summary"]) == (1, 7, {"passed": 1, "failed": 0, "skipped": 0})
    assert (latest / "report.junit.xml").read_text().startswith("<?xml")
    before = os.readlink(latest)
    second = run(tmp_path, [PASSED, FAILED])
    assert second.returncode == 2
    assert "1 of 2 checks failed" in second.stdout
    assert "FAILED alpha 0000:41:00.0 vm release: held by python3" in second.stdout
    assert os.readlink(latest) != before
    assert json.loads((latest / "report.json").read_text())["summary"]["failed"] == 1
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == sorted(
        [before, os.readlink(latest), "latest"]
    )


@pytest.mark.parametrize(
    ("checks", "arguments", "options", "returncode", "words"),
    [
        ([FAILED], (), {"lab_report_fail": False}, 0, "FAILED alpha"),
        ([FAILED], ("--check",), {"lab_report_fail": False}, 0, "FAILED alpha"),
        ([{**PASSED, "status": "fine"}], (), {}, 2, "status 'fine'"),
        ([], (), {}, 0, "no checks were made"),
    ],
)
def test_other_ends(
    tmp_path: Path,
    checks: list[dict[str, str]],
    arguments: tuple[str, ...],
    options: dict[str, object],
    returncode: int,
    words: str,
) -> None:
    ended = run(tmp_path, checks, *arguments, **options)
    assert ended.returncode == returncode, ended.stdout + ended.stderr
    assert words in ended.stdout + ended.stderr
    assert (tmp_path / "reports").exists() is (not arguments and returncode == 0)


def test_two_reports_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    names = [os.path.basename(new_folder(str(tmp_path), "20260101T000000Z")) for _round in range(3)]
    assert names == ["20260101T000000Z", "20260101T000000Z-2", "20260101T000000Z-3"]


def test_a_link_that_leads_nowhere_is_replaced(tmp_path: Path) -> None:
    from datetime import datetime, timezone

    (tmp_path / "latest").symlink_to("gone")
    folder = write({"checks": [], "schema": 1}, str(tmp_path), datetime(2026, 1, 1, tzinfo=timezone.utc))
    assert (tmp_path / "latest").resolve() == Path(folder).resolve()
