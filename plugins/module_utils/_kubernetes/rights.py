# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether RBAC lets us do all of a plan, asked before any of it is done. Private to the collection."""

from __future__ import annotations

from typing import Iterable

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import Forbidden
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import Kind


def require_rights(kubernetes: Kubernetes, needed: Iterable[tuple[str, Kind, str]]) -> None:
    """Refuse when a (verb, kind, subresource) is not allowed, with all that are missing in one message."""
    missing = []
    seen: set[tuple[str, str]] = set()
    for verb, kind, subresource in needed:
        resource = f"{kind.resource}/{subresource}" if subresource else kind.resource
        if (verb, resource) not in seen:
            seen.add((verb, resource))
            if not kubernetes.may(verb, kind, subresource=subresource):
                missing.append((verb, resource))
    if missing:
        verb, resource = missing[0]
        words = ", ".join(f"{verb} {resource}" for verb, resource in missing)
        raise Forbidden(
            f"user {kubernetes.user!r} may not {words}: RBAC does not allow it; give the user a ClusterRole with these verbs, or"
            " choose another user; nothing was changed",
            status=403,
            reason="Forbidden",
            verb=verb,
            resource=resource,
            user=kubernetes.user,
            missing=[f"{verb} {resource}" for verb, resource in missing],
        )
