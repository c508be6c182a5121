# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory, and clients of it that do not sleep for long."""

from __future__ import annotations

import fake_kubernetes
import pytest


@pytest.fixture(autouse=True)
def nobodys_cluster(monkeypatch, tmp_path):
    """No test reaches a cluster of the person who runs it."""
    for variable in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_HOST", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def fake():
    """The module with Fault and FakeKubernetes."""
    return fake_kubernetes


@pytest.fixture
def server():
    """A Kubernetes 1.37."""
    running = fake_kubernetes.FakeKubernetes()
    yield running
    running.close()


@pytest.fixture
def cluster(server):
    """cluster(timeout_s=..., **options) -> a client of the server; pauses are noted in `client.pauses` and not slept."""
    from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
    from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import connect

    opened = []

    def open_client(timeout_s=30, patience_s=0.4, dry_run=False, pauses=True, **options):
        client = connect({"host": server.url, **options}, Deadline(timeout_s), patience_s, dry_run)
        client.pauses = []
        if pauses:
            real = client.transport._sleep

            def note(seconds):
                client.pauses.append(seconds)
                real(min(seconds, 0.05))

            client.transport._sleep = note
        opened.append(client)
        return client

    yield open_client
    for client in opened:
        client.close()
