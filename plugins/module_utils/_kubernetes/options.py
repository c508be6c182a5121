# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options by which modules reach a cluster, the same for all of them. Private to the collection.

Names and environment variables are those that users of kubernetes.core know.
"""

from __future__ import annotations

import gc
from typing import Any, Mapping

from ansible.module_utils.basic import env_fallback

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress, progress_file
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.access import ClusterAddress
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes

MAX_CONCURRENCY = 256
# An API server that restarts is away for a few seconds.
PATIENCE_S = 15.0


def cluster_arguments() -> dict[str, dict[str, Any]]:
    """The argument spec that goes with the documentation fragment `cluster`."""
    return {
        # A dictionary holds keys and tokens; `secrets_of` tells them to Ansible.
        "kubeconfig": {"type": "raw", "fallback": (env_fallback, ["K8S_AUTH_KUBECONFIG"])},
        "context": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_CONTEXT"])},
        "host": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_HOST"])},
        "api_key": {
            "type": "str",
            "no_log": True,
            "aliases": ["token"],
            "fallback": (env_fallback, ["K8S_AUTH_API_KEY"]),
        },
        "validate_certs": {
            "type": "bool",
            "aliases": ["verify_ssl"],
            "fallback": (env_fallback, ["K8S_AUTH_VERIFY_SSL"]),
        },
        "ca_cert": {
            "type": "path",
            "aliases": ["ssl_ca_cert"],
            "fallback": (env_fallback, ["K8S_AUTH_SSL_CA_CERT"]),
        },
        "client_cert": {"type": "path", "aliases": ["cert_file"], "fallback": (env_fallback, ["K8S_AUTH_CERT_FILE"])},
        "client_key": {
            "type": "path",
            "no_log": False,
            "aliases": ["key_file"],
            "fallback": (env_fallback, ["K8S_AUTH_KEY_FILE"]),
        },
        "proxy": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_PROXY"])},
        "no_proxy": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_NO_PROXY"])},
        "impersonate_user": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_IMPERSONATE_USER"])},
        "concurrency": {"type": "int", "default": 16},
    }


def connect(
    params: Mapping[str, Any],
    deadline: Deadline | None = None,
    patience_s: float | None = None,
    dry_run: bool = False,
) -> Kubernetes:
    """The cluster that a module's parameters mean; nothing is asked of it yet.

    When it is silent for `patience_s`, all requests are given up.
    """
    concurrency = 16 if params.get("concurrency") is None else params["concurrency"]
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise FleetError(
            f"concurrency is {concurrency}; give a number from 1 to {MAX_CONCURRENCY}", option="concurrency"
        )
    address = ClusterAddress(
        kubeconfig=params.get("kubeconfig"),
        context=params.get("context"),
        host=params.get("host"),
        api_key=params.get("api_key"),
        validate_certs=params.get("validate_certs"),
        ca_cert=params.get("ca_cert"),
        client_cert=params.get("client_cert"),
        client_key=params.get("client_key"),
        proxy=params.get("proxy"),
        no_proxy=params.get("no_proxy"),
        impersonate_user=params.get("impersonate_user"),
    )
    return Kubernetes.open(address, concurrency, deadline, PATIENCE_S if patience_s is None else patience_s, dry_run)


def writing_arguments() -> dict[str, dict[str, Any]]:
    """What modules that write many objects have in common; it goes with the documentation fragment `cluster_writes`."""
    return {
        "continue_on_error": {"type": "bool", "default": True},
        "dropped_fields": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
        "timeout_s": {"type": "int", "default": 600},
        "results_limit": {"type": "int", "default": 100},
        "progress_path": {"type": "path"},
    }


def check_limits(params: Mapping[str, Any]) -> None:
    """Refuse numbers that make no sense."""
    for option, least in (("timeout_s", 1), ("results_limit", 0)):
        if params[option] < least:
            raise FleetError(f"{option} is {params[option]}; give {least} or more", option=option, value=params[option])


def open_progress(params: Mapping[str, Any], name: str, who: str) -> Progress:
    """Lines of progress where the callback looks for them, or at progress_path."""
    path = params.get("progress_path")
    try:
        path = progress_file(name, path)
        progress = Progress(path, who)
        progress.say("starting")
    except OSError as error:
        if params.get("progress_path"):
            raise FleetError(
                f"progress_path is {path!r} and cannot be written: {error}", option="progress_path"
            ) from error
        return Progress(None, who)
    return progress


def expect_many_objects() -> None:
    """Let Python look for cyclic garbage seldom: what JSON becomes has no cycles, and looking takes a tenth of the time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def secrets_of(params: Mapping[str, Any]) -> set[str]:
    """The secrets in a kubeconfig that is given as a dictionary, for Ansible to hide."""
    kubeconfig = params.get("kubeconfig")
    found: set[str] = set()
    if isinstance(kubeconfig, Mapping):
        for entry in kubeconfig.get("users") or ():
            user = entry.get("user") if isinstance(entry, Mapping) else None
            if isinstance(user, Mapping):
                found.update(
                    str(user[key])
                    for key in ("token", "client-key-data", "password", "client-certificate-data")
                    if user.get(key)
                )
    return found
