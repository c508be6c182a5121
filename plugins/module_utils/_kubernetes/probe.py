# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an API server takes slices of some kind and keeps all of their fields. Private to the collection."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.content import (
    Canonical,
    Slice,
    missing_fields,
    shape,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ApiError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import Kind

# metadata.name has 253 characters.
_NAME_LENGTH = 240


def probe(
    kubernetes: Kubernetes, kind: Kind, slices: Iterable[Slice], canonical: Canonical, export: Canonical
) -> dict[str, str]:
    """The fields that the server drops, each with a slice that has it, found by a dry run for each shape of slices.

    A slice that the server refuses is an ApiError.
    """
    shapes: dict[frozenset[str], Slice] = {}
    for slice_ in slices:
        shapes.setdefault(shape(slice_.get("spec") or {}), slice_)
    dropped: dict[str, str] = {}
    dry_run, kubernetes.dry_run = kubernetes.dry_run, True
    try:
        for slice_ in shapes.values():
            name = str(slice_["metadata"]["name"])
            body = export({**slice_, "metadata": {"name": f"{name[:_NAME_LENGTH]}-probe"}})
            try:
                answer = kubernetes.create(kind, body)
            except ApiError as error:
                if not error.fatal:
                    said = error.details.get("server_message", error.message)
                    error.message = f"the API server refuses the slice {name}: {said}; nothing was written"
                raise
            for path in lost_fields(body, answer, canonical):
                dropped.setdefault(path, name)
    finally:
        kubernetes.dry_run = dry_run
    return dropped


def lost_fields(sent: Slice, received: Mapping[str, Any], canonical: Canonical) -> list[str]:
    """The fields of what was sent that did not come back."""
    if received.get("spec") == sent["spec"]:
        return []
    ours, theirs = canonical(sent), canonical({**received, "apiVersion": sent["apiVersion"]})
    return sorted(set(missing_fields(ours["spec"], theirs.get("spec"))))
