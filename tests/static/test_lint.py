# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Linters and type checks over the whole tree; each finding fails with the tool's own words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

# In two halves, or the licence checker takes the rest of a line of this file for a licence.
HEADER = "SPDX-License-" + "Identifier:"


def test_ruff_check(run_tool):
    run_tool("ruff", "check", "--no-fix", "--output-format", "concise", ".")


def test_ruff_format(run_tool):
    run_tool("ruff", "format", "--check", "--output-format", "concise", ".")


def test_mypy_strict(run_tool, checkout):
    rooms = [room for room in ("module_utils", "modules") if list((checkout / "plugins" / room).rglob("*.py"))]
    packages = [word for room in rooms for word in ("-p", f"ansible_collections.gpulab.fleet.plugins.{room}")]
    run_tool("mypy", *packages, MYPYPATH=str(checkout / "playbooks" / "collections"))


def test_code_for_targets_is_python_3_9(checkout):
    """Modules and their utils run on whatever Python a host has, from 3.9 on: the grammar is checked here, types by mypy."""
    for room in ("modules", "module_utils"):
        for path in sorted((checkout / "plugins" / room).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source, filename=str(path), feature_version=(3, 9))
            if tree.body:
                assert "from __future__ import annotations" in source, f"{path}: 3.9 evaluates annotations without it"


def test_yamllint(run_tool):
    run_tool("yamllint", "--strict", ".")


def test_ansible_lint(run_tool, checkout):
    run_tool("ansible-lint", "--offline", "--profile", "production", "--strict", "--nocolor", cwd=checkout)


def test_changelog_fragments(run_tool):
    run_tool("antsibull-changelog", "lint")


def test_licences(run_tool):
    """Every file says under which licence it is, and each licence is here in full."""
    run_tool("reuse", "lint", "--lines")


def test_python_and_yaml_carry_the_header(our_files, checkout):
    without = []
    for name in our_files:
        if name.suffix in {".py", ".yml", ".yaml", ".sh", ".c", ".j2", ".cfg", ".toml"}:
            text = (checkout / name).read_text(encoding="utf-8")
            head = "\n".join(text.splitlines()[:12])
            if head.strip() and HEADER not in head and name.parts[:2] != ("tests", "data"):
                without.append(str(name))
    assert not without, f"without an SPDX header: {without}"


# Written in two halves, so that this file does not find itself.
PRIVATE = ["/wo" + "rk/", "shared/" + "reference", "shared/" + "design", "/var/tmp/" + "lab", "/tmp/" + "contract"]


@pytest.mark.parametrize("word", PRIVATE)
def test_no_path_of_somebody_s_machine(word, our_files, checkout):
    found = [str(name) for name in our_files if word.encode() in (checkout / name).read_bytes()]
    assert not found, f"{word} is in {found}"


def test_shell_scripts_parse_and_stop_at_errors(our_files, checkout, run_tool):
    for name in our_files:
        path = checkout / name
        first = path.open("rb").readline()
        if re.match(rb"#!.*\bbash\b", first):
            run_tool("bash", "-n", path)
            text = path.read_text(encoding="utf-8")
            for sourced in re.findall(r"^\. .*/([a-z-]+\.sh)\b", text, re.M):
                text += (path.parent / sourced).read_text(encoding="utf-8")
            assert re.search(r"^set -[a-z]*e", text, re.M), f"{name} goes on after an error: set -euo pipefail"


def test_links_stay_inside_and_lead_somewhere(checkout):
    link = checkout / "playbooks" / "collections" / "ansible_collections" / "gpulab" / "fleet"
    assert link.is_symlink()
    assert link.readlink() == Path("../../../..")
    assert link.resolve() == checkout
