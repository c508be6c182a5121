# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""Asks the guard for nested SVM under emulation which arguments the QEMU at hand needs. Private to the collection."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.hypervisor import Hypervisor

GUARD = os.path.join("svmcr8", "svmcr8.sh")
# It compiles 71 lines twice and runs three probes of 0.2 s; a busy machine is allowed much more.
GUARD_TIMEOUT_S = 180.0


class GuardError(FleetError):
    """This QEMU would abort in a nested guest, and the guard cannot prevent it."""


def guard_arguments(sources: str, folder: str, hypervisor: Hypervisor) -> tuple[str, ...]:
    """Nothing for a QEMU without the fault, `-plugin ...` for one that has it; GuardError when neither is proven.

    An emulated QEMU aborts when a nested guest writes CR8 while an interrupt is pending, as every UEFI guest does. The script
    proves by a probe whether this build does, and whether its plugin helps; so it is asked at each start, in an empty folder.
    """
    script = os.path.join(sources, GUARD)
    if not os.path.isfile(script):
        return ()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    try:
        answer = subprocess.run(
            ["bash", script, folder, folder, *hypervisor.command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **hypervisor.environ},
            timeout=GUARD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GuardError(f"the guard for nested virtualisation did not run: {error}", script=script) from error
    if answer.returncode != 0:
        reason = answer.stderr.decode(errors="replace").strip()
        raise GuardError(
            f"QEMU {hypervisor.version} is not fit for nested virtual machines under emulation: {reason[-500:]}. "
            "The guard needs gcc and binutils on this machine; nested_guard: false starts the host without it",
            script=script,
            output=reason,
        )
    return tuple(shlex.split(answer.stdout.decode()))
