# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How we know our own objects again. Private to the collection.

An object is ours when it has the label `gpulab.fleet/set`; its value is the set that it belongs to, and nothing of another set is
touched. A slice also carries an annotation with its pool and a digest of what it should hold. The digest is believed only while the
server's own records (metadata.generation, metadata.managedFields) say that nobody else has changed the slice since we wrote it, so a
list of metadata is enough to see that nothing is to be done.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Mapping, NamedTuple, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import FIELD_MANAGER

SET_LABEL = "gpulab.fleet/set"
STATE_ANNOTATION = "gpulab.fleet/state"

_NO_LABELS: Mapping[str, str] = {}
_SET = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class State(NamedTuple):
    """What we noted on a slice when we wrote it."""

    driver: str
    pool: str
    # The name that the slice has when no other generation of it is there.
    base: str
    digest: str
    # How many slices the pool had, and the metadata.generation that our write made.
    slices: int
    generation: int
    node: str = ""

    def dump(self) -> str:
        return json.dumps(self._asdict(), separators=(",", ":"), sort_keys=True)


class Head(NamedTuple):
    """What metadata tells of a slice."""

    name: str
    uid: str
    resource_version: str
    generation: int
    owned_by: Optional[str]
    state: Optional[State]
    # Nobody but us has ever written a field of its spec that is still there.
    sole: bool
    node: str
    node_uid: str
    deleting: bool
    # Labels beside our own.
    labels: Mapping[str, str] = _NO_LABELS

    def trusted(self, digest: str) -> bool:
        """Whether it certainly holds what the digest stands for."""
        return (
            self.state is not None
            and self.state.digest == digest
            and self.state.generation == self.generation
            and self.sole
            and not self.deleting
        )


def check_set(name: str, option: str = "set") -> str:
    """The name of a set, which has to be the value of a label."""
    if not _SET.fullmatch(name):
        raise FleetError(
            f"{option} is {name!r}; a set's name is the value of a label: at most 63 letters, digits, '.', '_' and '-',"
            " beginning and ending with a letter or digit",
            option=option,
            value=name,
        )
    return name


def head_of(obj: Mapping[str, Any]) -> Head:
    """The head of a slice, from the slice or from its metadata alone."""
    metadata = obj["metadata"]
    owners = metadata.get("ownerReferences") or ()
    labels = metadata.get("labels") or {}
    others = {key: value for key, value in labels.items() if key != SET_LABEL}
    node: Mapping[str, Any] = next((owner for owner in owners if owner.get("kind") == "Node"), {})
    return Head(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=int(metadata.get("generation") or 0),
        owned_by=labels.get(SET_LABEL),
        state=_read_state((metadata.get("annotations") or {}).get(STATE_ANNOTATION)),
        sole=_sole(metadata.get("managedFields") or ()),
        node=str(node.get("name", "")),
        node_uid=str(node.get("uid", "")),
        deleting=metadata.get("deletionTimestamp") is not None,
        labels=others or _NO_LABELS,
    )


def clean_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What of metadata may be given to another object: not our marks, and nothing that a cluster put there.

    An owner goes as well: one that the cluster does not have would have the object collected as garbage.
    """
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != SET_LABEL}
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key not in (STATE_ANNOTATION, "kubectl.kubernetes.io/last-applied-configuration")
    }
    kept = {key: metadata[key] for key in ("name", "generateName") if metadata.get(key)}
    if labels:
        kept["labels"] = labels
    if annotations:
        kept["annotations"] = annotations
    return kept


def _read_state(text: object) -> Optional[State]:
    """The annotation; None when it is missing, damaged or from another release of the collection."""
    if not isinstance(text, str):
        return None
    try:
        data = json.loads(text)
        state = State(**data)
        return state if isinstance(state.slices, int) and isinstance(state.generation, int) else None
    except (ValueError, TypeError):
        return None


def _sole(entries: Any) -> bool:
    writers = {entry.get("manager") for entry in entries if "f:spec" in (entry.get("fieldsV1") or {})}
    return writers == {FIELD_MANAGER}


def digest(*parts: object) -> str:
    """A short digest of anything that JSON can hold."""
    text = json.dumps(parts, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
