# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.images import KINDS, recipe
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.parts import (
    GUEST_FILES,
    PartsRequest,
    gather,
    missing,
)
from ansible_collections.gpulab.fleet.tests.unit.plugins.module_utils._virtual.host_support import fake_qemu

# Makes what build-qemu.sh makes, with a loader that answers for QEMU.
QEMU_SCRIPT = """
mkdir -p "$1/tree/lib64"
printf '#!/bin/sh\\necho QEMU emulator version 11.1.3\\n' > "$1/tree/lib64/ld-linux-x86-64.so.2"
chmod +x "$1/tree/lib64/ld-linux-x86-64.so.2"
echo 11.1.3 > "$1/version"
"""


@pytest.fixture
def request_(tmp_path: Path) -> PartsRequest:
    """Scripts that make small files with the names that the real ones make."""
    sources = tmp_path / "sources"
    sources.mkdir()
    for kind, described in KINDS.items():
        lines = [f'mkdir -p "$(dirname "$1/{name}")"; echo {kind} > "$1/{name}"' for name in described.outputs]
        (sources / described.script).write_text(QEMU_SCRIPT if kind == "qemu" else "\n".join(lines) + "\n")
    return PartsRequest(str(tmp_path / "cache"), str(sources), guest_images=True, timeout_s=60)


def test_everything_is_built_once(request_: PartsRequest, progress, monkeypatch: pytest.MonkeyPatch):
    # No QEMU of the machine's own.
    tools = Path(request_.cache_root).parent / "bin"
    tools.mkdir()
    for tool in ("bash", "mkdir", "dirname", "chmod", "sh"):
        (tools / tool).symlink_to(f"/bin/{tool}" if os.path.exists(f"/bin/{tool}") else f"/usr/bin/{tool}")
    monkeypatch.setenv("PATH", str(tools))
    assert missing(request_) == ["qemu", "host-image", "guest-images"]
    parts = gather(request_, progress)
    assert parts.built == ("qemu", "host-image", "guest-images")
    assert parts.hypervisor.version == "11.1.3" and parts.hypervisor.command[0].endswith(
        "/tree/lib64/ld-linux-x86-64.so.2"
    )
    assert Path(parts.image.disk).read_text() == "host-image\n"
    assert {Path(path).read_text() for path in parts.guest_images.values()} == {"guest-images\n"}
    assert set(parts.guest_images) == set(GUEST_FILES)
    assert missing(request_) == []
    assert gather(request_, progress).built == ()


def test_what_the_user_brings_is_not_built(request_: PartsRequest, progress, host_files: dict[str, str]):
    own = replace(request_, qemu_command=tuple(fake_qemu()), image=host_files, guest_images=False, sources="")
    parts = gather(own, progress)
    assert (parts.built, parts.guest_images, parts.image.disk) == ((), {}, host_files["disk"])


def test_parameters_make_another_build(request_: PartsRequest, progress):
    own = replace(request_, qemu_command=tuple(fake_qemu()), guest_images=False)
    first = gather(own, progress)
    second = gather(replace(own, parameters={"GPULAB_SUITE": "forky"}), progress)
    assert second.built == ("host-image",) and second.image.key != first.image.key


def test_scripts_that_are_not_there_are_named(request_: PartsRequest, tmp_path: Path, progress):
    with pytest.raises(FleetError, match="sources is not set, but host-image has to be built"):
        gather(replace(request_, sources="", qemu_command=tuple(fake_qemu())), progress)
    with pytest.raises(FleetError, match=r"which has no build-host-image\.sh; the role virtual_gpu_host brings"):
        recipe("host-image", str(tmp_path), {})


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_role_brings_each_script_and_it_makes_what_is_expected(checkout: Path, kind: str):
    files = checkout / "roles" / "virtual_gpu_host" / "files"
    described = KINDS[kind]
    text = (files / described.script).read_text(encoding="utf-8") + (files / "common.sh").read_text(encoding="utf-8")
    assert recipe(kind, str(files), {}).script == str(files / described.script)
    for output in described.outputs:
        assert re.search(r"\$\{?out\}?/" + re.escape(output), text) or f'"$out/{output.rpartition("/")[0]}"' in text, (
            output
        )
