# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_kubernetes import FakeKubernetes


@pytest.fixture
def server() -> Iterator[Any]:
    """A Kubernetes 1.37."""
    running = FakeKubernetes()
    yield running
    running.close()


@pytest.fixture
def kubernetes(server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    # Not at the top: this file is read before the collection can be imported.
    from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
    from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.access import ClusterAddress
    from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes

    for variable in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_HOST", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    client = Kubernetes.open(ClusterAddress(host=server.url), deadline=Deadline(60), patience_s=0.2)
    yield client
    client.close()
