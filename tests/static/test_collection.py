# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as users get it: its documentation renders, it builds, installs offline, and its playbooks run from anywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "modules": "module",
    "callback": "callback",
    "lookup": "lookup",
    "filter": "filter",
    "inventory": "inventory",
    "test": "test",
}
NOT_A_PLUGIN = {"__init__"}


def plugins() -> list[tuple[str, str]]:
    """Pairs of kind and name, from the files that are there; a filter or test has a file of its own for its documentation."""
    found = set()
    for folder, kind in KINDS.items():
        for path in (ROOT / "plugins" / folder).glob("*.*"):
            documented_beside = kind in {"filter", "test"} and path.suffix == ".py" and list(path.parent.glob("*.yml"))
            if path.suffix in {".py", ".yml"} and path.stem not in NOT_A_PLUGIN and not documented_beside:
                found.add((kind, path.stem))
    return sorted(found)


def roles() -> list[str]:
    return sorted(path.parent.parent.name for path in (ROOT / "roles").glob("*/tasks/main.yml"))


def playbooks() -> list[str]:
    return sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))


def undocumented(options: dict[str, dict[str, object]], where: str = "") -> list[str]:
    faults = []
    for name, option in options.items():
        if not option.get("description"):
            faults.append(f"{where}{name} has no description")
        if not option.get("type"):
            faults.append(f"{where}{name} has no type")
        faults += undocumented(option.get("suboptions") or option.get("options") or {}, f"{where}{name}.")
    return faults


@pytest.mark.parametrize(("kind", "name"), plugins())
def test_plugin_documentation(kind, name, run_tool):
    text = run_tool("ansible-doc", "-t", kind, f"gpulab.fleet.{name}")
    doc = json.loads(run_tool("ansible-doc", "-j", "-t", kind, f"gpulab.fleet.{name}"))[f"gpulab.fleet.{name}"]
    options = doc["doc"].get("options") or {}
    assert not undocumented(options)
    for option, facts in options.items():
        assert option in text
        assert f"type: {facts['type']}" in text
        if facts.get("default") is not None:
            assert "default: " in text
    assert "added in" in text.lower() or doc["doc"].get("version_added") == "0.1.0"
    if kind == "module":
        for block in ("examples", "return"):
            assert doc[block], f"{name} documents no {block}"
        for attribute in ("check_mode", "diff_mode", "idempotent"):
            assert attribute in doc["doc"]["attributes"], f"{name} does not say whether it supports {attribute}"


@pytest.mark.parametrize("name", roles())
def test_role_documentation(name, run_tool):
    text = run_tool("ansible-doc", "-t", "role", f"gpulab.fleet.{name}")
    spec = yaml.safe_load((ROOT / "roles" / name / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    for entry in spec["argument_specs"].values():
        options = entry.get("options") or {}
        assert not undocumented(options)
        assert all(option in text for option in options)
    defaults = yaml.safe_load((ROOT / "roles" / name / "defaults" / "main.yml").read_text(encoding="utf-8")) or {}
    documented = {option for entry in spec["argument_specs"].values() for option in entry.get("options") or {}}
    public = {variable for variable in defaults if not variable.startswith("_")}
    assert public <= documented, f"defaults without documentation: {sorted(public - documented)}"
    assert all(variable.startswith((f"{name}_", "_")) for variable in [*defaults, *documented])


def test_action_groups_name_every_module():
    groups = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))["action_groups"]
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    assert set(groups["gpulab"]) == modules
    assert set(groups["lxd"]) < modules


@pytest.fixture(scope="module")
def installed(run_tool, tmp_path_factory) -> Path:
    """A folder with nothing but the collection, installed from its own tarball without any network."""
    folder = tmp_path_factory.mktemp("installed")
    run_tool("ansible-galaxy", "collection", "build", "--output-path", folder / "built")
    (tarball,) = (folder / "built").glob("gpulab-fleet-*.tar.gz")
    # Without the path of the tests, or the checkout counts as the installed collection.
    install = ("ansible-galaxy", "collection", "install", "--offline", "-p", folder / "collections", tarball)
    run_tool(*install, cwd=folder, ANSIBLE_COLLECTIONS_PATH=str(folder / "collections"), PYTHONPATH="")
    return folder


def test_the_tarball_holds_what_users_need_and_nothing_else(installed):
    collection = installed / "collections" / "ansible_collections" / "gpulab" / "fleet"
    for folder in ("meta", "plugins", "LICENSES", "roles", "playbooks"):
        assert (collection / folder).is_dir()
    for name in ("README.md", "MANIFEST.json", "CHANGELOG.rst"):
        assert (collection / name).is_file()
    for left_out in ("tests", "scripts", ".git", ".ci", "Makefile", "playbooks/collections", "reports", "molecule"):
        assert not (collection / left_out).exists(), f"{left_out} is in the tarball"
    links = [path for path in collection.rglob("*") if path.is_symlink()]
    assert not links


@pytest.mark.parametrize("name", playbooks())
@pytest.mark.parametrize("where", ["root", "playbooks", "anywhere"])
def test_playbook_is_found(name, where, installed, run_tool):
    """From the root, literally from playbooks/, and by its full name from anywhere once the tarball is installed."""
    if where == "anywhere":
        hosts = installed / "hosts.yml"
        hosts.write_text(
            "virtual_gpu_hosts: {hosts: {one: {ansible_connection: local, virtual_gpu_host_machine: small}}}\n"
        )
        output = run_tool(
            *("ansible-playbook", "-i", hosts, f"gpulab.fleet.{name}", "--list-tasks"),
            cwd=installed,
            ANSIBLE_COLLECTIONS_PATH=str(installed / "collections"),
            PYTHONPATH="",
        )
        assert f"{installed}/collections/ansible_collections/gpulab/fleet/playbooks/{name}.yml" in output
        return
    # Only what the checkout itself says: no path from the environment of the tests.
    path = f"playbooks/{name}.yml" if where == "root" else f"{name}.yml"
    environment = {
        key: value for key, value in os.environ.items() if key not in {"ANSIBLE_COLLECTIONS_PATH", "PYTHONPATH"}
    }
    output = run_tool(
        "env",
        "-i",
        *(f"{key}={value}" for key, value in environment.items()),
        "ansible-playbook",
        path,
        "--list-tasks",
        cwd=ROOT if where == "root" else ROOT / "playbooks",
    )
    assert f"playbook: {path}" in output
    assert "WARNING" not in output, output
