# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The molecule scenarios, as users run them, with their output shown as it comes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def cannot_run() -> str:
    if os.geteuid() != 0:
        return "building virtual GPU hosts with debootstrap needs root"
    for program in ("molecule", "debootstrap", "ssh"):
        if shutil.which(program) is None:
            return f"{program} is not installed; `make test` brings it"
    return ""


def test_every_scenario_has_its_playbooks():
    """Molecule only warns when a step of the sequence has no playbook."""
    playbooks = {"create", "prepare", "converge", "verify", "side_effect", "cleanup", "destroy"}
    base = yaml.safe_load((ROOT / "molecule" / "config.yml").read_text(encoding="utf-8"))["scenario"]["test_sequence"]
    scenarios = list((ROOT / "molecule").glob("*/molecule.yml"))
    assert {path.parent.name for path in scenarios} >= {"default", "passthrough", "fake_fleet"}
    for path in scenarios:
        own = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        for step in own.get("scenario", {}).get("test_sequence", base):
            assert step not in playbooks or (path.parent / f"{step}.yml").is_file(), (
                f"{path.parent.name} has no {step}.yml"
            )


@pytest.mark.timeout(3600)
def test_scenarios(stream, tmp_path):
    reason = cannot_run()
    if reason:
        pytest.skip(reason)
    done = stream(
        [sys.executable, "-m", "molecule", "-c", "molecule/config.yml", "test", "--all"],
        timeout_s=3500,
        PYTHONUNBUFFERED="1",
        ANSIBLE_FORCE_COLOR="0",
        NO_COLOR="1",
        # What an earlier run that was killed thought it had made must not count.
        MOLECULE_EPHEMERAL_DIRECTORY=str(tmp_path),
    )
    assert done.returncode == 0
    recap = done.output.split("SCENARIO RECAP")[-1]
    for name in ("default", "virtual_hosts", "passthrough", "fake_fleet"):
        assert re.search(rf"^\s*{name}\b.*\bmissing=0 +failed=0", recap, re.MULTILINE), f"{name} in {recap}"
