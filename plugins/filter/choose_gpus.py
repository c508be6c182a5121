# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Chooses GPUs of a host by address, ids or all."""

from __future__ import annotations

DOCUMENTATION = r"""
name: choose_gpus
short_description: Choose GPUs of a host
version_added: 0.1.0
description:
  - Chooses from the GPUs that M(gpulab.fleet.gpu_host_info) returns.
positional: selectors
options:
  _input:
    description: The GPUs of the host.
    type: list
    elements: dict
    required: true
  selectors:
    description:
      - Addresses (V("0000:41:00.0")), ids (V("10de:2330"), every GPU that has them) or V(all).
      - V(all) means all but displays of the machine itself, such as those of management controllers.
    type: list
    elements: raw
    required: true
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Choose every H100
  ansible.builtin.set_fact:
    chosen: "{{ host.gpus | gpulab.fleet.choose_gpus(['10de:2330']) }}"
"""

RETURN = r"""
_value:
  description: C(gpus), those chosen in the order of the selectors; C(labels), a name for each address; C(problems), a sentence for each selector without a GPU.
  type: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpulab.fleet.plugins.plugin_utils._choice import choose, label


def choose_gpus(gpus: Sequence[Mapping[str, Any]], selectors: Sequence[Any]) -> dict[str, Any]:
    chosen, problems = choose(gpus, selectors)
    return {"gpus": chosen, "labels": {str(gpu["address"]): label(gpu) for gpu in chosen}, "problems": problems}


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"choose_gpus": choose_gpus}
