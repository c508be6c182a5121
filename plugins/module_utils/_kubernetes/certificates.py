# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a client certificate is out of date, for a message that says so. Private to the collection."""

from __future__ import annotations

import datetime
from typing import Optional


def expiry_note(path: Optional[str], now: datetime.datetime | None = None) -> str:
    """A half sentence about an expired client certificate; empty when it is good, or when we cannot tell."""
    if not path:
        return ""
    try:
        from cryptography import x509

        with open(path, "rb") as stream:
            certificate = x509.load_pem_x509_certificate(stream.read())
    except (ImportError, OSError, ValueError):
        return ""
    until = getattr(certificate, "not_valid_after_utc", None)
    if until is None:
        until = certificate.not_valid_after.replace(tzinfo=datetime.timezone.utc)
    if until >= (now or datetime.datetime.now(datetime.timezone.utc)):
        return ""
    return f"; the client certificate {path} expired at {until:%Y-%m-%d %H:%M} UTC"
