# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the catalog is the catalog."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.machines import MACHINES
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.table import catalog_page

PAGE = Path(__file__).resolve().parents[5] / "docs" / "catalog.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == catalog_page(), (
        "renew it: python3 -m ansible_collections.gpulab.fleet.plugins.module_utils._catalog.table > docs/catalog.md"
    )


def test_the_page_names_everything_with_its_sources() -> None:
    page = catalog_page()
    for name, sources in [*((n, b.sources) for n, b in BOARDS.items()), *((n, m.sources) for n, m in MACHINES.items())]:
        section = page.split(f"### `{name}`\n")[1].split("### ")[0]
        assert all(text in section for text in sources.values())
