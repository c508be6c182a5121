# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubeconfig of a control plane of ours: one file that needs no other. Private to the collection."""

from __future__ import annotations

import base64
import os

from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import write_text_atomic
from ansible_collections.gpulab.fleet.plugins.module_utils._common.ports import LOOPBACK
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.api import Credentials

_TEXT = """apiVersion: v1
kind: Config
current-context: {context}
contexts:
  - name: {context}
    context:
      cluster: {context}
      user: {context}
clusters:
  - name: {context}
    cluster:
      server: {server}
      certificate-authority-data: {authority}
users:
  - name: {context}
    user:
      client-certificate-data: {certificate}
      client-key-data: {key}
preferences: {{}}
"""


def server(port: int) -> str:
    return f"https://{LOOPBACK}:{port}"


def write(path: str, context: str, port: int, credentials: Credentials) -> None:
    """Write it for its owner only, and leave it alone when it is right already."""
    text = _TEXT.format(
        context=context,
        server=server(port),
        authority=_encoded(credentials.authority),
        certificate=_encoded(credentials.certificate),
        key=_encoded(credentials.key),
    )
    if _content(path) != text or os.stat(path).st_mode & 0o077:
        write_text_atomic(path, text, 0o600)


def _encoded(path: str) -> str:
    with open(path, "rb") as stream:
        return base64.b64encode(stream.read()).decode("ascii")


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
