# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Descriptions in files: YAML, JSON, one that builds on another, and everything that a file can have wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.load import MachineError, load_machine

YAML = """
name: written
cpus: 2
memory_mb: 4096
boards:
  mine:
    kind: gpu
    product: Product
    vendor_id: "0x10de"
    device_id: "0x2330"
    class_code: "0x030200"
    bars: {0: 16M, 2: 128G}
roots:
  pci0000:40:
    numa_node: 0
    devices:
      gpu0: {address: "0000:41:00.0", board: mine}
"""


def _refused(path: Path) -> str:
    with pytest.raises(MachineError) as caught:
        load_machine(str(path))
    message = caught.value.message
    assert str(path) in message
    return message


def test_yaml(tmp_path: Path) -> None:
    path = tmp_path / "machine.yml"
    path.write_text(YAML)
    ((root, device),) = load_machine(str(path)).devices()
    assert (root.name, device.address, device.board.main.bars[1].size_bytes) == (
        "pci0000:40",
        "0000:41:00.0",
        128 << 30,
    )


def test_json_needs_no_yaml(tmp_path: Path, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(small))
    assert load_machine(str(path)) == load_machine(small)


def test_without_pyyaml_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "machine.yml"
    path.write_text(YAML)
    message = _refused(path)
    assert "python3-yaml" in message and ".json" in message


def test_a_relative_name_starts_at_the_base_directory(tmp_path: Path) -> None:
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "machine.yaml").write_text(YAML)
    assert load_machine("labs/machine.yaml", base_dir=str(tmp_path)).name == "written"


def test_a_file_builds_on_a_file_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "machine.yml").write_text(YAML)
    (tmp_path / "base" / "more.yml").write_text("from: machine.yml\nname: more\n")
    top = {"from": "base/more.yml", "cpus": 8}
    machine = load_machine(top, base_dir=str(tmp_path))
    assert (machine.name, machine.cpus, machine.memory_mb) == ("more", 8, 4096)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("m.yml", YAML.replace("cpus: 2", "cpus: 2\ncpus: 4"), "line 4: the key 'cpus' appears twice"),
        ("m.json", '{"cpus": 1, "cpus": 2}', "the key 'cpus' appears twice"),
        ("m.yml", "a: [", "not YAML"),
        ("m.json", "{", "not JSON"),
        ("m.json", '{"name": "x", "cpus": NaN}', "cpus: nan is out of range"),
        ("m.yml", "- name: x\n", "is not a mapping"),
        ("m.yml", "", "is not a mapping"),
        ("m.yml", "name: !!python/object/apply:os.getcwd []\n", "not YAML"),
        ("m.yml", YAML.replace("cpus: 2", "cpu: 2"), ": cpu: 2 is given"),
        ("m.yml", YAML.replace('"0000:41:00.0"', "0000:41:00.0"), 'write it in quotes: "0000:41:00.0"'),
        ("m.yml", YAML.replace('"0x2330"', "0x2330"), "boards.mine.device_id: 9008 is a number"),
        ("m.yml", YAML.replace("cpus: 2", "from: m.yml"), "builds on itself"),
        ("m.yml", "from: missing.yml\n", "missing.yml: No such file"),
    ],
)
def test_wrong_content(tmp_path: Path, name: str, content: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert text in _refused(path)


def test_an_error_names_the_inner_file(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.yml", tmp_path / "outer.yml"
    inner.write_text(YAML.replace("cpus: 2", "cpu: 2"))
    outer.write_text("from: inner.yml\n")
    with pytest.raises(MachineError) as caught:
        load_machine(str(outer))
    assert caught.value.message.startswith(f"{inner}: cpu: ")
    assert str(outer) not in caught.value.message


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "machine.yml"
    path.write_bytes(b"name: \xff\xfe\n")
    assert "not UTF-8" in _refused(path)


def test_missing_and_unreadable(tmp_path: Path) -> None:
    assert "No such file" in _refused(tmp_path / "none.yml")
    (tmp_path / "folder.yml").mkdir()
    assert "directory" in _refused(tmp_path / "folder.yml")


def test_too_large(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(" " * (4 * 1024 * 1024 + 1))
    assert "larger than 4 MiB" in _refused(path)
