# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what a person set for the passthrough playbook."""

from __future__ import annotations

DOCUMENTATION = r"""
name: passthrough_settings
short_description: Read the variables of the passthrough playbook
version_added: 0.1.0
description:
  - Turns the variables of the playbook C(gpulab.fleet.passthrough), as texts of a command line or as YAML, into usable values, and says what is wrong.
  - Reads the environment variables E(VM_RAM_MB), E(VM_CPUS) and E(QEMU_OPTS) of the controller for variables that are not set.
positional: names
options:
  _input:
    description: The variables by name; V(null) for what is not set.
    type: dict
    required: true
  names:
    description: Names of all variables that are set, in which misspelled ones are looked for.
    type: list
    elements: str
    default: []
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Read two variables
  ansible.builtin.debug:
    msg: "{{ {'vm_ram_mb': '8192', 'tests': 'vm'} | gpulab.fleet.passthrough_settings }}"
"""

RETURN = r"""
_value:
  description:
    - C(settings), the values of all variables by name, with the defaults of the role M(gpulab.fleet.passthrough#role) for those that are not set.
    - C(problems), a sentence for each variable that cannot be used.
  type: dict
  sample:
    settings: {vm_ram_mb: 8192, tests: [vm], gpus: [all]}
    problems: []
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpulab.fleet.plugins.plugin_utils._settings import VARIABLES, misspelled, settings

_ROLES = Path(__file__).resolve().parents[2] / "roles"


def role_variables(folder: Path = _ROLES) -> list[str]:
    """Names of the options of all roles of this collection."""
    names: list[str] = []
    for path in sorted(folder.glob("*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        for entry in specs.values():
            names += entry.get("options", {})
    return names


def role_defaults(folder: Path = _ROLES) -> dict[str, Any]:
    """What the role takes when nothing is set, by the names of the playbook."""
    defaults = yaml.safe_load((folder / "passthrough" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    return {name: defaults[f"passthrough_{name}"] for name in VARIABLES}


def passthrough_settings(values: Mapping[str, Any], names: Iterable[str] = ()) -> dict[str, Any]:
    found, problems = settings(values, os.environ)
    return {"settings": {**role_defaults(), **found}, "problems": misspelled(names, role_variables()) + problems}


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"passthrough_settings": passthrough_settings}
