# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turns the results of one passthrough test into checks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: passthrough_checks
short_description: Turn the results of a passthrough test into checks
version_added: 0.1.0
description:
  - Makes one list of checks out of the results of M(gpulab.fleet.lxd_gpu_vm) or M(gpulab.fleet.lxd_gpu_container), M(gpulab.fleet.lxd_gpu_check),
    and the removal of the instance, failed and unreachable ones included.
options:
  _input:
    description: The result of the task that started the instance.
    type: dict
    required: true
  look:
    description: The result of M(gpulab.fleet.lxd_gpu_check).
    type: dict
    default: {}
  release:
    description: The result of the task that removed the instance.
    type: dict
    default: {}
  host:
    description: The host of the checks.
    type: str
    required: true
  test:
    description: The test of the checks.
    type: str
    required: true
  device:
    description: The device of the checks.
    type: str
    required: true
  kept:
    description: Whether the instance was kept on purpose.
    type: bool
    default: false
  began:
    description: When the test began, in seconds since 1970. V(0) when that is not known.
    type: float
    default: 0.0
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Note how the test went
  ansible.builtin.set_fact:
    checks: "{{ vm | gpulab.fleet.passthrough_checks(look=seen, release=gone, host=inventory_hostname, test='vm', device='0000:41:00.0') }}"
"""

RETURN = r"""
_value:
  description: The checks, in the form of M(gpulab.fleet.lxd_gpu_check).
  type: list
  elements: dict
"""

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpulab.fleet.plugins.plugin_utils._outcome import checks_of_test


def passthrough_checks(
    start: Mapping[str, Any],
    look: Mapping[str, Any] | None = None,
    release: Mapping[str, Any] | None = None,
    host: str = "",
    test: str = "",
    device: str = "",
    kept: bool = False,
    began: float = 0.0,
) -> list[dict[str, Any]]:
    seconds = time.time() - float(began) if began else 0.0
    return checks_of_test(host, test, device, start, look or {}, release or {}, bool(kept), seconds)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"passthrough_checks": passthrough_checks}
