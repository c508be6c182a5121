# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specifications that the LXD modules share. Private to the collection."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable

from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import progress_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress


def lxd_arguments() -> dict[str, Any]:
    """How LXD is reached (fragment gpulab.fleet.lxd)."""
    return {"lxd_socket": {"type": "path"}, "project": {"type": "str"}}


def instance_arguments() -> dict[str, Any]:
    """What VMs and containers have in common."""
    return {
        "name": {"type": "str", "required": True},
        "state": {
            "type": "str",
            "default": "started",
            "choices": ["present", "started", "stopped", "restarted", "absent"],
        },
        "image": {"type": "raw"},
        "gpus": {"type": "list", "elements": "raw"},
        "ram_mb": {"type": "int"},
        "cpus": {"type": "str"},
        "profiles": {"type": "list", "elements": "str"},
        "config": {"type": "dict"},
        "devices": {"type": "dict"},
        "cloud_init": {
            "type": "dict",
            "no_log": True,
            "options": {
                "user_data": {"type": "str"},
                "vendor_data": {"type": "str"},
                "network_config": {"type": "str"},
            },
        },
        "wait": {"type": "bool", "default": True},
        "wait_for": {"type": "str", "default": "command", "choices": ["command", "system"]},
        "allow_degraded": {"type": "bool", "default": True},
        "timeout_s": {"type": "int", "default": 600},
        "stop_timeout_s": {"type": "int", "default": 60},
        "release_timeout_s": {"type": "int", "default": 60},
        "allow_restart": {"type": "bool", "default": False},
        "force": {"type": "bool", "default": False},
        "force_foreign": {"type": "bool", "default": False},
        **lxd_arguments(),
    }


def progress_for(module_name: str, instance: str) -> Callable[[str], None]:
    """Says what happens in the progress folder of this host; a folder that cannot be written costs the lines only."""
    progress = Progress(os.path.join(progress_dir(), f"lxd-{instance}.jsonl"), f"{module_name} {instance}")

    def say(text: str) -> None:
        with contextlib.suppress(OSError):
            progress.say(text)

    return say
