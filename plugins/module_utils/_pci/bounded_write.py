# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""Writes to sysfs that may block for ever, done by a child that can be left behind. Private to the collection."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import Optional

# NVIDIA's driver lets an unbind wait without limit until nobody uses the device (open-gpu-kernel-modules #1119, #1374), in a state that
# no signal ends. So the child has no pipe to us, a session of its own, and nobody waits for it once its time is up.
_WRITE = """
import os, sys
try:
    descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
    os.write(descriptor, sys.argv[2].encode())
except OSError as error:
    os._exit(error.errno or 1)
os._exit(0)
"""
_REAP_S = 0.5


def write_bounded(path: str, text: str, timeout_s: float) -> Optional[str]:
    """Write `text` to an existing file; None when that went well, otherwise why not."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WRITE, path, text],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        code = child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _leave(child)
        return f"writing to {path} did not end within {timeout_s:.1f} s"
    if code == 0:
        return None
    if code < 0:
        return f"writing to {path} was ended by signal {-code}"
    return f"writing to {path} failed: {errno.errorcode.get(code, code)}, {os.strerror(code)}"


def _leave(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    try:
        child.wait(_REAP_S)
    except subprocess.TimeoutExpired:
        # It sleeps in the kernel; it goes when the write does, and init collects it.
        pass
