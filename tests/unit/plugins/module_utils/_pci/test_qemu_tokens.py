# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What QEMU options of the user's own say of the guest's processor."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._pci.qemu_tokens import guest_cpu


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ((), (None, None)),
        (("-global", "vfio-pci.x-no-mmap=on"), (None, None)),
        (("-cpu", "host,vendor=GenuineIntel,host-phys-bits=off,phys-bits=40"), (40, "GenuineIntel")),
        (("-cpu", "max,phys-bits=46"), (46, None)),
        # the host's own bits are asked for: phys-bits is not looked at
        (("-cpu", "host,host-phys-bits=on,phys-bits=40"), (None, None)),
        # the last one wins, as in QEMU
        (("-cpu", "max,phys-bits=46", "-cpu", "host"), (None, None)),
        (("-cpu", "max,phys-bits=0"), (None, None)),
        (("-cpu",), (None, None)),
    ],
)
def test_guest_cpu(tokens, expected):
    assert guest_cpu(tokens) == expected
