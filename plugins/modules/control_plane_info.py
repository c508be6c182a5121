#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_info
short_description: Look at the control planes of this computer
version_added: 0.1.0
description:
  - Tells which control planes M(gpulab.fleet.control_plane) has made here, whether they run and answer, and how to reach them.
  - A component that crashed is named, with its last log lines.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.info
  - gpulab.fleet.attributes.group
options:
  name:
    description: The control plane to look at. Unset, all of this user are.
    type: str
  state_dir:
    description: Where state, data and logs are. Unset, it is C($XDG_STATE_HOME/gpulab-fleet), or C(~/.local/state/gpulab-fleet).
    type: path
seealso:
  - module: gpulab.fleet.control_plane
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: See what runs here
  gpulab.fleet.control_plane_info:
  register: here

- name: Refuse to go on beside a crashed one
  ansible.builtin.assert:
    that: here.clusters | selectattr('status', 'equalto', 'crashed') | length == 0
"""

RETURN = r"""
clusters:
  description: The control planes.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    status:
      description: C(running), C(stopped), C(crashed), C(stale) (this computer was started anew since) or C(absent).
      type: str
      returned: always
    reason:
      description: Why it is C(crashed) or C(stale).
      type: str
      returned: always
    logs:
      description: The last log lines of the components that are gone.
      type: dict
      returned: always
    source:
      description: Where its programs came from, as V(path), V(download) or V(modules).
      type: str
      returned: when it has a state
    kubeconfig:
      description: The file to reach it with.
      type: str
      returned: when it has a state
    context:
      description: The context in it.
      type: str
      returned: when it has a state
    server:
      description: The address of its API server.
      type: str
      returned: when it has a state
    kubernetes_version:
      description: The version that it runs.
      type: str
      returned: when it has a state
    kwok_version:
      description: The version of its KWOK.
      type: str
      returned: when it has a state
    feature_gates:
      description: The gates of dynamic resource allocation, and those asked for, as the API server reported them when it was started.
      type: dict
      returned: when it has a state
    kubectl:
      description: A kubectl of the same version.
      type: str
      returned: when it has a state
    components:
      description: The process and the log of each component.
      type: dict
      returned: when it has a state
    folder:
      description: Where its data, keys and logs are.
      type: str
      returned: when it has a state
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.options import inform

ARGUMENT_SPEC: dict[str, Any] = {
    "name": {"type": "str"},
    "state_dir": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result = inform(module.params)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    except OSError as error:
        module.fail_json(msg=f"{error}; state_dir must be readable")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
