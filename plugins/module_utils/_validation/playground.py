# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The namespace and the objects of one scenario: made, deleted, cleaned up whatever happens. Private to the collection."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline, poll
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    POD,
    REPLICA_SET,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Kind,
    kind_of,
    resource_kind,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.dress import RUN_LABEL

UNTIL_ANNOTATION = "gpulab.fleet/validation-until"
INTERVAL_S = 0.5
_ACCOUNT_S = 30.0
_OWNERS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB)
_SHORT = {kind.kind: kind for kind in (*_OWNERS, POD)}


class Playground:
    """What one scenario makes in a cluster."""

    def __init__(self, kubernetes: Kubernetes, version: str, namespace: str, run: str) -> None:
        self.kubernetes = kubernetes
        self.version = version
        self.namespace = namespace
        self.run = run
        self._made: list[tuple[Kind, str, str]] = []
        self._owners: set[Kind] = set()

    def open(self, until: float) -> None:
        """Make the namespace. `until` is the time of the calendar after which anybody may remove it."""
        metadata = {
            "name": self.namespace,
            "labels": {RUN_LABEL: self.run},
            "annotations": {UNTIL_ANNOTATION: str(int(until))},
        }
        self.kubernetes.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def wait_open(self) -> None:
        """Pods are refused until the controller manager has made the account that they run as."""
        poll(
            Deadline(_ACCOUNT_S),
            lambda: self.kubernetes.get(SERVICE_ACCOUNT, "default", self.namespace),
            INTERVAL_S,
            f"the service account of namespace {self.namespace}, which kube-controller-manager makes",
        )

    def create(self, obj: Mapping[str, Any]) -> None:
        kind = kind_of(obj)
        made = self.kubernetes.create(kind, obj, self.namespace if kind.namespaced else None)
        if not kind.namespaced:
            self._made.append((kind, str(made["metadata"]["name"]), str(made["metadata"].get("uid") or "")))
        elif kind in _OWNERS:
            self._owners.add(kind)

    def delete(self, kind_name: str, name: str, deadline: Deadline) -> None:
        """Delete one object and wait until it is gone."""
        kind = self._kind(kind_name)
        namespace = self.namespace if kind.namespaced else None
        grace_s = 0 if kind == POD else None
        if not self.kubernetes.delete(kind, name, namespace, grace_s=grace_s, propagation="Background"):
            raise FleetError(f"cannot delete {kind_name} {name}: there is none")
        poll(
            deadline,
            lambda: True if self.kubernetes.get(kind, name, namespace) is None else None,
            INTERVAL_S,
            f"the end of {kind_name} {name}, which was deleted",
        )

    def _kind(self, name: str) -> Kind:
        return _SHORT.get(name) or resource_kind(name, self.version)

    def clear(self) -> list[str]:
        """Delete everything; what could not be deleted. The namespace goes in its own time."""
        problems: list[str] = []
        for kind in (*(one for one in _OWNERS if one in self._owners), POD):
            problems += self._all(kind)
        problems += self._all(resource_kind("ResourceClaim", self.version))
        for kind, name, uid in reversed(self._made):
            problems += _tried(lambda k=kind, n=name, u=uid: self.kubernetes.delete(k, n, uid=u or None))  # type: ignore[misc]
        problems += _tried(lambda: self.kubernetes.delete(NAMESPACE, self.namespace))
        return problems

    def _all(self, kind: Kind) -> list[str]:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
        }
        return _tried(lambda: self.kubernetes.raw("DELETE", kind.path(self.namespace), options))


def _tried(work: Callable[[], object]) -> list[str]:
    try:
        work()
    except NotFound:
        return []
    except Conflict:
        # Somebody made another object of that name.
        return []
    except ApiError as error:
        return [error.message]
    return []


def sweep(kubernetes: Kubernetes, now: Callable[[], float] = time.time) -> list[str]:
    """Remove the namespaces of runs that were killed, once their time is over; their names."""
    removed = []
    try:
        for namespace in list(kubernetes.list_metadata(NAMESPACE, labels=RUN_LABEL)):
            metadata = namespace["metadata"]
            until = str((metadata.get("annotations") or {}).get(UNTIL_ANNOTATION) or "")
            if until.isdigit() and int(until) < now() and not metadata.get("deletionTimestamp"):
                playground = Playground(kubernetes, kubernetes.dra_version(), str(metadata["name"]), "")
                playground._owners.update(_OWNERS)
                playground.clear()
                removed.append(str(metadata["name"]))
    except Forbidden:
        # Who may not list namespaces leaves those of others alone.
        return removed
    return removed


def wait_gone(kubernetes: Kubernetes, run: str, deadline: Deadline) -> list[str]:
    """Wait until the namespaces of a run are gone; those that are not when the time is up."""
    while True:
        left = [
            str(one["metadata"]["name"]) for one in kubernetes.list_metadata(NAMESPACE, labels=f"{RUN_LABEL}={run}")
        ]
        if not left or deadline.expired():
            return left
        time.sleep(min(1.0, max(0.05, deadline.remaining_s())))
