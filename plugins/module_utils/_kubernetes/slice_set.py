# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A set of ResourceSlices that is given as such: publish its pools, and take away what is not wanted any more. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.content import Slice, by_pool
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.inventory import (
    Inventory,
    PoolKey,
    take_inventory,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import NODE
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import Head, digest
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.publish import Group, Publisher
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.rights import require_rights
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.set_run import Job, SetRun


@dataclass(frozen=True)
class Selection:
    """Some of a set's slices; what is None or empty selects all."""

    driver: Optional[str] = None
    pool: Optional[str] = None
    node: Optional[str] = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def matches(self, head: Head) -> bool:
        """Whether a slice of ours is selected."""
        state = head.state
        if state is None:
            return False
        wanted = ((self.driver, state.driver), (self.pool, state.pool), (self.node, state.node))
        return all(value is None or value == actual for value, actual in wanted) and all(
            head.labels.get(key) == value for key, value in self.labels.items()
        )


@dataclass(frozen=True)
class SliceSetSpec:
    """The slices that should be there, in the form of resource.k8s.io/v1, and what becomes of others of the set."""

    set_name: str
    slices: Sequence[Slice]
    # Those among them that show all fields that are used, for the API server to judge before anything is written.
    samples: Sequence[Slice] = ()
    # Pools of the set that are selected and not wanted go; None keeps them.
    prune: Optional[Selection] = None
    # These pools go.
    remove: frozenset[PoolKey] = frozenset()
    owned_by_node: bool = True
    continue_on_error: bool = True
    tolerate_dropped: bool = False


class SliceSet(SetRun):
    """One run for one set."""

    def __init__(self, job: Job, spec: SliceSetSpec) -> None:
        super().__init__(job, spec.continue_on_error)
        self.spec = spec

    def run(self) -> None:
        """Bring the set to its specification; what was done is in the report, whatever happens."""
        inventory = take_inventory(self.kubernetes, self.kind, self.spec.set_name)
        publisher = self.publisher(inventory)
        pools = by_pool(self.spec.slices)
        owners = self._owners()
        groups = [self._group(key, slices, owners) for key, slices in pools.items()]
        unsettled = [group for group in groups if not publisher.settled(group)]
        leaving = self._leaving(inventory, set(pools))
        self._check_first(inventory, publisher, unsettled, leaving)
        publisher.read_ahead(unsettled)
        waiting = {group.key for group in unsettled}
        for group in groups:
            if group.key not in waiting:
                self.report.unchanged("ResourceSlice", sum(len(inventory.ours.get(key, ())) for key in group.pools))
        self.runner.groups("pools", unsettled, publisher.publish, len(unsettled))
        self.runner.groups("pools that go", leaving, publisher.remove, len(leaving))

    def _owners(self) -> dict[str, str]:
        """The uids of the nodes that slices belong to."""
        if not self.spec.owned_by_node or not any(slice_["spec"].get("nodeName") for slice_ in self.spec.slices):
            return {}
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in self.kubernetes.list_metadata(NODE)}

    def _group(self, key: PoolKey, slices: Sequence[Slice], owners: Mapping[str, str]) -> Group:
        node = str(slices[0]["spec"].get("nodeName") or "")
        uid = owners.get(node, "")
        if uid:
            owner = {"apiVersion": "v1", "controller": True, "kind": "Node", "name": node, "uid": uid}
            slices = [{**slice_, "metadata": {**slice_["metadata"], "ownerReferences": [owner]}} for slice_ in slices]
        labels = {str(slice_["metadata"]["name"]): slice_["metadata"].get("labels") or {} for slice_ in slices}
        return Group(
            key=" ".join(key),
            pools=(key,),
            digests=_digests(slices),
            render=_always(slices),
            node_uid=uid,
            labels=labels,
        )

    def _leaving(self, inventory: Inventory, wanted: set[PoolKey]) -> list[PoolKey]:
        leaving = {key for key in self.spec.remove if key in inventory.ours}
        if self.spec.prune is not None:
            selection = self.spec.prune
            leaving.update(
                key
                for key, heads in inventory.ours.items()
                if key not in wanted and any(selection.matches(head) for head in heads)
            )
        return sorted(leaving)

    def _check_first(
        self,
        inventory: Inventory,
        publisher: Publisher,
        unsettled: Sequence[Group],
        leaving: Sequence[PoolKey],
    ) -> None:
        """What would fail half-way is refused before anything is written."""
        needed = []
        if unsettled:
            needed.append(("create", self.kind, ""))
            if inventory.ours:
                needed += [("get", self.kind, ""), ("patch", self.kind, ""), ("delete", self.kind, "")]
        if leaving:
            needed.append(("delete", self.kind, ""))
        require_rights(self.kubernetes, needed)
        if unsettled:
            keys = [key for group in unsettled for key in group.pools]
            self.check_slices(publisher, keys, self.spec.samples, self.spec.tolerate_dropped)


def _digests(slices: Sequence[Slice]) -> Callable[[PoolKey], Sequence[str]]:
    known: list[str] = []

    def digests(_key: PoolKey) -> Sequence[str]:
        if not known:
            known.extend(digest(slice_["metadata"], slice_["spec"]) for slice_ in slices)
        return known

    return digests


def _always(slices: Sequence[Slice]) -> Callable[[], Sequence[Slice]]:
    return lambda: slices
