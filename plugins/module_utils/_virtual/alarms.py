# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Things to do later in an event loop, one a key; private to the collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Optional


class Alarms:
    """At most one action a key, each at a time."""

    def __init__(self) -> None:
        self._alarms: dict[Hashable, tuple[float, Callable[[], None]]] = {}

    def set(self, key: Hashable, delay_s: float, action: Callable[[], None]) -> None:
        """Run ``action`` in ``delay_s`` from now, instead of what the key had."""
        self._alarms[key] = (time.monotonic() + delay_s, action)

    def cancel(self, key: Hashable) -> None:
        """Forget the key's action."""
        self._alarms.pop(key, None)

    def timeout_s(self) -> Optional[float]:
        """How long until the next action; None when there is none."""
        if not self._alarms:
            return None
        return max(0.0, min(due for due, _action in self._alarms.values()) - time.monotonic())

    def run_due(self) -> None:
        """Run the actions whose time has come."""
        now = time.monotonic()
        for key, (due, action) in list(self._alarms.items()):
            if due <= now and self._alarms.pop(key, None) is not None:
                action()
