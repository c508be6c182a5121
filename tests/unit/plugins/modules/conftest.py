# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules as Ansible runs them, in this process, and an API server in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from ansible.module_utils import _internal
from ansible.module_utils.common import warnings
from ansible.module_utils.testing import patch_module_args
from fake_kubernetes import FakeKubernetes


@pytest.fixture(autouse=True)
def on_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's warnings go into its result; in a controller's process, which other tests make of this one, ansible-core prints them."""
    monkeypatch.setattr(_internal, "is_controller", False, raising=False)


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """run_module(module, arguments, fails=False) -> its result, from a run to its end."""

    def run(module: Any, arguments: Mapping[str, Any], fails: bool = False) -> dict[str, Any]:
        capsys.readouterr()
        warnings._global_warnings.clear()
        with patch_module_args(dict(arguments)), pytest.raises(SystemExit) as end:
            module.main()
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert bool(end.value.code) is bool(result.get("failed")) is fails, result.get("msg", result)
        return result

    return run


@pytest.fixture
def api_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[FakeKubernetes]:
    """A Kubernetes 1.37, and nobody's own cluster beside it."""
    from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes import transport

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(transport, "_FIRST_PAUSE_S", 0.01)
    for variable in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_HOST"):
        monkeypatch.delenv(variable, raising=False)
    running = FakeKubernetes()
    yield running
    running.close()
