# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/machine-description.md: its examples load, and its tables name the keys that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._machine import boards, facts
from ansible_collections.gpulab.fleet.plugins.module_utils._machine import load as loading
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.check import require_machine_bars
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.identity import IDENTITY_KEYS
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import KINDS

PAGE = (Path(__file__).resolve().parents[5] / "docs" / "machine-description.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize(
    "text", EXAMPLES, ids=[re.findall(r"^name: (.*)$", text, re.MULTILINE)[0] for text in EXAMPLES]
)
def test_an_example_loads(tmp_path: Path, text: str) -> None:
    path = tmp_path / "example.yml"
    path.write_text(text, encoding="utf-8")
    require_machine_bars(load(str(path)))


def test_the_patch_of_the_example_does_what_the_page_says(tmp_path: Path) -> None:
    path = tmp_path / "example.yml"
    path.write_text(next(text for text in EXAMPLES if "name: one-a100" in text), encoding="utf-8")
    devices = {device.name: (root.name, device.address) for root, device in load(str(path)).devices()}
    assert devices == {"gpu0": ("pci0000:40", "0000:47:00.0")}


def _named(heading: str) -> set[str]:
    """The keys in the first columns of the tables below a heading."""
    section = re.split(r"\n#{2,3} ", PAGE.split(f"# {heading}\n")[1])[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`([a-z_0-9]+)`", cell)}


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("The machine", loading.MACHINE_KEYS),
        ("Roots", loading.ROOT_KEYS),
        ("Devices", loading.DEVICE_KEYS),
        ("Boards", boards.BOARD_KEYS),
        ("BARs", boards.BAR_KEYS),
        ("The NVIDIA driver", facts.NVIDIA_DRIVER_KEYS),
        ("Network adapters", (*facts.NIC_KEYS, *facts.NETWORK_KEYS)),
        ("MIG profiles", facts.MIG_PROFILE_KEYS),
        ("MIG instances", facts.MIG_INSTANCE_KEYS),
    ],
)
def test_the_tables_have_the_keys(heading: str, keys: tuple[str, ...]) -> None:
    assert _named(heading) == set(keys)


def test_the_words_of_choices_are_named() -> None:
    for word in (*KINDS, *boards.GPU_KEYS, *boards.SERVER_KEYS, *IDENTITY_KEYS):
        assert f"`{word}`" in PAGE or f"{{{word}: " in PAGE, word
