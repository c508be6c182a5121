# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machine to ResourceSlices, and slices from elsewhere; private to the collection."""

from __future__ import annotations

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.convert import canonical, convert
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import DRIVERS, MODES, RELEASES
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.render import render_node
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.settings import DriverSettings, default_drivers
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import KUBERNETES, api_version_for

__all__ = [
    "DRIVERS",
    "KUBERNETES",
    "MODES",
    "RELEASES",
    "DriverSettings",
    "SliceError",
    "api_version_for",
    "canonical",
    "convert",
    "default_drivers",
    "render_node",
]
