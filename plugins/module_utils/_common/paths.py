# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the collection keeps caches and state on a machine, by the XDG base directories. Private to the collection."""

from __future__ import annotations

import os
from typing import Mapping

NAME = "gpulab-fleet"


def cache_dir(environ: Mapping[str, str] | None = None) -> str:
    """What can be made again: images, chroots, built helpers."""
    return _base("XDG_CACHE_HOME", ".cache", environ)


def state_dir(environ: Mapping[str, str] | None = None) -> str:
    """What must be found again: running hosts, progress of local runs."""
    return _base("XDG_STATE_HOME", os.path.join(".local", "state"), environ)


def progress_dir(environ: Mapping[str, str] | None = None) -> str:
    """Where local runs put their progress files, and the progress callback looks for them."""
    return os.path.join(state_dir(environ), "progress")


def _base(variable: str, below_home: str, environ: Mapping[str, str] | None) -> str:
    environ = os.environ if environ is None else environ
    base = environ.get(variable, "")
    # The XDG specification has relative paths ignored.
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), below_home)
    return os.path.join(base, NAME)
