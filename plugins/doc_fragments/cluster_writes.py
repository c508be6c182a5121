# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of modules that write many objects, and what they return."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  continue_on_error:
    description:
      - Go on with the other objects after one has failed. The task fails at its end in any case.
      - V(false) stops at the first failure; what is under way ends.
    type: bool
    default: true
  dropped_fields:
    description:
      - What to do when the API server silently drops a field, as it does when a feature gate is off. This is found out by a dry run
        before anything is written.
      - V(fail) ends with a message that names the fields and the feature gates, and nothing is written.
      - V(warn) publishes the slices without these fields, with a warning each time.
    type: str
    choices: [fail, warn]
    default: fail
  timeout_s:
    description:
      - Seconds for the whole call, waits included. What has not been tried by then is reported as failed.
    type: int
    default: 600
  results_limit:
    description:
      - How many entries RV(results) has at most. RV(summary) always counts all.
    type: int
    default: 100
  progress_path:
    description:
      - A file to which lines of progress are appended, as JSON.
      - Unset, it is one below C($XDG_STATE_HOME/gpulab-fleet/progress), where the callback P(gpulab.fleet.progress#callback) finds it.
    type: path
"""
