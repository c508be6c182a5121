#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: lxd_gpu_container
short_description: Bring an LXD container with GPUs to a described state
version_added: 0.1.0
description:
  - Creates, changes, starts, stops and deletes a container of the LXD on this host, with device nodes of GPUs in it.
  - The host's driver keeps the GPU. One that has neither a DRM node nor NVIDIA's driver on the host cannot be in a container
    and is refused with the reason V(gpu_unusable_in_container).
  - For a GPU that NVIDIA's driver runs on the host, the container gets NVIDIA's libraries and tools as well, by the key
    C(nvidia.runtime), or by a CDI name where LXD has given that key up.
  - Everything that can be refused is refused before anything is touched, with one message that names option, value and
    remedy.
author:
  - The gpulab.fleet authors (@gpulab)
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group_lxd
  - gpulab.fleet.lxd
  - gpulab.fleet.lxd_instance
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - O(state=restarted) restarts the container, and reports that, each time.
options:
  gpus:
    description:
      - 'The GPUs of the container: PCI addresses (V("0000:41:00.0"), quoted), ids (V("10de:2330"), every GPU with these), or
        V(all).'
      - The list is complete. GPUs of the container that are not in it are taken away; an empty list takes all away; unset
        changes nothing.
    type: list
    elements: raw
seealso:
  - module: gpulab.fleet.lxd_gpu_vm
  - module: gpulab.fleet.lxd_gpu_check
  - module: gpulab.fleet.gpu_host_info
"""

EXAMPLES = r"""
- name: A container with one GPU, ready for commands
  gpulab.fleet.lxd_gpu_container:
    name: gpu-test-container
    image: images:debian/13
    gpus: ["0000:41:00.0"]

- name: All GPUs of the host, from an image on the host
  gpulab.fleet.lxd_gpu_container:
    name: all-gpus
    image: /srv/images/gpu-container.tar.xz
    gpus: [all]
    config:
      security.nesting: true

- name: Take the GPUs away and keep the container
  gpulab.fleet.lxd_gpu_container:
    name: gpu-test-container
    gpus: []

- name: Delete the container
  gpulab.fleet.lxd_gpu_container:
    name: gpu-test-container
    state: absent
"""

RETURN = r"""
actions:
  description: What was done to the container, in its order. In check mode, what would be done.
  returned: always, except when the call is refused before anything is done
  type: list
  elements: str
  sample: [create, start]
restart_required:
  description: Whether something differs that takes effect only with a restart, and O(allow_restart) is not set.
  returned: success
  type: bool
  sample: false
pending:
  description: What differs and was left out for want of a restart.
  returned: success
  type: list
  elements: str
  sample: [config.nvidia.runtime]
instance:
  description: The container as LXD has it, without profiles' keys and LXD's volatile ones. V(null) when there is none.
  returned: success
  type: dict
  contains:
    name:
      description: Its name.
      type: str
    type:
      description: V(container).
      type: str
    status:
      description: LXD's word for its state, such as V(Running).
      type: str
    profiles:
      description: Its profiles.
      type: list
      elements: str
    config:
      description: Its own configuration keys.
      type: dict
    devices:
      description: Its own devices.
      type: dict
gpus:
  description: PCI addresses of the GPUs that the container's devices name.
  returned: success
  type: list
  elements: str
  sample: ["0000:41:00.0"]
released:
  description: After a stop, how each function stands that the container had.
  returned: always, except when the call is refused before anything is done
  type: list
  elements: dict
  contains:
    address:
      description: The function's PCI address.
      type: str
    released:
      description: Whether it is on the driver that it had before, and nothing holds it that did not before.
      type: bool
    former_driver:
      description: The driver that it had before.
      type: str
    driver:
      description: The driver that it has now.
      type: str
    holders:
      description: The processes that hold it.
      type: list
      elements: dict
    reason:
      description: The same in one sentence.
      type: str
ready:
  description: How the wait ended. V(null) when nothing was waited for.
  returned: success
  type: dict
  contains:
    ready:
      description: V(true).
      type: bool
    seconds:
      description: Seconds since the call began.
      type: float
    system_state:
      description: With O(wait_for=system), systemd's word for the state of the guest.
      type: str
    failed_units:
      description: With O(wait_for=system), units that failed.
      type: list
      elements: str
reason:
  description: Why the call failed, for programs.
  returned: failure for a GPU, of a start, a wait or a release
  type: str
  sample: gpu_unusable_in_container
instance_log:
  description: The last lines of LXC's log.
  returned: failure of a start or a wait
  type: list
  elements: str
last_state:
  description: The last state that was seen.
  returned: failure of a wait
  type: str
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.arguments import instance_arguments, progress_for
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import HAS_PYLXD, PYLXD_IMPORT_ERROR, connect
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.engine import Engine
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import CONTAINER
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.passthrough import HostGpus


def main() -> None:
    module = AnsibleModule(argument_spec=instance_arguments(), supports_check_mode=True)
    if not HAS_PYLXD:
        module.fail_json(msg=missing_required_lib("pylxd"), exception=PYLXD_IMPORT_ERROR)
    try:
        lxd = connect(module.params["lxd_socket"], module.params["project"])
        say = progress_for("lxd_gpu_container", module.params["name"])
        engine = Engine(lxd, HostGpus(), CONTAINER, "lxd_gpu_container", say, module.warn)
        result = engine.run(module.params, module.check_mode)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
