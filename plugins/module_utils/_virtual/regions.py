# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is behind the BARs: sparse pages with a limit on how many there are; private to the collection."""

from __future__ import annotations

PAGE_BYTES = 4096


class PageBudget:
    """How many pages all BARs of a device may have; a BAR can be far larger than the memory of the machine."""

    def __init__(self, max_bytes: int) -> None:
        self._max_pages = max_bytes // PAGE_BYTES
        self.pages = 0
        self.dropped_writes = 0

    def take(self) -> bool:
        """Ask for one more page; a refusal is counted as a write that was dropped."""
        if self.pages >= self._max_pages:
            self.dropped_writes += 1
            return False
        self.pages += 1
        return True


class SparseRegion:
    """A region that reads as zeros until something else is written."""

    def __init__(self, size_bytes: int, budget: PageBudget) -> None:
        self.size_bytes = size_bytes
        self._budget = budget
        self._pages: dict[int, bytearray] = {}

    def read(self, offset: int, count: int) -> bytes:
        """``count`` bytes from ``offset``; the caller keeps within the region."""
        number, start = divmod(offset, PAGE_BYTES)
        if start + count <= PAGE_BYTES:
            page = self._pages.get(number)
            return bytes(count) if page is None else bytes(page[start : start + count])
        parts = []
        while count:
            length = min(count, PAGE_BYTES - start)
            page = self._pages.get(number)
            parts.append(bytes(length) if page is None else bytes(page[start : start + length]))
            number, start, count = number + 1, 0, count - length
        return b"".join(parts)

    def write(self, offset: int, data: bytes) -> None:
        """Keep ``data`` at ``offset``; zeros need no page, and a page beyond the budget is dropped."""
        number, start = divmod(offset, PAGE_BYTES)
        position = 0
        while position < len(data):
            chunk = data[position : position + PAGE_BYTES - start]
            page = self._pages.get(number)
            if page is None and any(chunk) and self._budget.take():
                page = self._pages[number] = bytearray(PAGE_BYTES)
            if page is not None:
                page[start : start + len(chunk)] = chunk
            number, start, position = number + 1, 0, position + len(chunk)

    def clear(self) -> None:
        """All zeros again; the pages go back to the budget."""
        self._budget.pages -= len(self._pages)
        self._pages.clear()
