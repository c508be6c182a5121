# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a few cluster-wide objects, such as DeviceClasses, to their description, and leaves those of others alone. Private to the collection."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import Kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import SET_LABEL

# What became of an object.
CREATED, UPDATED, DELETED, UNCHANGED, FOREIGN = "created", "updated", "deleted", "unchanged", "foreign"


@dataclass
class Settled:
    """What was done with each object, in order, and what others have that we would have otherwise."""

    results: list[dict[str, Any]] = field(default_factory=list)
    diffs: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return any(result["changed"] for result in self.results)

    def note(self, kind: Kind, name: str, action: str, before: object = None, after: object = None) -> None:
        changed = action in (CREATED, UPDATED, DELETED)
        self.results.append({"kind": kind.kind, "name": name, "action": action, "changed": changed})
        if changed:
            header = f"{kind.kind} {name}"
            self.diffs.append(
                {"before_header": header, "after_header": header, "before": before or {}, "after": after or {}}
            )


def settle(kubernetes: Kubernetes, kind: Kind, wanted: Sequence[Mapping[str, Any]], mark: str) -> Settled:
    """Make each object what it should be. What others have made stays theirs; where it differs, that is said."""
    done = Settled()
    existing = {str(obj["metadata"]["name"]): obj for obj in kubernetes.list(kind)}
    for obj in wanted:
        name = str(obj["metadata"]["name"])
        there = existing.get(name)
        ours = _marked(obj, mark)
        if there is None:
            made = kubernetes.create(kind, ours)
            _note_dropped(done, kind, ours, made)
            done.note(kind, name, CREATED, after=made.get("spec"))
        elif _owner(there) != mark:
            if not _covers(there.get("spec"), obj.get("spec")):
                done.warnings.append(
                    f"{kind.kind} {name} was not made by this collection and is not as it would be; it stays as it is"
                )
            done.note(kind, name, FOREIGN)
        elif there.get("spec") == obj.get("spec"):
            done.note(kind, name, UNCHANGED)
        else:
            _update(kubernetes, kind, name, there, ours, done)
    return done


def remove(kubernetes: Kubernetes, kind: Kind, names: Optional[Sequence[str]], mark: str) -> Settled:
    """Delete the named ones that are ours, or all that are."""
    done = Settled()
    for obj in list(kubernetes.list(kind, labels=f"{SET_LABEL}={mark}")):
        name = str(obj["metadata"]["name"])
        if names is None or name in names:
            kubernetes.delete(kind, name, uid=obj["metadata"].get("uid"))
            done.note(kind, name, DELETED, before=obj.get("spec"))
    return done


def _update(
    kubernetes: Kubernetes, kind: Kind, name: str, there: Mapping[str, Any], ours: Mapping[str, Any], done: Settled
) -> None:
    changed = {**there, "metadata": {**there["metadata"]}, "spec": ours["spec"]}
    changed.update({key: ours[key] for key in ("apiVersion", "kind")})
    # A server that lacks a feature drops its field each time: only it can tell whether there is anything to change.
    with _trial(kubernetes):
        would_be = kubernetes.update(kind, changed)
    _note_dropped(done, kind, ours, would_be)
    if would_be.get("spec") == there.get("spec"):
        done.note(kind, name, UNCHANGED)
        return
    if not kubernetes.dry_run:
        kubernetes.update(kind, changed)
    done.note(kind, name, UPDATED, there.get("spec"), would_be.get("spec"))


@contextmanager
def _trial(kubernetes: Kubernetes) -> Iterator[None]:
    before = kubernetes.dry_run
    kubernetes.dry_run = True
    try:
        yield
    finally:
        kubernetes.dry_run = before


def _marked(obj: Mapping[str, Any], mark: str) -> dict[str, Any]:
    metadata = dict(obj["metadata"])
    metadata["labels"] = {**(metadata.get("labels") or {}), SET_LABEL: mark}
    return {**obj, "metadata": metadata}


def _owner(obj: Mapping[str, Any]) -> str:
    return str((obj["metadata"].get("labels") or {}).get(SET_LABEL, ""))


def _covers(theirs: Any, ours: Any) -> bool:
    """Whether each field that we would set has our value."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        return all(_covers(theirs.get(key), value) for key, value in ours.items())
    return bool(theirs == ours)


def _note_dropped(done: Settled, kind: Kind, sent: Mapping[str, Any], came: Mapping[str, Any]) -> None:
    for name in sent.get("spec") or {}:
        if name not in (came.get("spec") or {}):
            done.warnings.append(
                f"the API server has dropped spec.{name} of {kind.kind} {sent['metadata']['name']}; the feature gate behind it is off"
            )
