# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes `ansible_collections.gpulab.fleet` importable from the checkout, here and in every child process of a test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
# The link that lets playbooks run from a clone serves the tests as well.
COLLECTIONS = CHECKOUT / "playbooks" / "collections"


def pytest_configure() -> None:
    if not (COLLECTIONS / "ansible_collections" / "gpulab" / "fleet" / "galaxy.yml").is_file():
        raise pytest.UsageError(
            f"{COLLECTIONS}/ansible_collections/gpulab/fleet should be a link to {CHECKOUT}; restore it with git"
        )
    sys.path.insert(0, str(COLLECTIONS))
    for variable in ("PYTHONPATH", "ANSIBLE_COLLECTIONS_PATH"):
        others = [part for part in os.environ.get(variable, "").split(os.pathsep) if part]
        os.environ[variable] = os.pathsep.join([str(COLLECTIONS), *others])
    # Tools of the venv are found even when it is not activated.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    # Byte code of a checkout that several Pythons read at once stays out of it.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the collection's checkout."""
    return CHECKOUT
