# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which slices a cluster has, and whose they are, from one list of metadata. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import Kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.marks import SET_LABEL, Head, State, head_of

# The driver and the name of a pool.
PoolKey = tuple[str, str]
# Slices have kilobytes where their metadata has hundreds of bytes.
_PAGE = 100
_NAMES_SHOWN = 5


@dataclass
class Inventory:
    """The slices of a cluster as one set sees them."""

    set_name: str
    ours: dict[PoolKey, list[Head]] = field(default_factory=dict)
    # Names that are taken: those of others, and of slices that are on their way out.
    taken: set[str] = field(default_factory=set)
    # Pools of other sets of ours.
    other_sets: dict[PoolKey, str] = field(default_factory=dict)
    strangers: int = 0

    def heads(self) -> Iterable[Head]:
        for heads in self.ours.values():
            yield from heads

    def add(self, head: Head) -> None:
        """Note a slice; one of ours must have a readable state."""
        if head.owned_by is None:
            self.strangers += 1
            self.taken.add(head.name)
        elif head.state is None:
            raise ValueError(f"{head.name} has no state")
        elif head.owned_by != self.set_name:
            self.other_sets[(head.state.driver, head.state.pool)] = head.owned_by
            self.taken.add(head.name)
        elif head.deleting:
            self.taken.add(head.name)
        else:
            self.ours.setdefault((head.state.driver, head.state.pool), []).append(head)


def take_inventory(kubernetes: Kubernetes, kind: Kind, set_name: str) -> Inventory:
    """One list of metadata. A slice of ours whose annotation somebody damaged is read whole."""
    inventory = Inventory(set_name)
    damaged: list[Head] = []
    for item in kubernetes.list_metadata(kind):
        head = head_of(item)
        if head.owned_by is not None and head.state is None:
            damaged.append(head)
        else:
            inventory.add(head)
    for head in damaged:
        found = kubernetes.get(kind, head.name)
        if found is not None:
            inventory.add(restored(found))
    return inventory


def restored(obj: Mapping[str, Any]) -> Head:
    """The head of a slice of ours whose annotation is gone: where it belongs is in its spec, and it is not to be trusted."""
    spec = obj.get("spec") or {}
    pool = spec.get("pool") or {}
    state = State(
        str(spec.get("driver", "")),
        str(pool.get("name", "")),
        str(obj["metadata"]["name"]),
        "",
        0,
        0,
        str(spec.get("nodeName") or ""),
    )
    return head_of(obj)._replace(state=state)


def refuse_foreign_pools(kubernetes: Kubernetes, kind: Kind, inventory: Inventory, wanted: Iterable[PoolKey]) -> None:
    """Refuse to publish into a pool that somebody else publishes too: it could never be complete."""
    pools = set(wanted)
    for key in sorted(pools & set(inventory.other_sets)):
        raise FleetError(
            f"the pool {key[1]!r} of driver {key[0]!r} belongs to the set {inventory.other_sets[key]!r} and not to"
            f" {inventory.set_name!r}; use that set, or another name for the pool",
            driver=key[0],
            pool=key[1],
        )
    if not inventory.strangers:
        return
    clashes: dict[PoolKey, list[str]] = {}
    for item in kubernetes.list(kind, labels=f"!{SET_LABEL}", limit=_PAGE):
        spec = item.get("spec") or {}
        key = (str(spec.get("driver")), str((spec.get("pool") or {}).get("name")))
        if key in pools:
            clashes.setdefault(key, []).append(str(item["metadata"]["name"]))
    for key, names in sorted(clashes.items()):
        shown = ", ".join(names[:_NAMES_SHOWN]) + (
            f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        )
        raise FleetError(
            f"the pool {key[1]!r} of driver {key[0]!r} has slices that this collection did not make ({shown}); they are left"
            " alone, and two publishers of one pool disturb each other: stop the other one and delete them, or use another"
            " name for the pool",
            driver=key[0],
            pool=key[1],
        )
