# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a report to what a module returns. Private to the collection."""

from __future__ import annotations

from typing import Any, Optional

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
