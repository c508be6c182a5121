# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what the next play needs to reach a virtual GPU host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: virtual_host
short_description: Tell how a virtual GPU host is reached
version_added: 0.1.0
author:
  - The gpulab.fleet authors (@gpulab)
description:
  - Reads the state of a virtual GPU host that M(gpulab.fleet.virtual_gpu_host) started on this computer.
  - As ports are chosen at each start, an inventory gives C(ansible_port) as a template with this lookup.
options:
  _terms:
    description: Names of virtual GPU hosts.
    type: list
    elements: str
    required: true
  field:
    description:
      - What to return of each host. Unset, it is a dictionary of all fields.
    type: str
    choices: [ssh_port, ssh_key, known_hosts, addresses, vm_image, vm_metadata, container_image, machine, console]
  default:
    description:
      - What to return of a host that has not been started. Unset, that is an error.
      - Ansible reads C(ansible_port) even for tasks that run elsewhere, such as the one that starts the host; so that variable needs a default.
    type: raw
  state_dir:
    description: Where the hosts' state is. Unset, it is C($XDG_STATE_HOME/gpulab-fleet), or C(~/.local/state/gpulab-fleet).
    type: path
seealso:
  - module: gpulab.fleet.virtual_gpu_host
"""

EXAMPLES = r"""
- name: Show where the first GPU is
  ansible.builtin.debug:
    msg: "{{ lookup('gpulab.fleet.virtual_host', 'vgpu-h100', field='addresses').gpu0 }}"

# in an inventory
# ansible_port: "{{ lookup('gpulab.fleet.virtual_host', inventory_hostname, field='ssh_port', default=22) }}"
"""

RETURN = r"""
_raw:
  description: A value, or a dictionary of all fields, for each host.
  type: list
  elements: raw
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.parts import GUEST_FILES
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.state import RUNNING, HostPaths, HostState

# Told apart from a default of None.
NO_DEFAULT = object()
FIELDS = ("ssh_port", "ssh_key", "known_hosts", "addresses", "machine", "console")


def describe(state: HostState) -> dict[str, Any]:
    """All fields of a host; images are there when they were built."""
    values = {name: getattr(state, name) for name in FIELDS}
    return {**values, **{name: state.guest_images[name] for name in GUEST_FILES if name in state.guest_images}}


def read(name: str, field: str | None, state_root: str | None, default: Any = NO_DEFAULT) -> Any:
    """The fields of one host, or one of them."""
    state = HostPaths(name, state_root).load()
    if state is None or state.status != RUNNING:
        if default is not NO_DEFAULT:
            return default
        what = "has never been started" if state is None else f"is {state.status}"
        raise FleetError(f"virtual host {name!r} {what}; run the playbook gpulab.fleet.virtual_hosts, which starts it")
    values = describe(state)
    if field is None:
        return values
    if field not in values:
        raise FleetError(
            f"virtual host {name!r} was started without guest images, so it has no {field}; set guest_images: true"
        )
    return values[field]


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core ships no types
    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        try:
            default = kwargs.get("default", NO_DEFAULT)
            return [read(str(term), self.get_option("field"), self.get_option("state_dir"), default) for term in terms]
        except FleetError as error:
            raise AnsibleLookupError(error.message) from error
