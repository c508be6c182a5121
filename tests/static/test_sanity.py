# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test sanity on a copy of the collection, with nothing ignored."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import FileLock

# What ansible-test downloads to bring pip into its environments. Its own error message names the file to put there by hand
# when the download is not possible; this is such a file, from what Python brings along.
GET_PIP = '''\
"""Brings pip into a virtual environment from Python's own ensurepip, then installs what was asked for."""
import ensurepip
import os
import runpy
import sys

# ensurepip turns off the user's pip settings in this very process.
settings = dict(os.environ)
ensurepip.bootstrap()
os.environ.clear()
os.environ.update(settings)
sys.argv = ["pip", "install", *(word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel"))]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
'''


def ansible_test_source() -> Path:
    ansible_test = pytest.importorskip(
        "ansible_test", reason="ansible-test is not installed here; `make test` brings it"
    )
    return Path(next(iter(ansible_test.__path__)))


def bring_get_pip(home: Path) -> None:
    """Only where the download does not work; the names come from the ansible-test that is installed."""
    source = ansible_test_source()
    requirements = (source / "_util" / "target" / "setup" / "requirements.py").read_text(encoding="utf-8")
    url = re.search(r"url = '(https://[^']*get-pip-%s\.py)'", requirements)
    version = re.search(
        r"\bpip='([\d.]+)'", (source / "_internal" / "python_requirements.py").read_text(encoding="utf-8")
    )
    if not url or not version:
        return
    target = home / ".ansible" / "test" / "cache" / f"get_pip_{version[1].replace('.', '_')}.py"
    if target.exists() and "ensurepip" not in target.read_text(encoding="utf-8"):
        return
    try:
        urllib.request.urlopen(url[1] % version[1], timeout=10).close()
    except (urllib.error.URLError, OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(GET_PIP, encoding="utf-8")


def bring_pip_settings(home: Path) -> None:
    """The user's index, certificates and the like: ansible-test hands on neither PIP_* variables nor the user's own file."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    settings = dict(re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", listing, re.M))
    target = home / ".config" / "pip" / "pip.conf"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()), encoding="utf-8")


def test_ignore_files_are_empty(checkout):
    files = sorted((checkout / "tests" / "sanity").glob("ignore-*.txt"))
    assert {"ignore-2.19.txt", "ignore-2.21.txt"} <= {path.name for path in files}
    assert [path.name for path in files if path.read_bytes()] == []


@pytest.mark.timeout(900)
def test_sanity(collection_copy, tool_cache, capfd):
    ansible_test_source()
    # A home of its own: the user's ~/.ansible stays as it is, and the environments that ansible-test makes are found again.
    home = tool_cache / "ansible-test-home"
    home.mkdir(exist_ok=True)
    bring_get_pip(home)
    bring_pip_settings(home)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = ["ansible-test", "sanity", "--python", version, "--color", "no", "--truncate", "0"]
    lines: list[str] = []
    with FileLock(str(tool_cache / "ansible-test.lock"), timeout_s=600):
        environment = {**os.environ, "HOME": str(home)}
        # ansible-test refuses to run with these, or would look for other collections.
        for variable in ("ANSIBLE_COLLECTIONS_PATH", "PYTHONPATH", "ANSIBLE_CONFIG", "PYTHONDONTWRITEBYTECODE"):
            environment.pop(variable, None)
        with subprocess.Popen(
            command,
            cwd=collection_copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                lines.append(line)
                if line.startswith("Running sanity test"):
                    with capfd.disabled():
                        print(f"\n  {line.strip()}", end="", flush=True)
    if running.returncode != 0:
        findings = [line for line in lines if line.startswith(("ERROR:", "FATAL:"))] or lines
        pytest.fail(f"{' '.join(command)} ended with {running.returncode}:\n{''.join(findings)}", pytrace=False)
    assert "validate-modules" in "".join(lines)
