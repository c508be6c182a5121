# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import excerpt, tail


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"one\n\n  \ntwo\n", ["one", "two"]),
        (b"\x1b[2J\x1b[01;01H\x1b[=3hBooting\r\n\x1b[0;32m  OK  \x1b[0m done\r\n", ["Booting", "  OK   done"]),
        (b"half\xff\x00 line", ["half\ufffd line"]),
        (b"x" * 2000, ["x" * 500]),
    ],
)
def test_tail_is_clean(tmp_path: Path, content: bytes, expected: list[str]):
    path = tmp_path / "log"
    path.write_bytes(content)
    assert tail(str(path)) == expected


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text("".join(f"line {number}\n" for number in range(100000)))
    assert tail(str(path), 2) == ["line 99998", "line 99999"]
    assert excerpt(str(path), 1) == f"Last lines of {path}: line 99999"


def test_a_missing_log_is_no_error(tmp_path: Path):
    assert tail(str(tmp_path / "none")) == []
    assert "is empty" in excerpt(str(tmp_path / "none"))
