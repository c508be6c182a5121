# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hypervisor import Hypervisor
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.nested import GuardError, guard_arguments

QEMU = Hypervisor(("/opt/ld", "/opt/qemu"), "11.1.3", {"QEMU_MODULE_DIR": "/opt/modules"})


def sources(tmp_path: Path, text: str) -> str:
    folder = tmp_path / "sources" / "svmcr8"
    folder.mkdir(parents=True)
    (folder / "svmcr8.sh").write_text(text)
    return str(tmp_path / "sources")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exit 0\n", ()),
        ('[ -z "$(ls "$1")" ] && touch "$1/x" && echo "-plugin file=$2/svmcr8.so"\n', ("-plugin", "file={}/svmcr8.so")),
        ('shift 2; echo "$* $QEMU_MODULE_DIR"\n', ("/opt/ld", "/opt/qemu", "/opt/modules")),
    ],
)
def test_what_the_script_prints_are_the_arguments(tmp_path: Path, text: str, expected: tuple[str, ...]):
    folder = str(tmp_path / "nested")
    script = sources(tmp_path, text)
    for _start in range(2):  # the folder is emptied each time
        assert guard_arguments(script, folder, QEMU) == tuple(word.format(folder) for word in expected)


def test_a_refusal_comes_with_its_reason(tmp_path: Path):
    script = sources(tmp_path, 'echo "gcc: not found" >&2; exit 1\n')
    with pytest.raises(GuardError, match=r"QEMU 11\.1\.3 is not fit .* gcc: not found.* nested_guard: false"):
        guard_arguments(script, str(tmp_path / "nested"), QEMU)


def test_sources_without_a_guard_need_none(tmp_path: Path):
    assert guard_arguments(str(tmp_path), str(tmp_path / "nested"), QEMU) == ()
