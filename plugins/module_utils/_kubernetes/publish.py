# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings pools to what they should hold: looks closer where metadata is not enough, plans, writes. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.content import (
    Canonical,
    Slice,
    by_pool,
    content_digest,
    dropped_message,
    without,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.inventory import Inventory, PoolKey
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import Kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import SET_LABEL, Head, State, head_of
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.pools import (
    CREATE,
    DELETE,
    TOUCH,
    UPDATE,
    PoolPlan,
    Step,
    Wanted,
    plan_pool,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.probe import lost_fields, probe
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.report import DIFFS_SHOWN, Done, describe_change
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.seen import Seen, holds, metadata_of, see
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.seen import present as present_of

# Somebody else may change a pool while we do; after so many attempts they are left to it.
_ATTEMPTS = 4
# From so many slices on, one list is cheaper than a request for each.
_LIST_FROM = 32
_PAGE = 100


@dataclass(frozen=True)
class Group:
    """Pools that are rendered together, such as all those of a node."""

    key: str
    pools: Sequence[PoolKey]
    # A digest of each slice of a pool, in the order of `render`; only asked for when it is needed.
    digests: Callable[[PoolKey], Sequence[str]]
    # The slices in the form of resource.k8s.io/v1, canonical, with the owner that they should have.
    render: Callable[[], Sequence[Slice]]
    node_uid: str = ""
    # By slice, the labels that it should have beside ours.
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass
class GroupResult:
    """What became of a group: one entry for each write, and errors."""

    done: list[Done] = field(default_factory=list)
    unchanged: int = 0
    errors: list[tuple[str, str, FleetError]] = field(default_factory=list)


class Publisher:
    """Publishes the groups of one set. `publish` is called from many threads."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        kind: Kind,
        inventory: Inventory,
        canonical: Canonical,
        export: Canonical,
        show_differences: bool = False,
    ) -> None:
        self.kubernetes = kubernetes
        self.kind = kind
        self.inventory = inventory
        # From what the server returns to the form in which slices are compared, and from there to what is sent.
        self.canonical = canonical
        self.export = export
        self.show_differences = show_differences
        self.left_out: dict[str, str] = {}
        self._probed = False
        self._seen: dict[str, Seen] = {}

    # Before anything is written

    def settled(self, group: Group) -> bool:
        """Whether metadata alone tells that nothing is to be done."""
        return all(self._settled(key, group) for key in group.pools)

    def _settled(self, key: PoolKey, group: Group) -> bool:
        heads = self.inventory.ours.get(key, ())
        if not heads:
            return False
        digests = group.digests(key)
        noted = sorted(head.state.digest for head in heads if head.state is not None)
        return noted == sorted(digests) and all(
            head.state is not None
            and head.trusted(head.state.digest)
            and head.state.slices == len(heads)
            and (not group.node_uid or head.node_uid == group.node_uid)
            and holds(head.labels, group.labels.get(head.state.base, {}))
            for head in heads
        )

    def read_ahead(self, groups: Iterable[Group]) -> None:
        """Read in one go what has to be looked at more closely, when that is much."""
        names = {
            head.name
            for group in groups
            for key in group.pools
            if not self._settled(key, group)
            for head in self.inventory.ours.get(key, ())
        }
        if len(names) < _LIST_FROM:
            return
        selector = f"{SET_LABEL}={self.inventory.set_name}"
        for item in self.kubernetes.list(self.kind, labels=selector, limit=_PAGE):
            if item["metadata"]["name"] in names:
                keep = self.show_differences and len(self._seen) < DIFFS_SHOWN
                self._seen[item["metadata"]["name"]] = self._look(item, keep)

    def probe(self, slices: Iterable[Slice], tolerate: bool = False) -> None:
        """Ask the server, by a dry run for each shape, whether it keeps every field; a refusal comes to light as well.

        Fields that it drops are an error, or with `tolerate` are left out from then on.
        """
        dropped = probe(self.kubernetes, self.kind, slices, self.canonical, self.export)
        if dropped and not tolerate:
            raise FleetError(f"{dropped_message(dropped)}; nothing was written", dropped=sorted(dropped))
        self.left_out = dropped
        self._probed = True

    # Writing

    def publish(self, group: Group) -> GroupResult:
        """Bring the pools of a group to what they should hold. An error of one pool does not keep the others."""
        result = GroupResult()
        rendered: Optional[dict[PoolKey, list[Slice]]] = None
        for key in group.pools:
            if self._settled(key, group):
                result.unchanged += len(self.inventory.ours[key])
                continue
            if rendered is None:
                rendered = by_pool(without(slice_, self.left_out) for slice_ in group.render())
            try:
                self._publish_pool(key, group.digests(key), rendered.get(key, []), result)
            except FleetError as error:
                if getattr(error, "fatal", False):
                    error.details["done"] = result
                    raise
                result.errors.append(("ResourceSlice", f"{key[0]} {key[1]}", error))
        return result

    def remove(self, key: PoolKey) -> GroupResult:
        """Delete the slices of ours in a pool."""
        result = GroupResult()
        for head in self.inventory.ours.get(key, ()):
            try:
                self.kubernetes.delete(self.kind, head.name, uid=head.uid)
                result.done.append(Done(DELETE, "ResourceSlice", head.name, "no longer wanted"))
            except FleetError as error:
                if getattr(error, "fatal", False):
                    error.details["done"] = result
                    raise
                result.errors.append(("ResourceSlice", head.name, error))
        return result

    def _publish_pool(self, key: PoolKey, digests: Sequence[str], slices: Sequence[Slice], result: GroupResult) -> None:
        heads = list(self.inventory.ours.get(key, ()))
        wanted = [
            Wanted(str(slice_["metadata"]["name"]), "", str(slice_["spec"].get("nodeName") or "")) for slice_ in slices
        ]
        first = min((int(slice_["spec"]["pool"].get("generation") or 1) for slice_ in slices), default=1)
        # A slice that lacks what it should have is looked at again each time: the gate may have been switched on.
        noted = [f"{digest}, incomplete" if self.left_out else digest for digest in digests]
        extra: set[str] = set()
        for attempt in range(_ATTEMPTS):
            seen = self._observe(heads, fresh=attempt > 0)
            if seen:
                # In an empty pool there is nothing to compare with.
                wanted = [want._replace(content=content_digest(slice_)) for want, slice_ in zip(wanted, slices)]
            present = [present_of(entry, slices, wanted, self.inventory.set_name, noted) for entry in seen]
            plan = plan_pool(wanted, present, first, _Taken(self.inventory.taken, extra))
            try:
                self._carry_out(plan, key, noted, slices, wanted, seen, heads, result)
            except (Conflict, NotFound, AlreadyExists) as error:
                if attempt == _ATTEMPTS - 1:
                    raise
                heads = self._after_conflict(error, heads, extra, key)
                continue
            if not plan.changed:
                result.unchanged += len(present)
            else:
                result.unchanged += len(present) - len(
                    {step.present for step in (*plan.writes, *plan.deletes)} - {None}
                )
            return

    def _after_conflict(self, error: ApiError, heads: list[Head], extra: set[str], key: PoolKey) -> list[Head]:
        """What else there is when somebody was faster: a slice of our own set joins the pool, another's name is avoided."""
        name = str(error.details.get("name") or "")
        if isinstance(error, AlreadyExists) and name:
            found = self.kubernetes.get(self.kind, name)
            head = head_of(found) if found is not None else None
            ours = (
                head is not None
                and head.owned_by == self.inventory.set_name
                and head.state is not None
                and (head.state.driver, head.state.pool) == key
            )
            if ours and head is not None:
                return [*(known for known in heads if known.name != name), head]
            extra.add(name)
        return heads

    def _observe(self, heads: Sequence[Head], fresh: bool) -> list[Seen]:
        found = []
        for head in heads:
            entry = None if fresh else self._seen.get(head.name)
            if entry is None:
                obj = self.kubernetes.get(self.kind, head.name)
                if obj is None or obj["metadata"].get("deletionTimestamp"):
                    continue
                entry = self._look(obj, keep=self.show_differences)
                if entry.head.state is None:
                    entry = entry._replace(head=entry.head._replace(state=head.state))
            found.append(entry)
        return found

    def _look(self, obj: Mapping[str, Any], keep: bool) -> Seen:
        return see(obj, self.canonical({**obj, "apiVersion": self.kind.api_version}), keep)

    def _carry_out(
        self,
        plan: PoolPlan,
        key: PoolKey,
        noted: Sequence[str],
        slices: Sequence[Slice],
        wanted: Sequence[Wanted],
        seen: Sequence[Seen],
        heads: list[Head],
        result: GroupResult,
    ) -> None:
        """All steps in their order; what is made joins `heads`, for another look when somebody interferes."""
        for step in plan.writes:
            slice_ = slices[step.wanted] if step.wanted is not None else {}
            before = seen[step.present] if step.present is not None else None
            expected = 1 if before is None else before.head.generation + (step.action == UPDATE)
            base = wanted[step.wanted].base if step.wanted is not None else step.name
            node = str(slice_.get("spec", {}).get("nodeName") or "")
            digest = noted[step.wanted] if step.wanted is not None else ""
            state = State(key[0], key[1], base, digest, len(slices), expected, node)
            self._write(step, slice_, before, plan.generation, state)
            if before is None:
                heads.append(Head(step.name, "", "", 1, self.inventory.set_name, state, True, node, "", False))
            change = (
                describe_change(before.spec if before else None, slice_.get("spec")) if self.show_differences else None
            )
            result.done.append(Done(step.action, "ResourceSlice", step.name, plan.reason, change))
        for step in plan.deletes:
            before = seen[step.present] if step.present is not None else None
            self.kubernetes.delete(self.kind, step.name, uid=before.head.uid if before else None)
            result.done.append(Done(DELETE, "ResourceSlice", step.name, plan.reason))

    def _write(self, step: Step, slice_: Slice, before: Optional[Seen], generation: int, state: State) -> None:
        metadata = metadata_of(slice_, self.inventory.set_name, state)
        spec = {**slice_["spec"], "pool": {**slice_["spec"]["pool"], "generation": generation}}
        sent = self.export(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        )
        if step.action == CREATE:
            sent["metadata"] = {**metadata, "name": step.name}
            # What the server makes of slices of this shape is known already.
            answer = self.kubernetes.create(self.kind, sent, read=not self._probed)
            if answer and head_of(answer).owned_by != self.inventory.set_name:
                raise AlreadyExists(
                    f"cannot create the slice {step.name}: somebody else has made one of that name", name=step.name
                )
        else:
            patch: dict[str, Any] = {
                "metadata": {**metadata, "resourceVersion": before.head.resource_version if before else ""}
            }
            patch["metadata"].pop("generateName", None)
            if step.action == UPDATE:
                # A merge patch keeps what others have put into the metadata; what the spec no longer has is taken away by null.
                gone = (before.spec_keys if before else frozenset()) - set(sent["spec"])
                patch["spec"] = {**sent["spec"], **dict.fromkeys(gone)}
            answer = self.kubernetes.patch(self.kind, step.name, patch)
        if step.action != TOUCH and answer:
            lost = lost_fields(sent, answer, self.canonical)
            if lost:
                raise FleetError(dropped_message(dict.fromkeys(lost, step.name)), dropped=lost)


class _Taken:
    """Names that are taken, without making one large set of two."""

    def __init__(self, *sets: set[str]) -> None:
        self._sets = sets

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in self._sets)
