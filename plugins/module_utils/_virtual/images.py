# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The things that virtual hosts are made from, each with its build script and its outputs. Private to the collection."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._common.build import Recipe
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# Environment variables that the scripts read beside their parameters: where packages come from.
PASSED_ON = ("GPULAB_DEBIAN_MIRROR", "GPULAB_SUITE")


@dataclass(frozen=True)
class Kind:
    """A script of the sources folder and the files that it makes in its output folder."""

    script: str
    outputs: tuple[str, ...]


KINDS: Mapping[str, Kind] = {
    "qemu": Kind("build-qemu.sh", ("tree", "version")),
    "host-image": Kind("build-host-image.sh", ("disk.raw", "vmlinuz", "initrd")),
    "guest-images": Kind("build-guest-images.sh", ("vm/disk.qcow2", "vm/metadata.tar.xz", "container/image.tar.gz")),
}


def recipe(kind: str, sources: str, parameters: Mapping[str, str]) -> Recipe:
    """The recipe of a kind with the scripts that lie in `sources`."""
    described = KINDS[kind]
    script = os.path.join(sources, described.script)
    if not os.path.isfile(script):
        raise FleetError(
            f"sources is {sources!r}, which has no {described.script}; the role virtual_gpu_host brings these files",
            sources=sources,
        )
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return Recipe(kind, script, described.outputs, tuple(sorted({**passed, **parameters}.items())))
