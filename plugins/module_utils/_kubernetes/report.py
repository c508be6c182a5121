# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module tells of many objects: counts of all, names and reasons of as many as a person reads. Private to the collection."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

_ACTIONS = {"create": "created", "update": "updated", "touch": "updated", "delete": "deleted"}
COUNTS = ("created", "updated", "deleted", "unchanged", "failed")
_KINDS = {"Node": "nodes", "ResourceSlice": "slices"}
# A diff is for reading.
DIFFS_SHOWN = 50


class Done(NamedTuple):
    """One write that the server has accepted."""

    action: str
    kind: str
    name: str
    reason: str = ""
    change: Optional[tuple[Any, Any]] = None


class Report:
    """Collects results, in one thread."""

    def __init__(self, kinds: tuple[str, ...], limit: int) -> None:
        self.limit = limit
        self.counts: dict[str, dict[str, int]] = {_KINDS[kind]: dict.fromkeys(COUNTS, 0) for kind in kinds}
        self._results: list[dict[str, Any]] = []
        self._failures: list[dict[str, Any]] = []
        self._diffs: list[Done] = []
        self.left_out = 0
        self.first_failure = ""

    def done(self, entry: Done) -> None:
        word = _ACTIONS[entry.action]
        self.counts[_KINDS[entry.kind]][word] += 1
        self._keep(
            self._results,
            {"kind": entry.kind, "name": entry.name, "action": word, "changed": True, "reason": entry.reason},
        )
        if len(self._diffs) < DIFFS_SHOWN:
            self._diffs.append(entry)

    def unchanged(self, kind: str, number: int) -> None:
        self.counts[_KINDS[kind]]["unchanged"] += number

    def failed(self, kind: str, name: str, error: FleetError) -> None:
        self.counts[_KINDS[kind]]["failed"] += 1
        if not self.first_failure:
            self.first_failure = f"{kind} {name}: {error.message}"
        entry = {"kind": kind, "name": name, "action": "failed", "changed": False, "failed": True, "msg": error.message}
        entry.update(
            {key: error.details[key] for key in ("verb", "resource", "reason", "status") if error.details.get(key)}
        )
        self._keep(self._failures, entry)

    def _keep(self, where: list[dict[str, Any]], entry: dict[str, Any]) -> None:
        if len(where) < self.limit:
            where.append(entry)
        else:
            self.left_out += 1

    @property
    def failures(self) -> int:
        return sum(counts["failed"] for counts in self.counts.values())

    @property
    def changed(self) -> bool:
        return any(counts[word] for counts in self.counts.values() for word in ("created", "updated", "deleted"))

    def results(self) -> dict[str, Any]:
        """Failures first."""
        shown = (self._failures + self._results)[: self.limit]
        omitted = self.left_out + len(self._failures) + len(self._results) - len(shown)
        return {"summary": self.counts, "results": shown, "results_omitted": omitted}

    def diff(self) -> dict[str, Any]:
        """Before and after of the objects that changed."""
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        for entry in self._diffs:
            name = f"{entry.kind} {entry.name}"
            one, other = entry.change if entry.change is not None else (None, None)
            word = _ACTIONS[entry.action]
            before[name] = one if one is not None else ("absent" if word == "created" else "present")
            after[name] = other if other is not None else ("absent" if word == "deleted" else word)
        total = sum(counts[word] for counts in self.counts.values() for word in ("created", "updated", "deleted"))
        if total > len(self._diffs):
            before["…"] = after["…"] = f"{total - len(self._diffs)} more objects are not shown"
            after["…"] += " (changed)"
        return {"before": before, "after": after}

    def line(self) -> str:
        """One line for the person who waits."""
        parts = []
        for kind, counts in self.counts.items():
            said = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
            parts.append(f"{kind}: {said or 'none'}")
        return "; ".join(parts)


def describe_change(
    before: Optional[Mapping[str, Any]], after: Optional[Mapping[str, Any]]
) -> Optional[tuple[Any, Any]]:
    """The parts of two canonical specs that differ; devices by their names."""
    if after is None:
        return None
    if before is None:
        pool = after.get("pool") or {}
        devices = [device.get("name") for device in after.get("devices") or ()]
        return None, {
            "driver": after.get("driver"),
            "pool": pool.get("name"),
            "node": after.get("nodeName"),
            "devices": devices,
        }
    one, other = _parts(before), _parts(after)
    keys = sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
    return {key: one.get(key) for key in keys}, {key: other.get(key) for key in keys}


def _parts(spec: Mapping[str, Any]) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for key, value in spec.items():
        if key in ("devices", "sharedCounters"):
            parts.update({f"{key}.{item.get('name')}": item for item in value})
        elif key == "pool":
            parts["pool"] = {name: item for name, item in value.items() if name != "generation"}
        else:
            parts[key] = value
    return parts
