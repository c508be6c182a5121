# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory, and a client of it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HELPER = Path(__file__).resolve().parents[4] / "helpers" / "fake_kubernetes.py"


@pytest.fixture
def server() -> Iterator[Any]:
    """A Kubernetes 1.37."""
    name = "gpulab_fake_kubernetes"
    if name not in sys.modules:
        # Dataclasses look their module up by name.
        spec = importlib.util.spec_from_file_location(name, HELPER)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    running = sys.modules[name].FakeKubernetes()
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
