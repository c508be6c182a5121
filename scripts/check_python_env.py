# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells whether the virtual environment that runs this file is whole.

Every pinned requirement has its version, every file of every package is there with its size, and the main packages import.
Usage: python check_python_env.py REQUIREMENTS...
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

# What must import, when it is among the requirements.
IMPORTS = {
    "ansible-core": "ansible.cli.playbook",
    "common-expression-language": "cel",
    "Jinja2": "jinja2",
    "kubernetes": "kubernetes",
    "pylxd": "pylxd",
    "pytest": "pytest",
    "PyYAML": "yaml",
}


def faults(requirement_files: list[str]) -> Iterator[str]:
    for distribution in metadata.distributions():
        for entry in distribution.files or ():
            if entry.size is None:
                continue
            path = Path(str(entry.locate()))
            if not path.is_file():
                yield f"{path} is missing"
            elif path.stat().st_size != entry.size:
                yield f"{path} has {path.stat().st_size} bytes instead of {entry.size}"

    from packaging.requirements import Requirement

    for name in requirement_files:
        for line in Path(name).read_text(encoding="utf-8").splitlines():
            text = line.split("#")[0].strip()
            if not text or text.startswith("-"):
                continue
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate():
                continue
            try:
                found = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                yield f"{requirement.name} is not installed"
                continue
            if not requirement.specifier.contains(found):
                yield f"{requirement.name} is {found} instead of {requirement.specifier}"
            if requirement.name in IMPORTS:
                importlib.import_module(IMPORTS[requirement.name])


def main() -> int:
    try:
        fault = next(faults(sys.argv[1:]), None)
    except (ImportError, SyntaxError, OSError, ValueError) as error:
        fault = f"{type(error).__name__}: {error}"
    if fault:
        print(f"virtual environment: {fault}", file=sys.stderr)
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
