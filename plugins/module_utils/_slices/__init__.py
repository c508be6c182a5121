# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machine to ResourceSlices, and slices from elsewhere; private to the collection."""

from __future__ import annotations

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.convert import (
    as_v1,
    canonical,
    comparable,
    convert,
    exporter,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.limits import check_slices
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.read import read_slices
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.releases import DRIVERS, MODES, RELEASES
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.render import render_node
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.replay import Recording, normalise, replay
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.settings import (
    DriverSettings,
    chosen_drivers,
    default_drivers,
    driver_arguments,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.versions import KUBERNETES, api_version_for
from ansible_collections.gpulab.fleet.plugins.module_utils._slices.write import to_yaml

__all__ = [
    "DRIVERS",
    "KUBERNETES",
    "MODES",
    "RELEASES",
    "DriverSettings",
    "Recording",
    "SliceError",
    "api_version_for",
    "as_v1",
    "canonical",
    "check_slices",
    "chosen_drivers",
    "comparable",
    "convert",
    "default_drivers",
    "driver_arguments",
    "exporter",
    "normalise",
    "read_slices",
    "render_node",
    "replay",
    "to_yaml",
]
