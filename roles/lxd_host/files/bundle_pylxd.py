# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the controller: fetches the wheels that fit a host's Python and packs them into one archive for its site-packages.

Prints JSON: {"bundle": path, "key": text, "made": bool}. Archives stay in the cache, one for each Python, machine, C library and list of pins.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

LOCK_TIMEOUT_S = 600


def platforms(machine: str, libc: str) -> list[str]:
    """All wheel tags that the host can use, newest first. pip takes these names literally, so older ones are listed as well (PEP 600, PEP 656)."""
    kind, _dash, version = libc.partition("-")
    found = re.match(r"(\d+)\.(\d+)", version)
    if kind == "glibc" and found:
        newest = int(found[2])
        tags = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 16, -1)]
        return [*tags, f"manylinux2014_{machine}", f"linux_{machine}"]
    # Alpine and its kin; platform.libc_ver() knows no musl.
    return [f"musllinux_1_{minor}_{machine}" for minor in (2, 1)] + [f"linux_{machine}"]


def download(python: str, tags: list[str], pins: list[str], folder: str) -> None:
    digits = python.replace(".", "")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--retries",
        "5",
        "--timeout",
        "60",
    ]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    for abi in (f"cp{digits}", "abi3", "none"):
        command += ["--abi", abi]
    for tag in tags:
        command += ["--platform", tag]
    pause_s = 2
    for attempt in range(4):
        ended = subprocess.run([*command, "--dest", folder, *pins], capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            return
        if "No module named pip" in ended.stderr or attempt == 3:
            break
        time.sleep(pause_s)
        pause_s *= 2
    raise SystemExit(
        f"no wheels of {', '.join(pins)} for Python {python} on {tags[0]}: {ended.stderr.strip()[-1500:]}\n"
        "Either make a package index reachable from this controller (pip's own settings apply), or install pylxd on the host, which is then used as it is."
    )


def files_of(wheel: Path) -> dict[str, bytes]:
    """A wheel's files by their place below site-packages. Scripts and headers are left out: nobody calls them here."""
    files = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = name.split("/")
            if name.endswith("/"):
                continue
            if parts[0].endswith(".data"):
                if parts[1] not in ("purelib", "platlib"):
                    continue
                parts = parts[2:]
            if ".." in parts or parts[0] == "":
                raise SystemExit(f"{wheel.name} has an entry that leaves its folder: {name}")
            files["/".join(parts)] = archive.read(name)
    return files


def pack(wheels: list[Path]) -> bytes:
    """The same wheels always give the same bytes."""
    files: dict[str, bytes] = {}
    for wheel in sorted(wheels):
        files.update(files_of(wheel))
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(files[name]), 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()


def whole(bundle: Path) -> bool:
    """Whether the archive is what was written: its name's neighbour holds the checksum."""
    try:
        return hashlib.sha256(bundle.read_bytes()).hexdigest() == bundle.with_suffix(".sha256").read_text().strip()
    except OSError:
        return False


def write(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    os.replace(temporary, path)


def lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > end:
                raise SystemExit(f"{path} is still locked by another run after {LOCK_TIMEOUT_S} s") from None
            time.sleep(0.3)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache")) / "gpulab-fleet" / "pylxd"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--libc", required=True)
    parser.add_argument("--pin", action="append", required=True)
    arguments = parser.parse_args()
    tags = platforms(arguments.machine, arguments.libc)
    pins = sorted(arguments.pin)
    key = hashlib.sha256("\n".join([arguments.python, *tags, *pins]).encode()).hexdigest()[:16]
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    bundle = folder / f"{arguments.python}-{key}.tar.gz"
    held = lock(folder / f".{key}.lock")
    made = not whole(bundle)
    if made:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".wheels-") as wheels:
            download(arguments.python, tags, pins, wheels)
            content = pack(sorted(Path(wheels).glob("*.whl")))
        write(bundle, content)
        write(bundle.with_suffix(".sha256"), hashlib.sha256(content).hexdigest().encode())
    os.close(held)
    print(json.dumps({"bundle": str(bundle), "key": f"{arguments.python}-{key}", "made": made}))


if __name__ == "__main__":
    main()
