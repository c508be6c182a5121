# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices as YAML that kubectl takes; private to the collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError


def to_yaml(slices: Iterable[Mapping[str, Any]]) -> str:
    """One document a slice. The same slices give the same bytes, and no reader takes an address for a number."""
    try:
        import yaml
    except ImportError as error:
        raise SliceError("this Python has no PyYAML, which writes slices as YAML; install python3-yaml") from error

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc,unused-ignore]
        """Without anchors, which nobody expects in a manifest."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    documents = [_plain(item) for item in slices]
    text: str = yaml.dump_all(
        documents,
        Dumper=Dumper,
        explicit_start=True,
        default_flow_style=False,
        sort_keys=True,
        allow_unicode=True,
        width=1000,
    )
    return text


def _plain(value: Any) -> Any:
    """Plain dictionaries, lists and texts, whatever kind of them the caller had."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value
