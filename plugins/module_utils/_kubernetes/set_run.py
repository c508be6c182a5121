# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run for one set of slices works with, whatever the set is made of. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.content import Canonical, Slice
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.inventory import (
    Inventory,
    PoolKey,
    refuse_foreign_pools,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import Kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.publish import Publisher
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.report import Report
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.run import Runner


@dataclass(frozen=True)
class Job:
    """The cluster, the forms of a slice there, and where what becomes of it is told."""

    kubernetes: Kubernetes
    kind: Kind
    # From what the server returns to the form in which slices are compared, and from there to what is sent.
    canonical: Canonical
    export: Canonical
    report: Report
    progress: Progress
    deadline: Deadline
    show_differences: bool = False


class SetRun:
    """One run for one set."""

    def __init__(self, job: Job, continue_on_error: bool) -> None:
        self.job = job
        self.kubernetes = job.kubernetes
        self.kind = job.kind
        self.report = job.report
        self.runner = Runner(
            job.kubernetes, job.report, job.progress, job.deadline, stop_on_error=not continue_on_error
        )
        # Fields that the server drops, with a slice that has them.
        self.left_out: Mapping[str, str] = {}

    def publisher(self, inventory: Inventory) -> Publisher:
        job = self.job
        return Publisher(job.kubernetes, job.kind, inventory, job.canonical, job.export, job.show_differences)

    def check_slices(
        self,
        publisher: Publisher,
        keys: Iterable[PoolKey],
        samples: Iterable[Slice],
        tolerate_dropped: bool,
    ) -> None:
        """Refuse pools of others, and slices that the server would not take as they are."""
        refuse_foreign_pools(self.kubernetes, self.kind, publisher.inventory, keys)
        publisher.probe(samples, tolerate_dropped)
        self.left_out = publisher.left_out
