# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every module says of itself: check mode, diff mode, idempotency. Each module adds the support value."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and tells what it would change without changing anything.
  diff_mode:
    description: Returns what it changed, or would change, when run in C(diff_mode).
  idempotent:
    description: A second run with the same parameters, with nothing changed in between, reports no change.
"""

    # For modules that only look.
    INFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module changes nothing.
  diff_mode:
    support: N/A
    details:
      - This module changes nothing.
  idempotent:
    support: full
    details:
      - This module changes nothing.
"""

    # Membership of the action groups in meta/runtime.yml.
    GROUP = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/gpulab.fleet.gpulab) in C(module_defaults) to set defaults for the modules of this collection.
    support: full
    membership:
      - gpulab.fleet.gpulab
"""

    # The same for modules that talk to an LXD.
    GROUP_LXD = r"""
options: {}
attributes:
  action_group:
    description:
      - Use C(group/gpulab.fleet.gpulab) in C(module_defaults) to set defaults for the modules of this collection,
        or C(group/gpulab.fleet.lxd) for those of them that talk to an LXD.
    support: full
    membership:
      - gpulab.fleet.gpulab
      - gpulab.fleet.lxd
"""

    # The same for modules that talk to a Kubernetes cluster.
    GROUP_KUBERNETES = r"""
options: {}
attributes:
  action_group:
    description:
      - Use C(group/gpulab.fleet.gpulab) in C(module_defaults) to set defaults for the modules of this collection,
        or C(group/gpulab.fleet.kubernetes) for those of them that talk to a Kubernetes cluster.
    support: full
    membership:
      - gpulab.fleet.gpulab
      - gpulab.fleet.kubernetes
"""
