# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes a run's report on the controller and prints its table there. An action, since only actions reach the terminal."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.report import build_report, junit, table
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import write_json_atomic, write_text_atomic

display = Display()

# Kept in step with plugins/modules/lab_report.py, which documents these options; a test compares the two.
ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "checks": {"type": "list", "elements": "dict", "required": True},
    "directory": {"type": "str", "default": "reports"},
    "started": {"type": "str"},
    "labels": {"type": "dict", "default": {}},
    "extra": {"type": "dict", "default": {}},
    "fail_on": {"type": "str", "choices": ["never", "failed"], "default": "never"},
}


# A reason may quote a log; what is longer is in the report.
REASON_WIDTH = 500


class ActionModule(ActionBase):  # type: ignore[misc]
    """Needs no connection: everything happens where Ansible runs."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, params = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        finished = datetime.now(timezone.utc).replace(microsecond=0)
        extra = {**params["extra"], "labels": params["labels"]}
        try:
            report = build_report(
                params["checks"], params["started"] or finished.isoformat(), finished.isoformat(), extra
            )
        except FleetError as error:
            raise AnsibleActionFail(error.message) from error
        display.display("\n" + table(report, width=0 if display.verbosity else REASON_WIDTH))
        result.update({"changed": False, "summary": report["summary"]})
        if not self._task.check_mode:
            folder = write(report, os.path.abspath(os.path.expanduser(params["directory"])), finished)
            display.display(f"report: {os.path.join(folder, 'report.json')}\n")
            result.update(
                changed=True,
                folder=folder,
                report=os.path.join(folder, "report.json"),
                junit=os.path.join(folder, "report.junit.xml"),
            )
        summary: Any = report["summary"]
        if summary["failed"] and params["fail_on"] == "failed":
            result.update(
                failed=True,
                msg=f"{summary['failed']} of {sum(summary.values())} checks failed; the table above says which and why",
            )
        return result


def write(report: dict[str, object], directory: str, finished: datetime) -> str:
    """Both files in a folder of their own, named by the time, and the link `latest` to it."""
    os.makedirs(directory, exist_ok=True)
    folder = new_folder(directory, finished.strftime("%Y%m%dT%H%M%SZ"))
    write_json_atomic(os.path.join(folder, "report.json"), report, mode=0o644)
    write_text_atomic(os.path.join(folder, "report.junit.xml"), junit(report), mode=0o644)
    # A link cannot be replaced, but a new one can be renamed over it: `latest` always leads somewhere.
    fresh = os.path.join(directory, f".latest-{os.path.basename(folder)}")
    os.symlink(os.path.basename(folder), fresh)
    os.replace(fresh, os.path.join(directory, "latest"))
    return folder


def new_folder(directory: str, name: str) -> str:
    """Two runs may end in the same second."""
    number = 1
    while True:
        folder = os.path.join(directory, name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(folder)
            return folder
        except FileExistsError:
            number += 1
