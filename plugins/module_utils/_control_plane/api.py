# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the components of a control plane of ours over TLS, with its own certificates. Private to the collection."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass

from ansible_collections.gpulab.fleet.plugins.module_utils._common.ports import LOOPBACK


@dataclass(frozen=True)
class Answer:
    """A status of 0 stands for no answer at all; the text says why."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        return self.status == 200


@dataclass(frozen=True)
class Credentials:
    """Files with the authority, and with the certificate and key of the administrator."""

    authority: str
    certificate: str
    key: str


def get(port: int, path: str, credentials: Credentials, timeout_s: float = 5.0) -> Answer:
    try:
        context = ssl.create_default_context(cafile=credentials.authority)
        context.load_cert_chain(credentials.certificate, credentials.key)
        connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=timeout_s, context=context)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(errors="replace"))
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, str(error) or type(error).__name__)
