# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a cluster: one list a kind, shared by everybody who waits for something. Private to the collection."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import (
    Object,
    PoolKey,
    View,
    pool_key,
    result_key,
    results_of,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import POD, resource_kind
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import as_v1

# Slices are large.
PAGE = 200
# The slices of this many nodes are asked for one by one; of more, all are listed.
_FEW_NODES = 3


@dataclass(frozen=True)
class Seen:
    """What one look saw, and when it began."""

    at_s: float
    pods: list[Object]
    claims: list[Object]
    classes: list[Object]


class Observer:
    """Safe to use from many threads: when several want a look at once, there is one."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        version: str,
        namespace: Optional[str] = None,
        pod_labels: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kubernetes = kubernetes
        self.version = version
        self.namespace = namespace
        self.pod_labels = pod_labels
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: Optional[Seen] = None

    def look(self, since_s: Optional[float] = None) -> Seen:
        """What is there now, from lists that began after `since_s` (unset: after this call)."""
        wanted = self._clock() if since_s is None else since_s
        with self._lock:
            if self._seen is None or self._seen.at_s < wanted:
                self._seen = self._list()
            return self._seen

    def _list(self) -> Seen:
        at_s = self._clock()
        kubernetes = self.kubernetes
        # Claims before pods: a pod that a claim is reserved for is then there, unless it is gone.
        claims: list[Object] = list(kubernetes.list(resource_kind("ResourceClaim", self.version)))
        pods: list[Object] = list(kubernetes.list(POD, self.namespace, labels=self.pod_labels))
        classes: list[Object] = list(kubernetes.list(resource_kind("DeviceClass", self.version)))
        return Seen(at_s, pods, claims, classes)

    def all_slices(self) -> Iterable[dict[str, Any]]:
        """Every slice, one at a time."""
        for slice_ in self.kubernetes.list(resource_kind("ResourceSlice", self.version), limit=PAGE):
            yield as_v1(slice_)

    def slices_of_nodes(self, nodes: Iterable[str]) -> list[Object]:
        """The slices of some nodes."""
        wanted = sorted(set(nodes))
        if len(wanted) > _FEW_NODES:
            return [slice_ for slice_ in self.all_slices() if slice_["spec"].get("nodeName") in set(wanted)]
        kind = resource_kind("ResourceSlice", self.version)
        return [
            as_v1(slice_)
            for node in wanted
            for slice_ in self.kubernetes.list(kind, fields=f"spec.nodeName={node}", limit=PAGE)
        ]

    def view(self, seen: Seen, scope: Callable[[Object], bool], nodes: Iterable[str], everything: bool = False) -> View:
        """What was seen together with the slices that matter: those of `nodes`, and of the pools that claims in scope refer to."""
        if everything:
            return View(list(self.all_slices()), seen.claims, seen.pods, seen.classes)
        slices = self.slices_of_nodes(nodes)
        there = {pool_key(slice_) for slice_ in slices}
        missing = {
            result_key(result)[:2] for claim in seen.claims if scope(claim) for result in results_of(claim)
        } - there
        return View(slices + self._of_pools(missing), seen.claims, seen.pods, seen.classes)

    def _of_pools(self, pools: set[PoolKey]) -> list[Object]:
        kind = resource_kind("ResourceSlice", self.version)
        return [
            as_v1(slice_)
            for driver in sorted({driver for driver, _name in pools})
            for slice_ in self.kubernetes.list(kind, fields=f"spec.driver={driver}", limit=PAGE)
            if pool_key(slice_) in pools
        ]
