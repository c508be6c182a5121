# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published releases, fetched from a server on loopback: checked, retried, refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "roles" / "control_plane" / "files" / "download_release.py"
PROGRAM = b"#!/bin/sh\n" + b"x" * 700_000


def archive() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        entry = tarfile.TarInfo("etcd-v1/etcd")
        entry.size = len(PROGRAM)
        tar.addfile(entry, io.BytesIO(PROGRAM))
    return stream.getvalue()


class Releases(ThreadingHTTPServer):
    """Answers by path; `faults` are used up before the right answer is given."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[str]] = {}
        self.asked: list[str] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Releases

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        faults = self.server.faults.get(self.path, [])
        fault = faults.pop(0) if faults else ""
        body = self.server.files.get(self.path)
        if body is None or fault.isdigit():
            self.send_error(int(fault or 404))
            return
        if fault == "changed":
            body = body[:-1] + b"y"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "short" else body)

    def log_message(self, *_arguments: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[Releases]:
    releases = Releases()
    threading.Thread(target=releases.serve_forever, daemon=True).start()
    packed = archive()
    digests = {"kubectl": hashlib.sha256(PROGRAM).hexdigest(), "etcd.tar.gz": hashlib.sha256(packed).hexdigest()}
    releases.files = {
        "/kubectl": PROGRAM,
        "/kubectl.sha256": digests["kubectl"].encode(),
        "/etcd.tar.gz": packed,
        "/SHA256SUMS": "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode(),
        "/release": json.dumps({"assets": [{"name": "kubectl", "digest": f"sha256:{digests['kubectl']}"}]}).encode(),
    }
    yield releases
    releases.shutdown()
    releases.server_close()


def fetch(out: Path, *files: dict[str, Any], **environment: str) -> subprocess.CompletedProcess[str]:
    out.mkdir(exist_ok=True)
    release = json.dumps({"what": "Kubernetes 1.0.0", "files": files})
    # A proxy of the user's would not know this server.
    environ = {**os.environ, "GPULAB_RELEASE": release, "GPULAB_PAUSES_S": "0 0", "no_proxy": "*", **environment}
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(out)], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def kubectl(server: Releases, checksum: str = "/kubectl.sha256") -> dict[str, Any]:
    return {"name": "kubectl", "url": server.url("/kubectl"), "checksum_url": server.url(checksum), "member": None}


def etcd(server: Releases, member: str = "etcd-v1/etcd") -> dict[str, Any]:
    return {
        "name": "etcd",
        "url": server.url("/etcd.tar.gz"),
        "checksum_url": server.url("/SHA256SUMS"),
        "member": member,
    }


@pytest.mark.parametrize("checksum", ["/kubectl.sha256", "/SHA256SUMS", "/release"])
def test_a_program_is_checked_against_each_kind_of_checksum(server: Releases, tmp_path: Path, checksum: str):
    done = fetch(tmp_path / "out", kubectl(server, checksum))
    assert done.returncode == 0, done.stderr
    program = tmp_path / "out" / "bin" / "kubectl"
    assert program.read_bytes() == PROGRAM and os.access(program, os.X_OK)
    assert os.listdir(tmp_path / "out") == ["bin"]
    assert "@ kubectl: downloading http://127.0.0.1" in done.stdout


def test_programs_of_one_archive_are_fetched_once(server: Releases, tmp_path: Path):
    done = fetch(tmp_path / "out", etcd(server), {**etcd(server), "name": "again"})
    assert done.returncode == 0, done.stderr
    assert {name: (tmp_path / "out/bin" / name).read_bytes() for name in ("etcd", "again")} == {
        "etcd": PROGRAM,
        "again": PROGRAM,
    }
    assert server.asked.count("/etcd.tar.gz") == 1


@pytest.mark.parametrize("fault", ["short", "changed", "503", "429"])
def test_a_passing_fault_is_tried_again(server: Releases, tmp_path: Path, fault: str):
    server.faults["/kubectl"] = [fault]
    done = fetch(tmp_path / "out", kubectl(server))
    assert done.returncode == 0, done.stderr
    assert "again in 0 s" in done.stdout and server.asked.count("/kubectl") == 2


def test_another_content_than_published_is_refused(server: Releases, tmp_path: Path):
    server.files["/kubectl"] = PROGRAM + b"more"
    done = fetch(tmp_path / "out", kubectl(server))
    assert done.returncode == 1
    assert "its publisher names" in done.stderr and server.asked.count("/kubectl") == 3
    assert not (tmp_path / "out" / "bin" / "kubectl").exists()


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("/kubectl", None, "answers 404"),
        ("/kubectl.sha256", None, "answers 404"),
        ("/kubectl.sha256", b"<html>captive portal</html>", "has no SHA-256 for kubectl"),
        ("/kubectl.sha256", b'{"assets": []}', "has no SHA-256 for kubectl"),
    ],
)
def test_what_another_try_does_not_change_ends_it_at_once(
    server: Releases, tmp_path: Path, path: str, content, says: str
):
    if content is None:
        del server.files[path]
    else:
        server.files[path] = content
    done = fetch(tmp_path / "out", kubectl(server))
    assert done.returncode == 1 and says in done.stderr
    assert server.asked.count(path) == 1


def test_an_archive_without_the_program_is_named(server: Releases, tmp_path: Path):
    done = fetch(tmp_path / "out", etcd(server, "etcd-v2/etcd"))
    assert done.returncode == 1 and "has no etcd-v2/etcd" in done.stderr


def test_without_a_way_out_it_gives_up_soon(tmp_path: Path):
    entry = {
        "name": "kubectl",
        "url": "https://no-such-host.invalid/k",
        "checksum_url": "https://no-such-host.invalid/s",
        "member": None,
    }
    done = fetch(tmp_path / "out", entry, GPULAB_PAUSES_S="0 50")
    assert done.returncode == 1
    assert done.stdout.count("again in") == 1 and "cannot be downloaded: https://no-such-host.invalid/s" in done.stderr
