# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slice that was read in full, reduced to what plans are made from, and the metadata that a slice of ours has. Private to the collection."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.content import Slice, content_digest
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import (
    SET_LABEL,
    STATE_ANNOTATION,
    Head,
    State,
    head_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.pools import Present, Wanted


class Seen(NamedTuple):
    """A slice of ours; without its devices, which may be many."""

    head: Head
    content: str
    generation: int
    spec_keys: frozenset[str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node: str
    # Only kept to show a difference.
    spec: Optional[Mapping[str, Any]]


def see(obj: Mapping[str, Any], canonical: Slice, keep_spec: bool) -> Seen:
    """What there is to know of a slice; `canonical` is the same slice in the form in which slices are compared."""
    metadata = obj["metadata"]
    spec = obj.get("spec") or {}
    return Seen(
        head=head_of(obj),
        content=content_digest(canonical),
        generation=int((spec.get("pool") or {}).get("generation") or 0),
        spec_keys=frozenset(spec),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        node=str(spec.get("nodeName") or ""),
        spec=canonical["spec"] if keep_spec else None,
    )


def metadata_of(slice_: Slice, set_name: str, state: Optional[State] = None) -> dict[str, Any]:
    """The metadata that a slice of ours should have, beside its name."""
    given = slice_.get("metadata") or {}
    metadata: dict[str, Any] = {
        "labels": {**(given.get("labels") or {}), SET_LABEL: set_name},
        "annotations": dict(given.get("annotations") or {}),
    }
    if state is not None:
        metadata["annotations"][STATE_ANNOTATION] = state.dump()
    for field_name in ("ownerReferences", "generateName"):
        if given.get(field_name):
            metadata[field_name] = given[field_name]
    return metadata


def present(
    seen: Seen, slices: Sequence[Slice], wanted: Sequence[Wanted], set_name: str, noted: Sequence[str]
) -> Present:
    """The slice as the plan sees it; `noted` has the digest that the annotation of each wanted slice should have."""
    state = seen.head.state
    base = state.base if state is not None else seen.head.name
    match = next((at for at, want in enumerate(wanted) if want.content == seen.content), None)
    tidy = match is None or _tidy(seen, metadata_of(slices[match], set_name), len(slices), noted[match])
    return Present(seen.head.name, base, seen.content, seen.generation, tidy, seen.node)


def _tidy(seen: Seen, metadata: Mapping[str, Any], slices: int, noted: str) -> bool:
    state, owners = seen.head.state, metadata.get("ownerReferences")
    node_uid = next((owner["uid"] for owner in owners or () if owner.get("kind") == "Node"), "")
    return (
        state is not None
        and state.digest == noted
        and state.slices == slices
        and holds(seen.labels, metadata["labels"])
        and holds(seen.annotations, metadata["annotations"])
        and (owners is None or seen.head.node_uid == node_uid)
    )


def holds(there: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether all of these are there; others may be as well."""
    return all(there.get(key) == value for key, value in wanted.items())
