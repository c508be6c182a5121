# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A GPU in a few words."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_label
short_description: Name a GPU in a few words
version_added: 0.1.0
description:
  - Names a GPU, as M(gpulab.fleet.gpu_host_info) returns it, by its ids and the product name of the catalog's board with these ids.
options:
  _input:
    description: The GPU.
    type: dict
    required: true
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Show the GPUs of a host
  ansible.builtin.debug:
    msg: "{{ host.gpus | map('gpulab.fleet.gpu_label') }}"
"""

RETURN = r"""
_value:
  description: The name.
  type: str
  sample: 10de:2330 NVIDIA H100 80GB HBM3
"""

from collections.abc import Mapping
from typing import Any


def gpu_label(gpu: Mapping[str, Any]) -> str:
    return f"{gpu['vendor_id']}:{gpu['device_id']} {gpu.get('product') or ''}".strip()


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"gpu_label": gpu_label}
