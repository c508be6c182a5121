# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.qmp import Qmp, QmpError

GREETING = b'{"QMP": {"version": {}, "capabilities": []}}\n'
FINE = b'{"return": {}}\n'


def serve(path: Path, greeting: bytes, answers: list[bytes]) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def run() -> None:
        with listener:
            connection, _peer = listener.accept()
            with connection, connection.makefile("rb") as stream:
                connection.sendall(greeting)
                for answer in answers:
                    if not stream.readline():
                        return
                    connection.sendall(answer)

    threading.Thread(target=run, daemon=True).start()


def test_events_between_command_and_answer_are_skipped(tmp_path: Path):
    serve(
        tmp_path / "qmp",
        GREETING,
        [FINE, b'{"event": "STOP"}\n{"event": "RESUME"}\n{"return": {"status": "running"}}\n'],
    )
    with Qmp(str(tmp_path / "qmp")) as qmp:
        assert qmp.execute("query-status") == {"status": "running"}


@pytest.mark.parametrize(
    ("greeting", "answers", "message"),
    [
        (b'{"hello": 1}\n', [], "is not QEMU's control socket"),
        (b"no json\n", [], "is not JSON"),
        (b"[1]\n", [], "is not an answer of QMP"),
        (
            GREETING,
            [FINE, b'{"error": {"class": "GenericError", "desc": "no such device"}}\n'],
            "refuses query-pci: no such device",
        ),
        (GREETING, [FINE], "closed|does not answer"),
        (GREETING, [FINE, b'{"event": "NOISE"}\n{"half'], "closed|does not answer|no whole answer"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, greeting: bytes, answers: list[bytes], message: str):
    serve(tmp_path / "qmp", greeting, answers)
    with pytest.raises(QmpError, match=message), Qmp(str(tmp_path / "qmp"), timeout_s=2.0) as qmp:
        qmp.execute("query-pci")


def test_a_peer_that_says_nothing_is_given_up(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "qmp"))
        listener.listen()
        with pytest.raises(QmpError, match="does not answer"), Qmp(str(tmp_path / "qmp"), timeout_s=0.2):
            pass


def test_no_socket_is_told(tmp_path: Path):
    with pytest.raises(QmpError, match="does not answer"), Qmp(str(tmp_path / "qmp")):
        pass
