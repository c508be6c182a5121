# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a mapping of a description field by field, so that errors name the path and no key goes unread; private to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._machine.errors import nearest, refuse, refuse_missing

_HEX = re.compile(r"(?:0x)?([0-9a-f]+)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Reader:
    """A mapping at a path of the description, with the keys that it may have."""

    def __init__(self, value: object, path: str, allowed: Sequence[str], remedy: str) -> None:
        if not isinstance(value, Mapping):
            raise refuse(path, value, "is not a mapping", remedy)
        self.path = path
        self._fields: dict[str, object] = {}
        for key, item in value.items():
            name = str(key)
            if name not in allowed:
                raise refuse(self.at(name), item, "is given for a key that is not known here", nearest(name, allowed))
            self._fields[name] = item

    def at(self, key: str) -> str:
        """The path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether the key has a value; null is none."""
        return self._fields.get(key) is not None

    def raw(self, key: str) -> object:
        """The value as it is; None when it is missing."""
        return self._fields.get(key)

    def require(self, key: str, remedy: str) -> None:
        """Refuse the mapping unless the key has a value."""
        if not self.has(key):
            raise refuse_missing(self.at(key), remedy)

    def text(self, key: str, default: str = "") -> str:
        """A string."""
        if not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, str):
            raise refuse(self.at(key), value, "is not text", "write text, in quotes if it looks like a number")
        return value

    def optional_text(self, key: str) -> Optional[str]:
        """A string, or None when it is missing."""
        return self.text(key) if self.has(key) else None

    def integer(self, key: str, minimum: int, maximum: int, default: Optional[int] = None) -> int:
        """A whole number within limits; digits in a string count, as templates make them."""
        if not self.has(key) and default is not None:
            return default
        self.require(key, f"write a whole number from {minimum} to {maximum}")
        value = self.raw(key)
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise refuse(self.at(key), value, "is out of range", f"write a whole number from {minimum} to {maximum}")
        return value

    def optional_integer(self, key: str, minimum: int, maximum: int) -> Optional[int]:
        """A whole number, or None when it is missing."""
        return self.integer(key, minimum, maximum) if self.has(key) else None

    def boolean(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self.raw(key) if self.has(key) else default
        if not isinstance(value, bool):
            raise refuse(self.at(key), value, "is not a truth value", "write true or false without quotes")
        return value

    def optional_boolean(self, key: str) -> Optional[bool]:
        """true or false, or None when it is missing."""
        return self.boolean(key, False) if self.has(key) else None

    def hexadecimal(self, key: str, digits: int, default: Optional[int] = None) -> int:
        """An id in quoted hexadecimal, as lspci prints it."""
        example = f'"0x{"123456789abc"[:digits]}"'
        remedy = f"write it in hexadecimal and in quotes, at most {digits} digits, such as {example}"
        if not self.has(key) and default is not None:
            return default
        self.require(key, remedy)
        value = self.raw(key)
        if isinstance(value, int) and not isinstance(value, bool):
            # 2330 for 0x2330, or octal 0302: a bare number may already be something else than what was written.
            raise refuse(
                self.at(key), value, "is a number, and YAML may have read it in another base than meant", remedy
            )
        match = _HEX.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None or int(match.group(1), 16) >= 16**digits:
            raise refuse(self.at(key), value, "is not such an id", remedy)
        return int(match.group(1), 16)

    def choice(self, key: str, allowed: Sequence[str], default: str = "") -> str:
        """One of the allowed words."""
        if default == "":
            self.require(key, f"allowed: {', '.join(allowed)}")
        value = self.text(key, default)
        if value not in allowed:
            raise refuse(self.at(key), value, "is not known here", nearest(value, allowed))
        return value

    def mapping(self, key: str, remedy: str) -> dict[str, object]:
        """A mapping with string keys; an empty one when it is missing."""
        value = self.raw(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise refuse(self.at(key), value, "is not a mapping", remedy)
        return {str(name): item for name, item in value.items()}

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of strings to strings."""
        remedy = "write a mapping of text to text"
        result: dict[str, str] = {}
        for name, item in self.mapping(key, remedy).items():
            if not isinstance(item, str):
                raise refuse(f"{self.at(key)}.{name}", item, "is not text", remedy)
            result[name] = item
        return result

    def text_list(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.raw(key)
        if value is None:
            return ()
        if (
            isinstance(value, (str, bytes))
            or not isinstance(value, Sequence)
            or not all(isinstance(item, str) for item in value)
        ):
            raise refuse(self.at(key), value, "is not a list of texts", 'write a list such as ["one", "two"]')
        return tuple(str(item) for item in value)


def check_name(name: str, path: str, limit: int) -> str:
    """A name that can also be a file name and part of a host name."""
    if not _NAME.fullmatch(name) or len(name) > limit:
        raise refuse(
            path,
            name,
            "is not a usable name",
            f"use letters, digits, dots, hyphens and underscores, at most {limit} in all",
        )
    return name
