# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names as Kubernetes wants them; each function says what is wrong, or None; private to the collection."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._slices import fields

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUALIFIED_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
# A fleet has few names of attributes, but names of devices and nodes without end.
_REMEMBERED = 8192


@lru_cache(maxsize=_REMEMBERED)
def label(name: str) -> Optional[str]:
    """A DNS label, as devices and counters have it."""
    if len(name) > fields.LABEL_LENGTH:
        return f"has {len(name)} characters; at most {fields.LABEL_LENGTH} are allowed"
    if not _LABEL.fullmatch(name):
        return "is no DNS label: lower-case letters, digits and hyphens, and neither end is a hyphen"
    return None


def subdomain(name: str, limit: int) -> Optional[str]:
    """A DNS subdomain, as nodes and drivers have it."""
    if len(name) > limit:
        return f"has {len(name)} characters; at most {limit} are allowed"
    if not _SUBDOMAIN.fullmatch(name):
        return "is no DNS subdomain: lower-case letters, digits, hyphens and dots, and letters or digits at both ends of each part"
    return None


def pool(name: str) -> Optional[str]:
    """Subdomains with slashes between them."""
    if len(name) > fields.POOL_LENGTH:
        return f"has {len(name)} characters; at most {fields.POOL_LENGTH} are allowed"
    for part in name.split("/"):
        problem = subdomain(part, fields.POOL_LENGTH)
        if problem is not None:
            return f"has a part {part!r} that {problem}"
    return None


@lru_cache(maxsize=_REMEMBERED)
def attribute(name: str) -> Optional[str]:
    """The name of an attribute or a capacity: an identifier, with a domain and a slash before it or not."""
    parts = name.split("/")
    if len(parts) > 2:
        return "has more than one slash"
    if len(parts) == 2:
        problem = subdomain(parts[0], fields.DOMAIN_LENGTH)
        if problem is not None:
            return f"has a domain {parts[0]!r} that {problem}"
    identifier = parts[-1]
    if len(identifier) > fields.IDENTIFIER_LENGTH:
        return f"has {len(identifier)} characters after the domain; at most {fields.IDENTIFIER_LENGTH} are allowed"
    if not _IDENTIFIER.fullmatch(identifier):
        return "is no C identifier: letters, digits and underscores (no hyphen, no dot), and no digit first"
    return None


def label_key(name: str) -> Optional[str]:
    """The key of a label, as taints have it: a name, with a domain and a slash before it or not."""
    domain, slash, rest = name.rpartition("/")
    if slash and subdomain(domain, fields.NAME_LENGTH) is not None:
        return f"has a domain {domain!r} that {subdomain(domain, fields.NAME_LENGTH)}"
    return label_value(rest) if rest else "has no name"


def label_value(value: str) -> Optional[str]:
    """The value of a label, which may be empty."""
    if len(value) > fields.LABEL_LENGTH:
        return f"has {len(value)} characters; at most {fields.LABEL_LENGTH} are allowed"
    if value and not _QUALIFIED_PART.fullmatch(value):
        return "has other than letters, digits, dots, hyphens and underscores, or no letter or digit at an end"
    return None
