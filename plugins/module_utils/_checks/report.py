# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's checks as a report: JSON data, JUnit XML, and the table that a person reads. Private to the collection."""

from __future__ import annotations

import json
import re
from typing import Iterable, Mapping, Optional, Sequence, TypeVar
from xml.sax.saxutils import escape, quoteattr

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import (
    FAILED,
    SKIPPED,
    STATUSES,
    check_dict,
    summarise,
)

SCHEMA = 1
# In the table; the report has them all.
_CLAIMS_SHOWN = 4

# What XML 1.0 cannot hold even when escaped; kernel logs and consoles are full of it.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

T = TypeVar("T")
_Checks = Sequence[Mapping[str, object]]


def build_report(
    checks: Iterable[Mapping[str, object]],
    started: str,
    finished: str,
    extra: Optional[Mapping[str, object]] = None,
) -> dict[str, object]:
    """The content of report.json; times are ISO 8601 texts, `extra` adds keys of the caller and never replaces ours."""
    flat = [check_dict(check, position) for position, check in enumerate(checks)]
    report: dict[str, object] = dict(extra or {})
    report.update(
        {"schema": SCHEMA, "started": started, "finished": finished, "summary": summarise(flat), "checks": flat}
    )
    return report


def junit(report: Mapping[str, object]) -> str:
    """The same report for CI systems: a suite per host, a case per check."""
    checks = _checks(report)
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    lines.append(f'<testsuites name="gpulab.fleet" {_counts(checks)}>')
    for host in _in_order(str(check["host"]) for check in checks):
        suite = [check for check in checks if check["host"] == host]
        lines.append(
            f"  <testsuite name={_attribute(host)} timestamp={_attribute(str(report.get('started', '')))} {_counts(suite)}>"
        )
        for check in suite:
            lines += _case(check)
        lines.append("  </testsuite>")
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def table(report: Mapping[str, object], width: int = 0) -> str:
    """Host x device x test, and host x test for claims; then the reason of everything that did not pass, then one line of totals.

    `width` limits the lines of reasons (0: no limit); the tables themselves are never cut.
    """
    checks = _checks(report)
    of_devices = [check for check in checks if "device" in check]
    of_claims = [check for check in checks if "device" not in check]
    lines = _devices(of_devices, report) if of_devices else []
    if of_claims:
        # There are many claims, with names that mean something within their test only: a line each would bury the result.
        lines += ([""] if lines else []) + _claims(of_claims)
    lines = lines or ["no checks were made"]
    for status in (FAILED, SKIPPED):
        lines += _reasons([check for check in checks if check["status"] == status], status, width)
    counts = summarise(checks)
    lines += ["", ", ".join(f"{counts[status]} {status}" for status in STATUSES)]
    return "\n".join(lines)


def _devices(checks: _Checks, report: Mapping[str, object]) -> list[str]:
    tests = _in_order(str(check["test"]) for check in checks)
    rows = [["HOST", "DEVICE", *(test.upper() for test in tests)]]
    for host, device in _in_order((str(check["host"]), _subject(check)) for check in checks):
        cells = []
        for test in tests:
            cells.append(
                _cell([c for c in checks if c["host"] == host and _subject(c) == device and c["test"] == test])
            )
        rows.append([host, _labelled(host, device, report), *cells])
    return _aligned(rows)


def _claims(checks: _Checks) -> list[str]:
    rows = [["HOST", "TEST", "RESULT", "OF"]]
    for host, test in _in_order((str(check["host"]), str(check["test"])) for check in checks):
        mine = [check for check in checks if check["host"] == host and check["test"] == test]
        claims = _in_order(_subject(check) for check in mine)
        more = f" and {len(claims) - _CLAIMS_SHOWN} more" if len(claims) > _CLAIMS_SHOWN else ""
        rows.append([host, test, _cell(mine), ", ".join(claims[:_CLAIMS_SHOWN]) + more])
    return _aligned(rows)


def _checks(report: Mapping[str, object]) -> list[Mapping[str, object]]:
    checks = report.get("checks")
    return list(checks) if isinstance(checks, (list, tuple)) else []


def _subject(check: Mapping[str, object]) -> str:
    return str(check.get("device") or check.get("claim"))


def _labelled(host: str, device: str, report: Mapping[str, object]) -> str:
    """The device with the name that the caller knows for it: `labels` of the report, by host and device."""
    labels = report.get("labels")
    of_host = labels.get(host) if isinstance(labels, Mapping) else None
    label = of_host.get(device) if isinstance(of_host, Mapping) else None
    return f"{device} {label}" if label else device


def _cell(checks: _Checks) -> str:
    if not checks:
        return "-"
    counts = summarise(checks)
    if counts[FAILED]:
        return f"FAILED {counts[FAILED]}/{len(checks)}"
    if counts[SKIPPED] == len(checks):
        return "skipped"
    done = f"passed {len(checks) - counts[SKIPPED]}"
    return f"{done} (skipped {counts[SKIPPED]})" if counts[SKIPPED] else done


def _reasons(checks: _Checks, status: str, width: int) -> list[str]:
    """Equal reasons of one host and test are told once, with all devices they hold for."""
    told: dict[tuple[str, str, str, str], list[str]] = {}
    for check in checks:
        key = (str(check["host"]), str(check["test"]), str(check["name"]), " ".join(str(check["reason"]).split()))
        told.setdefault(key, []).append(_subject(check))
    lines = [""] if told else []
    mark = status.upper() if status == FAILED else status
    for (host, test, name, reason), devices in told.items():
        line = f"{mark} {host} {', '.join(devices)} {test} {name}: {reason}"
        lines.append(line if not width or len(line) <= width else line[: max(width - 3, 1)] + "...")
    return lines


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(size) for cell, size in zip(row, widths)).rstrip() for row in rows]


def _in_order(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))


def _counts(checks: _Checks) -> str:
    counts = summarise(checks)
    seconds = sum(float(str(check.get("seconds") or 0.0)) for check in checks)
    return (
        f'tests="{len(checks)}" failures="{counts[FAILED]}" errors="0" skipped="{counts[SKIPPED]}" time="{seconds:.3f}"'
    )


def _case(check: Mapping[str, object]) -> list[str]:
    name = f"{check['test']} {check['name']}"
    class_name = f"{check['host']}.{_subject(check)}"
    seconds = float(str(check.get("seconds") or 0.0))
    head = f'    <testcase classname={_attribute(class_name)} name={_attribute(name)} time="{seconds:.3f}"'
    if check["status"] == FAILED:
        reason = str(check["reason"])
        return [
            head + ">",
            f"      <failure message={_attribute(reason)}>{_text(_evidence(check))}</failure>",
            "    </testcase>",
        ]
    if check["status"] == SKIPPED:
        return [head + ">", f"      <skipped message={_attribute(str(check['reason']))}/>", "    </testcase>"]
    return [head + "/>"]


def _evidence(check: Mapping[str, object]) -> str:
    evidence = check.get("evidence")
    return "" if evidence is None else json.dumps(evidence, indent=2, default=str)


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("?", text))
