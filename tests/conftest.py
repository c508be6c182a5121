# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes `ansible_collections.gpulab.fleet` importable from the checkout, here and in every child process of a test."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

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


@pytest.fixture(scope="session")
def real_data() -> Callable[..., Path]:
    """Finds dumps of real machines and real drivers, which lie beside the checkout and not in it.

    real_data("folder", "file") -> Path; the test is skipped, and says so, where there is none.
    """

    def find(*parts: str) -> Path:
        path = CHECKOUT.parent.joinpath("shared", "data", *parts)
        if not path.exists():
            pytest.skip(f"dumps of real machines are not beside this checkout: {'/'.join(parts)}")
        return path

    return find


class Finished(NamedTuple):
    """How a streamed command ended."""

    returncode: int
    output: str
    seconds: float


Stream = Callable[..., Finished]


@pytest.fixture(scope="session")
def stream(pytestconfig: pytest.Config) -> Stream:
    """Runs a long command and shows its lines as they come, past pytest's capture, with a sign of life when it is silent.

    stream(argv, cwd=..., timeout_s=..., silent_s=10, **environment) -> Finished. A command that outlives its limit is ended
    together with its children and the test fails with the last lines.
    """
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def show(text: str) -> None:
        with capture.global_and_fixture_disabled():
            sys.stdout.write(text)
            sys.stdout.flush()

    def run(
        argv: Sequence[object],
        cwd: Path = CHECKOUT,
        timeout_s: float = 1800,
        silent_s: float = 10,
        **environment: str,
    ) -> Finished:
        words = [str(word) for word in argv]
        started = time.monotonic()
        lines: list[str] = []
        arrived: queue.Queue[str | None] = queue.Queue()
        show(f"\n  $ {' '.join(words)}\n")
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                arrived.put(line)
            arrived.put(None)

        threading.Thread(target=read, daemon=True).start()
        last = started
        try:
            while True:
                now = time.monotonic()
                if now - started > timeout_s:
                    tail = "".join(lines[-40:])
                    limit = f"{' '.join(words)} is not done after {timeout_s:.0f} s"
                    pytest.fail(f"{limit}; its last lines:\n{tail}", pytrace=False)
                if now - last >= silent_s:
                    show(f"  ... {now - started:.0f} s, still running\n")
                    last = now
                try:
                    line = arrived.get(timeout=1)
                except queue.Empty:
                    # A daemon that inherited the pipe may keep it open for ever: the command's own end counts.
                    if process.poll() is not None:
                        break
                    continue
                if line is None:
                    break
                lines.append(line)
                show("  " + line)
                last = time.monotonic()
            returncode = process.wait(timeout=30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return Finished(returncode, "".join(lines), time.monotonic() - started)

    return run
