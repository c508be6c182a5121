# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One verified statement about one device or claim, the type that every report is made of. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"
STATUSES = (PASSED, FAILED, SKIPPED)


@dataclass(frozen=True)
class Check:
    """`reason` is what a person reads first; `evidence` is what was seen, as plain JSON data."""

    host: str
    device: str
    test: str
    name: str
    status: str
    reason: str
    evidence: object = None
    seconds: float = 0.0
    # What `device` names: `device`, or `claim` for what is known of a claim, its pod or its pool.
    kind: str = "device"

    def to_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            self.kind: self.device,
            "test": self.test,
            "name": self.name,
            "status": self.status,
            "reason": self.reason,
            "evidence": self.evidence,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Subject:
    """What a run of checks is about: the host and the test that its results are filed under.

    `whole` is the device that a check of the whole guest goes under: its one GPU, or `all`.
    """

    host: str
    test: str
    whole: str = "all"
    kind: str = "device"

    def passed(self, device: str, name: str, reason: str, evidence: object = None, seconds: float = 0.0) -> Check:
        return Check(self.host, device, self.test, name, PASSED, reason, evidence, seconds, self.kind)

    def failed(self, device: str, name: str, reason: str, evidence: object = None, seconds: float = 0.0) -> Check:
        return Check(self.host, device, self.test, name, FAILED, reason, evidence, seconds, self.kind)

    def skipped(self, device: str, name: str, reason: str, evidence: object = None, seconds: float = 0.0) -> Check:
        return Check(self.host, device, self.test, name, SKIPPED, reason, evidence, seconds, self.kind)


def check_dict(raw: Mapping[str, object], position: Optional[int] = None) -> dict[str, object]:
    """A check as the report holds it; a check that lacks something says so, since a silent gap would look like success."""
    where = "a check" if position is None else f"checks[{position}]"
    if not isinstance(raw, Mapping):
        raise FleetError(
            f"{where} is {raw!r}; a check is a dictionary with host, device or claim, test, name, status and reason"
        )
    status = raw.get("status")
    if status not in STATUSES:
        raise FleetError(f"{where} has status {status!r}; it must be one of {', '.join(STATUSES)}")
    subject = "claim" if "claim" in raw and "device" not in raw else "device"
    for key in ("host", subject, "test", "name"):
        if not isinstance(raw.get(key), str) or not raw.get(key):
            raise FleetError(f"{where} has {key} {raw.get(key)!r}; it must be a text that is not empty")
    seconds = raw.get("seconds") or 0.0
    return {
        "host": raw["host"],
        subject: raw[subject],
        "test": raw["test"],
        "name": raw["name"],
        "status": status,
        "reason": str(raw.get("reason") or ""),
        "evidence": raw.get("evidence"),
        "seconds": round(float(seconds), 3) if isinstance(seconds, (int, float)) else 0.0,
    }


def summarise(checks: Iterable[Mapping[str, object]]) -> dict[str, int]:
    """How many passed, failed and were skipped."""
    counts = dict.fromkeys(STATUSES, 0)
    for check in checks:
        counts[str(check["status"])] += 1
    return counts
