# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options by which modules reach LXD."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  lxd_socket:
    description:
      - Path of LXD's local socket on the host.
      - "Unset, it is found as C(lxc) finds it: E(LXD_DIR) if that is set, then the snap's socket
        C(/var/snap/lxd/common/lxd/unix.socket), then C(/var/lib/lxd/unix.socket)."
    type: path
  project:
    description:
      - The LXD project that holds the instance. Unset means LXD's project V(default).
    type: str
requirements:
  - pylxd >= 2.3 for the Python interpreter that runs the module on the host
notes:
  - Runs on the LXD host, as a user who may use LXD's socket and read C(/sys) and C(/proc). Usually that is V(root).
"""
