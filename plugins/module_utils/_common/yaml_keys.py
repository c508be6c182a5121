# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML in which no key stands twice. Private to the collection."""

from __future__ import annotations

from typing import Any, Callable


def unique_keys(base: Any, refusal: Callable[[str, int], Exception]) -> Any:
    """A loader like `base` that does not let the later of two equal keys win in silence: it raises refusal(key, line)."""

    class UniqueKeyLoader(base):  # type: ignore[misc,unused-ignore]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key_node, _value_node in node.value:
                key = str(key_node.value)
                if key in seen and key != "<<":
                    raise refusal(key, key_node.start_mark.line + 1)
                seen.add(key)
            result: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return result

    return UniqueKeyLoader
