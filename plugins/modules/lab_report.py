#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# Documentation only: the work is done on the controller, by the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_report
short_description: Write the report of a run and print its table
version_added: 0.1.0
description:
  - Writes C(report.json) and C(report.junit.xml) into a new folder on the controller, moves the link C(latest) there, and prints a table of
    hosts, devices and tests on the terminal.
  - Runs on the controller and needs no connection to any host.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group
attributes:
  check_mode:
    support: full
    details:
      - Prints the table and writes nothing.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Every run writes a report of its own.
options:
  checks:
    description:
      - The checks of the run. Each has C(host), C(device) or C(claim), C(test), C(name), C(status) (V(passed), V(failed) or V(skipped)) and C(reason),
        and may have C(evidence) and C(seconds).
    type: list
    elements: dict
    required: true
  directory:
    description: Where the folders of reports are. A relative path counts from the folder that Ansible was started in.
    type: str
    default: reports
  started:
    description: When the run began, as an ISO 8601 text. Unset, it is the time of the report.
    type: str
  labels:
    description: Names for devices, which the table shows behind them, as a dictionary of hosts with a dictionary of devices each.
    type: dict
    default: {}
  extra:
    description: More keys for C(report.json).
    type: dict
    default: {}
  fail_on:
    description: Whether failed checks make the task fail, after the report was written.
    type: str
    choices: [never, failed]
    default: never
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Report what was checked
  gpulab.fleet.lab_report:
    checks: "{{ result.checks }}"
    directory: /var/tmp/reports
    fail_on: failed
"""

RETURN = r"""
summary:
  description: How many checks passed, failed and were skipped.
  returned: always
  type: dict
  sample: {passed: 12, failed: 0, skipped: 4}
folder:
  description: The folder of this report.
  returned: when not in check mode
  type: str
  sample: /home/me/lab/reports/20260102T030405Z
report:
  description: Path of C(report.json).
  returned: when not in check mode
  type: str
  sample: /home/me/lab/reports/20260102T030405Z/report.json
junit:
  description: Path of C(report.junit.xml).
  returned: when not in check mode
  type: str
  sample: /home/me/lab/reports/20260102T030405Z/report.junit.xml
"""
