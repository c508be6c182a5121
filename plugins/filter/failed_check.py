# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turns the result of a task that failed into a check."""

from __future__ import annotations

DOCUMENTATION = r"""
name: failed_check
short_description: Turn a task that failed into a failed check
version_added: 0.1.0
description:
  - Makes a failed check out of the result of a task that failed or could not reach its host, with the task's message as its reason.
options:
  _input:
    description: The result, such as C(ansible_failed_result) in a C(rescue) section. V(msg) is enough.
    type: dict
    required: true
  host:
    description: The host of the check.
    type: str
    required: true
  test:
    description: The test of the check.
    type: str
    default: ready
  device:
    description: The device of the check.
    type: str
    default: host
  name:
    description: What was to be done.
    type: str
    required: true
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Note what failed
  ansible.builtin.set_fact:
    check: "{{ ansible_failed_result | gpulab.fleet.failed_check(host=inventory_hostname, name='preflight') }}"
"""

RETURN = r"""
_value:
  description: The check, in the form of M(gpulab.fleet.lxd_gpu_check).
  type: dict
"""

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpulab.fleet.plugins.plugin_utils._outcome import failed_check as make


def failed_check(
    step: Mapping[str, Any], host: str, name: str, test: str = "ready", device: str = "host"
) -> dict[str, Any]:
    return make(host, test, device, name, step)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"failed_check": failed_check}
