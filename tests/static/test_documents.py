# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The written documents keep up with the tree: links lead somewhere, commands and variables exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("roles/*/README.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    missing = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert not missing


def test_readme_opens_with_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```console\n(.*?)```", text, re.S)
    assert [line.split("#")[0].strip() for line in block[1].splitlines()] == ["make passthrough", "make test"]
    assert "##" not in text[: block.start()]


def test_make_targets_and_variables_of_the_readme_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    mentioned = set(re.findall(r"(?:^|`|=\S+ )make ([a-z-]+)", text, re.M))
    assert mentioned
    assert mentioned <= targets

    known = set(yaml.safe_load((ROOT / "playbooks" / "vars" / "passthrough.yml").read_text())["_passthrough_names"])
    known |= {"lab_report_dir", "passthrough_hosts", "passthrough_serial"}
    table = re.search(r"\| variable \| default.*?\n\n", text, re.S)[0]
    variables = {name for row in table.strip().splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert {"vm_ram_mb", "qemu_opts"} <= variables
    assert variables <= known


def test_inventory_hosts_of_the_readme_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    inventory = (ROOT / "inventories" / "virtual" / "hosts.yml").read_text(encoding="utf-8")
    for host in re.findall(r"--limit ([\w-]+)", text):
        assert f" {host}:" in inventory
