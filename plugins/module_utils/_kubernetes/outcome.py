# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a report to what a module returns. Private to the collection."""

from __future__ import annotations

import time
from typing import Any, Mapping, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.report import Report


def result_of(report: Report, kubernetes: Optional[Kubernetes], seconds: float, show_diff: bool) -> dict[str, Any]:
    """`changed`, the summary, some results and the diff."""
    result: dict[str, Any] = {
        "changed": report.changed,
        **report.results(),
        "seconds": round(seconds, 3),
        "requests": kubernetes.requests if kubernetes is not None else 0,
    }
    if show_diff:
        result["diff"] = report.diff()
    return result


def failure_of(report: Report, error: Optional[FleetError] = None) -> Optional[str]:
    """The message with which the module should fail; None when all went well."""
    if report.failures:
        others = f", and {report.failures - 1} more" if report.failures > 1 else ""
        return f"{report.failures} objects failed ({report.line()}). {report.first_failure}{others}"
    if error is not None:
        return error.message
    return None


def finish(
    module: AnsibleModule,
    report: Report,
    error: Optional[FleetError],
    kubernetes: Optional[Kubernetes],
    extra: dict[str, Any],
    started_s: float,
) -> None:
    """End a module that wrote many objects: what was done is told whether or not something went wrong."""
    for warning in kubernetes.warnings if kubernetes is not None else ():
        module.warn(warning)
    result = {**extra, **result_of(report, kubernetes, time.monotonic() - started_s, module._diff)}
    message = failure_of(report, error)
    if message is not None:
        module.fail_json(msg=message, **{**(error.details if error is not None else {}), **result})
    module.exit_json(**result)


def warn_of_dropped(module: AnsibleModule, fields: Mapping[str, str]) -> None:
    """Fields that the server drops and that may be missing."""
    for path in fields:
        module.warn(f"the API server drops spec.{path}; the slices were published without it")
