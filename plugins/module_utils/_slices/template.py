# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device before its node is known: everything but its identity is worked out once and copied for each node; private to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

# The text of an attribute, or how it follows from the name of the node.
Text = Union[str, Callable[[str], str]]
Value = Union[bool, int, Text]


@dataclass
class DeviceTemplate:
    """A device of a slice: attributes are (kind, value) by name, capacities are quantities by name."""

    name: str
    attributes: Mapping[str, tuple[str, Value]]
    capacity: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ordered = sorted(self.attributes.items())
        self._fixed = [(key, kind, None if callable(value) else value) for key, (kind, value) in ordered]
        self._by_node = [(key, kind, value) for key, (kind, value) in ordered if callable(value)]
        self._capacity = sorted(self.capacity.items())

    def render(self, node: str) -> dict[str, Any]:
        """The device on a node; nothing of it is shared with another."""
        attributes: dict[str, dict[str, Any]] = {key: {kind: value} for key, kind, value in self._fixed}
        for key, kind, derive in self._by_node:
            attributes[key][kind] = derive(node)
        device: dict[str, Any] = {"attributes": attributes}
        if self._capacity:
            device["capacity"] = {key: {"value": value} for key, value in self._capacity}
        device["name"] = self.name
        return device
