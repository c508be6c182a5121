# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes releases and the versions of resource.k8s.io that they serve; private to the collection."""

from __future__ import annotations

import re

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError

GROUP = "resource.k8s.io"
V1BETA1 = f"{GROUP}/v1beta1"
V1BETA2 = f"{GROUP}/v1beta2"
V1 = f"{GROUP}/v1"
API_VERSIONS = (V1BETA1, V1BETA2, V1)

# The newest version that each release serves, the one that NVIDIA's driver asks for first.
_NEWEST = {
    (1, 32): V1BETA1,
    (1, 33): V1BETA2,
    (1, 34): V1,
    (1, 35): V1,
    (1, 36): V1,
    (1, 37): V1,
}
KUBERNETES = tuple(f"{major}.{minor}" for major, minor in sorted(_NEWEST))
NEWEST = max(_NEWEST)

_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)(?:[.+-].*)?")


def parse_kubernetes(version: str) -> tuple[int, int]:
    """Major and minor of a version such as 1.37, v1.37.2 or v1.36.0-gke.1; what is newer than all we know counts as the newest."""
    match = _VERSION.fullmatch(version.strip()) if isinstance(version, str) else None
    if match is None:
        raise SliceError(
            f'kubernetes: {version!r} is not a version of Kubernetes; write it in quotes, such as "{KUBERNETES[-1]}"'
        )
    release = int(match.group(1)), int(match.group(2))
    if release < min(_NEWEST):
        raise SliceError(f"kubernetes: {version} is too old; allowed: {KUBERNETES[0]} and later")
    return min(release, NEWEST)


def api_version_for(kubernetes: str) -> str:
    """The newest version of resource.k8s.io that a release of Kubernetes serves."""
    return _NEWEST[parse_kubernetes(kubernetes)]
