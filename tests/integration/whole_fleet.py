# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One long run that several tests look at: the installed collection over both virtual hosts, one GPU after the other and all together."""

from __future__ import annotations

import pytest
from lab import Lab, Report, Stream

LIMIT_S = 5400.0


def whole_fleet(lab: Lab, stream: Stream, folders: pytest.TempPathFactory) -> Report:
    """The report of that run; it is made once per session, by whichever test comes first."""
    if lab.fleet is not None:
        return lab.fleet
    lab.once("the whole fleet")
    folder = folders.mktemp("installed")
    collections = folder / "collections"
    built = stream(["ansible-galaxy", "collection", "build", "--output-path", folder], cwd=lab.checkout, timeout_s=300)
    assert built.returncode == 0
    (tarball,) = folder.glob("gpulab-fleet-*.tar.gz")
    installed = stream(
        # Forced, because Ansible's settings of the checkout already know the collection.
        ["ansible-galaxy", "collection", "install", "--offline", "--force", "-p", collections, tarball],
        cwd=folder,
        timeout_s=300,
    )
    assert installed.returncode == 0
    assert (collections / "ansible_collections" / "gpulab" / "fleet" / "MANIFEST.json").is_file()
    elsewhere = folders.mktemp("elsewhere")
    run = lab.play(
        stream,
        "gpulab.fleet.passthrough",
        f"--inventory={lab.checkout / 'inventories' / 'virtual'}",
        *("-e", "gpus_together=true"),
        # An emulated VM keeps one core busy: two hosts at once are quicker on two cores.
        *("-e", "passthrough_serial=2"),
        cwd=elsewhere,
        timeout_s=LIMIT_S,
        ANSIBLE_COLLECTIONS_PATH=str(collections),
    )
    lab.fleet = run.report()
    assert run.returncode == 0, lab.fleet.failures()
    return lab.fleet
