# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qcow2 import create_overlay, overlay_header


def test_the_header_names_the_image_and_its_size():
    header = overlay_header("/images/disk.raw", 12 << 30)
    assert len(header) == 4 * 65536
    magic, version, offset, length, bits, size = struct.unpack_from(">4sIQIIQ", header)
    assert (magic, version, bits, size) == (b"QFI\xfb", 3, 16, 12 << 30)
    assert header[offset : offset + length] == b"/images/disk.raw"
    # 512 MiB an entry
    assert struct.unpack_from(">I", header, 36) == (24,)


@pytest.mark.parametrize(("backing", "size_bytes"), [("/" + "x" * 1100, 1 << 30), ("/disk", 0), ("/disk", 1 << 50)])
def test_what_qcow2_cannot_say_is_refused(backing: str, size_bytes: int):
    with pytest.raises(FleetError):
        overlay_header(backing, size_bytes)


def test_an_image_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(FleetError, match=r"nothing\.raw"):
        create_overlay(str(tmp_path / "disk.qcow2"), str(tmp_path / "nothing.raw"))


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
def test_qemu_img_finds_no_fault_in_it(tmp_path: Path):
    raw, overlay = tmp_path / "disk.raw", tmp_path / "disk.qcow2"
    raw.write_bytes(b"\x5a" * 65536)
    with open(raw, "r+b") as stream:
        stream.truncate((1 << 30) + 100)
    create_overlay(str(overlay), str(raw))
    check = subprocess.run(["qemu-img", "check", str(overlay)], capture_output=True, text=True, timeout=60, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
    info = json.loads(subprocess.check_output(["qemu-img", "info", "--output=json", str(overlay)], timeout=60))
    assert info["virtual-size"] == (1 << 30) + 512
    assert (info["backing-filename"], info["backing-filename-format"]) == (str(raw), "raw")
    copy = tmp_path / "copy"
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(overlay), str(copy)], check=True, timeout=60)
    assert copy.read_bytes()[:65537] == b"\x5a" * 65536 + b"\0"
