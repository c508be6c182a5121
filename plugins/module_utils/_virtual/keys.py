# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""The one ssh key of a cache, with which virtual hosts let their maker in. Private to the collection."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import FileLock

KEYGEN_TIMEOUT_S = 30.0
LOCK_TIMEOUT_S = 60.0


class SshKeyError(FleetError):
    """No key could be made or read."""


@dataclass(frozen=True)
class SshKey:
    private: str
    public: str


def key_path(cache_root: str) -> str:
    return os.path.join(cache_root, "ssh", "id_ed25519")


def key_exists(cache_root: str) -> bool:
    path = key_path(cache_root)
    return os.path.exists(path) and os.path.exists(path + ".pub")


def ensure_key(cache_root: str) -> SshKey:
    """The cache's key, made at the first call."""
    path = key_path(cache_root)
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with FileLock(os.path.join(folder, ".lock"), LOCK_TIMEOUT_S):
        if not key_exists(cache_root):
            _generate(path)
        # ssh refuses a key that others can read.
        os.chmod(path, 0o600)
    return SshKey(path, read_public(path))


def read_public(private: str) -> str:
    """The text of the public key beside a private one."""
    try:
        with open(private + ".pub", encoding="utf-8") as stream:
            return stream.read().strip()
    except OSError as error:
        raise SshKeyError(
            f"the public key of {private} cannot be read: {error}; it belongs beside the private one", path=private
        ) from error


def _generate(path: str) -> None:
    for leftover in (path, path + ".pub"):
        if os.path.exists(leftover):
            os.unlink(leftover)
    try:
        answer = subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpulab-fleet", "-f", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=KEYGEN_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SshKeyError(f"ssh-keygen does not run: {error}; install openssh-client") from error
    if answer.returncode != 0:
        raise SshKeyError(f"ssh-keygen made no key: {answer.stdout.decode(errors='replace').strip()}")
