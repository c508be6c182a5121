# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module of the collection in a process of its own, without a playbook around it, so that many calls stay quick and some can meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT_S = 900.0
CODE = """
import importlib, json, sys
from ansible.module_utils.testing import patch_module_args
module = importlib.import_module("ansible_collections.gpulab.fleet.plugins.modules." + sys.argv[1])
with patch_module_args(json.loads(sys.stdin.read())):
    module.main()
"""


class Call:
    """A module that runs; `result` waits for its end."""

    def __init__(self, module: str, params: dict[str, Any], home: Path) -> None:
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBECONFIG"))
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, module],
            env={**environment, "XDG_STATE_HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(params))
        self.process.stdin.close()
        self.process.stdin = None

    def result(self, fails: bool = False) -> dict[str, Any]:
        out, err = self.process.communicate(timeout=LIMIT_S)
        try:
            result: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        except (ValueError, IndexError):
            raise AssertionError(f"no result, but:\n{out}\n{err}") from None
        assert bool(result.get("failed")) is fails, result.get("msg", result)
        return result


class Modules:
    """The modules against one cluster."""

    def __init__(self, kubeconfig: str, home: Path) -> None:
        self.kubeconfig = kubeconfig
        self.home = home

    def start(self, module: str, check_mode: bool = False, diff: bool = False, **params: Any) -> Call:
        arguments = {"kubeconfig": self.kubeconfig, "_ansible_check_mode": check_mode, "_ansible_diff": diff, **params}
        return Call(module, {key: value for key, value in arguments.items() if value is not None}, self.home)

    def nodes(self, fails: bool = False, **params: Any) -> dict[str, Any]:
        return self.start("fake_gpu_node", **params).result(fails)

    def slices(self, *slices: Any, fails: bool = False, **params: Any) -> dict[str, Any]:
        given = {"slices": list(slices)} if slices else {}
        return self.start("resourceslice", **given, **params).result(fails)

    def info(self, fails: bool = False, **params: Any) -> dict[str, Any]:
        return self.start("resourceslice_info", **params).result(fails)


def counts(result: dict[str, Any], kind: str) -> dict[str, int]:
    """What became of objects of a kind, without the zeros."""
    return {word: number for word, number in result["summary"][kind].items() if number}
