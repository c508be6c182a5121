# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG tables: into what a GPU can be divided, as the driver of real boards tells it; private to the collection."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog import sources
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import MigProfile

# Profile id: instances, memory slices of one, and where it can start. Boards with seven compute and eight memory slices share these.
_SHAPES = {
    19: (7, 1, (0, 1, 2, 3, 4, 5, 6)),
    20: (1, 1, (0, 1, 2, 3, 4, 5, 6)),
    15: (4, 2, (0, 2, 4, 6)),
    14: (3, 2, (0, 2, 4)),
    9: (2, 4, (0, 4)),
    5: (1, 4, (0,)),
    0: (1, 8, (0,)),
}

# Name, profile id, memory in MiB, multiprocessors, copy engines, decoders, JPEG engines, OFA engines. None has an encoder.
_Row = tuple[str, int, int, int, int, int, int, int]


def _table(rows: Sequence[_Row]) -> tuple[MigProfile, ...]:
    return tuple(
        MigProfile(
            name=name,
            profile_id=profile_id,
            memory_mib=memory_mib,
            multiprocessors=multiprocessors,
            copy_engines=copies,
            decoders=decoders,
            encoders=0,
            jpeg_engines=jpegs,
            ofa_engines=ofas,
            instances=_SHAPES[profile_id][0],
            memory_slices=_SHAPES[profile_id][1],
            placements=_SHAPES[profile_id][2],
        )
        for name, profile_id, memory_mib, multiprocessors, copies, decoders, jpegs, ofas in rows
    )


A100_40GB = _table([
    ("1g.5gb", 19, 4864, 14, 1, 0, 0, 0),
    ("1g.5gb+me", 20, 4864, 14, 1, 1, 1, 1),
    ("1g.10gb", 15, 9984, 14, 1, 1, 0, 0),
    ("2g.10gb", 14, 9984, 28, 2, 1, 0, 0),
    ("3g.20gb", 9, 20096, 42, 3, 2, 0, 0),
    ("4g.20gb", 5, 20096, 56, 4, 2, 0, 0),
    ("7g.40gb", 0, 40320, 98, 7, 5, 1, 1),
])  # fmt: skip

H100_80GB = _table([
    ("1g.10gb", 19, 9984, 16, 1, 1, 1, 0),
    ("1g.10gb+me", 20, 9984, 16, 1, 1, 1, 1),
    ("1g.20gb", 15, 20096, 26, 1, 1, 1, 0),
    ("2g.20gb", 14, 20096, 32, 2, 2, 2, 0),
    ("3g.40gb", 9, 40448, 60, 3, 3, 3, 0),
    ("4g.40gb", 5, 40448, 64, 4, 4, 4, 0),
    ("7g.80gb", 0, 81152, 132, 8, 7, 7, 1),
])  # fmt: skip

# nvidia-smi prints GiB with two digits, of figures that are whole eighths.
H200_141GB = _table([
    ("1g.18gb", 19, 16384, 16, 1, 1, 1, 0),
    ("1g.18gb+me", 20, 16384, 16, 1, 1, 1, 1),
    ("1g.35gb", 15, 33280, 26, 1, 1, 1, 0),
    ("2g.35gb", 14, 33280, 32, 2, 2, 2, 0),
    ("3g.71gb", 9, 71168, 60, 3, 3, 3, 0),
    ("4g.71gb", 5, 71168, 64, 4, 4, 4, 0),
    ("7g.141gb", 0, 143360, 132, 8, 7, 7, 1),
])  # fmt: skip

B200 = _table([
    ("1g.23gb", 19, 20992, 18, 2, 1, 1, 0),
    ("1g.23gb+me", 20, 20992, 18, 2, 1, 1, 1),
    ("1g.45gb", 15, 45312, 30, 2, 1, 1, 0),
    ("2g.45gb", 14, 45312, 36, 4, 2, 2, 0),
    ("3g.90gb", 9, 91136, 70, 6, 3, 3, 0),
    ("4g.90gb", 5, 91136, 72, 8, 4, 4, 0),
    ("7g.180gb", 0, 182784, 148, 16, 7, 7, 1),
])  # fmt: skip

SOURCES = {
    "nvidia-a100-sxm4-40gb": sources.KARPENTER_DRA,
    "nvidia-h100-sxm5-80gb": sources.KARPENTER_DRA,
    "nvidia-h200-sxm-141gb": f"{sources.LGIP_H200}; {sources.MIG_PLACEMENTS}{sources.KARPENTER_DRA}",
    "nvidia-b200": sources.KARPENTER_DRA,
}
