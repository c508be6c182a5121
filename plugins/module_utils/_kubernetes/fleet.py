# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A set of fake nodes with their slices: one list a kind, a plan, bounded writes, one wait. Private to the collection.

Nodes come before their slices, whose owner they are; slices go before their nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterable, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.content import Slice
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import Conflict
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.inventory import (
    Inventory,
    PoolKey,
    take_inventory,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import NODE
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import SET_LABEL
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.nodes import (
    NodeSeen,
    NodeTemplate,
    condition,
    is_ready,
    new_node,
    see_node,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.publish import Group, Publisher
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.report import Done
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.rights import require_rights
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.set_run import Job, SetRun
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.wait import wait_for

# Stands for the name of any node; renderings of it show what is the same on all of them.
PLACEHOLDER = "gpulab-fleet-any-node"

_NAMES_SHOWN = 5
_PATCH_ATTEMPTS = 3


@dataclass(frozen=True)
class FleetSpec:
    """The nodes that a set should consist of; none means that it is to go."""

    template: NodeTemplate
    names: tuple[str, ...]
    # Every slice of a node, given its name and uid, in the form of resource.k8s.io/v1 with canonical values.
    render: Callable[[str, str], Sequence[Slice]]
    # The driver of each pool of a node, its name with PLACEHOLDER for the node's, and a digest of each of its slices.
    pools: tuple[tuple[str, str, tuple[str, ...]], ...]
    # The slices of some node, for the API server to judge before anything is written.
    sample: Sequence[Slice]
    # Only these go, and the rest of the set stays; None is the whole set.
    remove: Optional[frozenset[str]] = None
    keep_others: bool = False
    wait: bool = True
    continue_on_error: bool = True
    tolerate_dropped: bool = False


@dataclass
class _Nodes:
    """The cluster's nodes as the set sees them."""

    ours: dict[str, NodeSeen] = field(default_factory=dict)
    strangers: dict[str, Optional[str]] = field(default_factory=dict)


class Fleet(SetRun):
    """One run for one set."""

    def __init__(self, job: Job, spec: FleetSpec) -> None:
        super().__init__(job, spec.continue_on_error)
        self.spec = spec

    def run(self) -> None:
        """Bring the set to its specification; what was done is in the report, whatever happens."""
        nodes = self._read_nodes()
        inventory = take_inventory(self.kubernetes, self.kind, self.spec.template.set_name)
        self._refuse_strangers(nodes)
        publisher = self.publisher(inventory)
        leaving = self._leaving(nodes)
        uids = {name: node.uid for name, node in nodes.ours.items()}
        groups = {name: self._group(name, uids.get(name, "")) for name in self.spec.names}
        unsettled = [name for name, group in groups.items() if name not in uids or not publisher.settled(group)]
        to_create = [name for name in self.spec.names if name not in nodes.ours]
        to_patch = [
            nodes.ours[name]
            for name in self.spec.names
            if name in nodes.ours and (nodes.ours[name].patch or nodes.ours[name].status_patch)
        ]
        orphans = self._orphans(inventory, leaving)
        self._check_first(nodes, inventory, publisher, to_create, to_patch, leaving, orphans, unsettled)
        publisher.read_ahead(groups[name] for name in unsettled if name in uids)

        self.report.unchanged("Node", len(self.spec.names) - len(to_create) - len(to_patch))
        made = self.runner.each("Node", f"nodes of {self.spec.template.set_name}", to_create, str, self._create_node)
        uids.update(made)
        self.runner.each("Node", "nodes that differ", to_patch, lambda node: node.name, self._patch_node)
        missing = set(to_create) - set(made)
        self._publish(publisher, [name for name in unsettled if name not in missing], uids, groups)
        self._remove(publisher, nodes, leaving, orphans)
        if self.spec.wait and not self.kubernetes.dry_run and not self.report.failures:
            self._wait()

    # Looking

    def _read_nodes(self) -> _Nodes:
        nodes = _Nodes()
        for item in self.kubernetes.list(NODE):
            seen = see_node(self.spec.template, item)
            if seen.set_name == self.spec.template.set_name:
                nodes.ours[seen.name] = seen
            else:
                nodes.strangers[seen.name] = seen.set_name
        return nodes

    def _refuse_strangers(self, nodes: _Nodes) -> None:
        clashes = [name for name in self.spec.names if name in nodes.strangers]
        if clashes:
            shown = ", ".join(
                f"{name} (set {nodes.strangers[name]})" if nodes.strangers[name] else name
                for name in clashes[:_NAMES_SHOWN]
            )
            more = f" and {len(clashes) - _NAMES_SHOWN} more" if len(clashes) > _NAMES_SHOWN else ""
            raise FleetError(
                f"the cluster has nodes of these names that are not of the set {self.spec.template.set_name!r}: {shown}{more};"
                " they are left alone: choose other names, or the set that they belong to",
                nodes=clashes[:100],
            )
        going = [name for name in self.spec.names if name in nodes.ours and nodes.ours[name].deleting]
        if going:
            raise FleetError(
                f"{len(going)} nodes are being deleted and not gone yet ({', '.join(going[:_NAMES_SHOWN])}); what holds them is in"
                " their metadata.finalizers; run again when they are gone",
                nodes=going[:100],
            )

    def _leaving(self, nodes: _Nodes) -> list[NodeSeen]:
        """Nodes of the set that are to go."""
        if self.spec.keep_others and self.spec.remove is None:
            return []
        wanted = set(self.spec.names)
        return [
            node
            for name, node in sorted(nodes.ours.items())
            if name not in wanted and (self.spec.remove is None or name in self.spec.remove) and not node.deleting
        ]

    def _orphans(self, inventory: Inventory, leaving: Sequence[NodeSeen]) -> list[PoolKey]:
        """Pools of ours whose node goes or is gone already, and pools of drivers that nodes no longer have."""
        going = {node.name for node in leaving}
        wanted = set(self.spec.names)
        expected = {key for name in wanted for key in self._pools(name)}
        found = []
        for key, heads in inventory.ours.items():
            owners = {head.state.node for head in heads if head.state is not None and head.state.node}
            if key in expected:
                continue
            gone = owners & going or owners & wanted
            lost = bool(owners) and not self.spec.keep_others and self.spec.remove is None
            named = self.spec.remove is not None and owners & self.spec.remove
            if gone or lost or named:
                found.append(key)
        return sorted(found)

    def _pools(self, name: str) -> dict[PoolKey, tuple[str, ...]]:
        return {(driver, pool.replace(PLACEHOLDER, name)): digests for driver, pool, digests in self.spec.pools}

    def _group(self, name: str, uid: str) -> Group:
        pools = self._pools(name)
        return Group(
            key=name,
            pools=tuple(pools),
            digests=pools.__getitem__,
            render=lambda: self.spec.render(name, uid),
            node_uid=uid,
        )

    def _check_first(
        self,
        nodes: _Nodes,
        inventory: Inventory,
        publisher: Publisher,
        to_create: Sequence[str],
        to_patch: Sequence[NodeSeen],
        leaving: Sequence[NodeSeen],
        orphans: Sequence[PoolKey],
        unsettled: Sequence[str],
    ) -> None:
        """What would fail half-way is refused before anything is written."""
        needed = []
        if to_create:
            needed.append(("create", NODE, ""))
        if any(node.patch for node in to_patch):
            needed.append(("patch", NODE, ""))
        if any(node.status_patch for node in to_patch):
            needed.append(("patch", NODE, "status"))
        if leaving:
            needed.append(("delete", NODE, ""))
        if unsettled:
            needed.append(("create", self.kind, ""))
        if unsettled and inventory.ours:
            needed += [("get", self.kind, ""), ("patch", self.kind, ""), ("delete", self.kind, "")]
        if orphans:
            needed.append(("delete", self.kind, ""))
        require_rights(self.kubernetes, needed)
        if unsettled:
            self.check_slices(
                publisher,
                (key for name in unsettled for key in self._pools(name)),
                (self.job.canonical(slice_) for slice_ in self.spec.sample),
                self.spec.tolerate_dropped,
            )

    # Writing

    def _create_node(self, name: str) -> tuple[list[Done], str]:
        answer = self.kubernetes.create(NODE, new_node(self.spec.template, name))
        return [Done("create", "Node", name)], str(answer["metadata"]["uid"])

    def _patch_node(self, node: NodeSeen) -> tuple[list[Done], str]:
        for attempt in range(_PATCH_ATTEMPTS):
            try:
                if node.patch:
                    self.kubernetes.patch(NODE, node.name, node.patch)
                if node.status_patch:
                    self.kubernetes.patch(NODE, node.name, node.status_patch, subresource="status")
                break
            except Conflict:
                # KWOK writes to nodes all the time.
                found = self.kubernetes.get(NODE, node.name)
                if found is None or attempt == _PATCH_ATTEMPTS - 1:
                    raise
                node = see_node(self.spec.template, found)
        return [Done("update", "Node", node.name, ", ".join(node.differences))], node.uid

    def _publish(
        self, publisher: Publisher, names: Iterable[str], uids: Mapping[str, str], groups: Mapping[str, Group]
    ) -> None:
        todo = list(names)
        settled = set(self.spec.names) - set(todo)
        for name in settled:
            self.report.unchanged(
                "ResourceSlice", sum(len(publisher.inventory.ours.get(key, ())) for key in groups[name].pools)
            )
        self.runner.groups(
            f"slices of {len(todo)} nodes",
            (self._group(name, uids.get(name, "")) for name in todo),
            publisher.publish,
            len(todo),
        )

    def _remove(
        self, publisher: Publisher, nodes: _Nodes, leaving: Sequence[NodeSeen], orphans: Sequence[PoolKey]
    ) -> None:
        failed = self.runner.groups("slices that go", orphans, publisher.remove, len(orphans))
        # A node whose slices could not be deleted stays, so that the next run finds both.
        kept = {head.node for key in failed for head in publisher.inventory.ours.get(key, ())}
        self.runner.each(
            "Node",
            "nodes that go",
            [node for node in leaving if node.name not in kept],
            lambda node: node.name,
            self._delete_node,
        )
        if self.spec.wait and leaving and not self.kubernetes.dry_run and not self.report.failures:
            wait_for(
                self.kubernetes,
                NODE,
                [node.name for node in leaving],
                lambda node: (node is None, "still there"),
                self.job.deadline,
                "nodes to be gone",
                labels=f"{SET_LABEL}={self.spec.template.set_name}",
            )

    def _delete_node(self, node: NodeSeen) -> tuple[list[Done], str]:
        self.kubernetes.delete(NODE, node.name, uid=node.uid)
        return [Done("delete", "Node", node.name)], node.uid

    def _wait(self) -> None:
        if not self.spec.names:
            return

        def judge(node: Optional[Mapping[str, object]]) -> tuple[bool, str]:
            if node is None:
                return False, "gone"
            ready = condition(node, "Ready")
            words = "no condition Ready" if ready is None else f"Ready is {ready.get('status')}: {ready.get('reason')}"
            return is_ready(node), words

        wait_for(
            self.kubernetes,
            NODE,
            self.spec.names,
            judge,
            self.job.deadline,
            "nodes to be ready",
            labels=f"{SET_LABEL}={self.spec.template.set_name}",
            hint="does KWOK run, and does it manage nodes with these annotations? wait: false does not wait for it",
            on_progress=lambda ready, total: self.job.progress.say(f"{ready} of {total} nodes are ready"),
        )
