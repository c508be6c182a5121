# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shutil
import subprocess

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.guest_probe import (
    count_cpus,
    parse_probe,
    probe_argv,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

SAMPLE = """@@ probe 1
@@ other 0000:00:00.0 8086:29c0 060000
@@ function 0000:06:00.0 10de:2330 030200 nvidia
@@ bar 0 0x0000000081000000 0x0000000081ffffff 0x0000000000040200
@@ bar 1 0x0000380000000000 0x0000381fffffffff 0x000000000014220c
@@ bar 2 0x0000000000000000 0x0000000000000000 0x0000000000000000
@@ output lspci 0
| 0000:06:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330]
| \tMemory at 380000000000 (64-bit, prefetchable) [size=128G]
@@ function 0000:07:00.0 10de:2330 030200 -
@@ bar 1 0x0000000000000000 0x0000001fffffffff 0x000000000014220c
@@ drm renderD128 /sys/devices/pci0000:00/0000:00:02.0/0000:05:00.0/virtio3
@@ nvidia 0000:06:00.0 0
@@ node /dev/dri/renderD128 opened
@@ node /dev/nvidia0 refused
@@ cpus 0-1
@@ boot_id 6a00bf0a-54cf-4224-9a0b-6e562c8f33f4
@@ uptime 31.10 12.00
@@ kernel Linux version 6.12.0
@@ memory_kib 2004000
@@ ram 00001000-0009ffff
@@ ram 00100000-7fffffff
@@ tool nvidia-smi /usr/bin/nvidia-smi
@@ output nvidia-smi 0
| GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
| @@ end
@@ log_begins [    0.000000] Linux version 6.12.0
@@ log [    0.5] pci 0000:06:00.0: BAR 1 [mem 0x380000000000-0x381fffffffff 64bit pref]: assigned
@@ log_lines 700
"""


def test_all_sections_are_read() -> None:
    facts = parse_probe(SAMPLE + "@@ end\n")
    first, second = facts.functions
    assert (first.address, first.ids, first.class_code, first.driver) == (
        "0000:06:00.0",
        "10de:2330",
        0x030200,
        "nvidia",
    )
    assert [(region.index, region.assigned, region.size_bytes) for region in first.bars] == [
        (0, True, 2**24),
        (1, True, 2**37),
        (2, False, 0),
    ]
    assert "GH100" in first.lspci and "size=128G" in first.lspci
    assert (second.driver, second.lspci) == (None, "")
    assert [(region.assigned, region.size_bytes) for region in second.bars] == [(False, 2**37)]
    assert facts.others == ("0000:00:00.0 8086:29c0 060000",)
    assert facts.drm == {"renderD128": "0000:05:00.0"}
    assert facts.nvidia_minors == {"0000:06:00.0": 0}
    assert facts.nodes == {"/dev/dri/renderD128": True, "/dev/nvidia0": False}
    assert (facts.cpus, facts.memory_kib, facts.uptime_s) == (2, 2004000, 31.1)
    assert facts.system_ram_bytes == 0x9F000 + 0x7FF00000
    assert facts.tools == {"nvidia-smi": "/usr/bin/nvidia-smi"}
    assert facts.outputs["nvidia-smi"].text.startswith("GPU 0: NVIDIA H100")
    assert (facts.log_lines, facts.log_complete, len(facts.log)) == (700, True, 1)


@pytest.mark.parametrize("text", ["", "sh: syntax error\n", SAMPLE, "@@ end\n"])
def test_a_probe_that_did_not_finish_is_an_error(text: str) -> None:
    with pytest.raises(FleetError, match="did not come to its end"):
        parse_probe(text)


@pytest.mark.parametrize(
    ("ranges", "count"), [("0", 1), ("0-3", 4), ("0-3,8", 5), ("0-1,4-5", 4), ("", None), ("x-3", None), ("1-", 1)]
)
def test_count_cpus(ranges: str, count: int | None) -> None:
    assert count_cpus(ranges) == count


SHELLS = [shell for shell in (["sh"], ["busybox", "sh"], ["bash", "--posix"]) if shutil.which(shell[0])]


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("driver", [False, True])
def test_the_script_runs_to_its_end_in_every_shell_here(shell: list[str], driver: bool) -> None:
    ended = subprocess.run(
        [*shell, *probe_argv(["ffff:ffff"], driver)[1:]], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0
    assert ended.stderr == ""
    facts = parse_probe(ended.stdout)
    assert facts.functions == ()
    assert facts.cpus
    assert facts.boot_id
    assert facts.memory_kib
