# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for QEMU: takes its arguments, listens where its ssh forward would, has its control socket, boots nothing.

The first argument is how it behaves: good, silent (nobody greets), panic, dies, stubborn (ignores the power button and SIGTERM),
taken:FILE (finds its port taken when it runs for the first time, which FILE tells).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def greet(listener: socket.socket) -> None:
    while True:
        connection, _peer = listener.accept()
        with connection:
            connection.sendall(b"SSH-2.0-fake\r\n")


def control(listener: socket.socket, stubborn: bool) -> None:
    while True:
        connection, _peer = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            stream.write(b'{"QMP": {"version": {}, "capabilities": []}}\n')
            stream.flush()
            for line in stream:
                command = json.loads(line)["execute"]
                # An event in between, as QEMU has them at any time.
                stream.write(b'{"event": "POWERDOWN", "data": {}}\n{"return": {}}\n')
                stream.flush()
                if command in ("system_powerdown", "quit") and not stubborn:
                    time.sleep(0.1)
                    os._exit(0)


def main() -> None:
    mode, arguments = sys.argv[1], sys.argv[2:]
    if arguments == ["--version"]:
        print("QEMU emulator version 11.1.3 (stand-in)")
        return
    print(f"stand-in in mode {mode}", flush=True)
    console = option(arguments, "-serial").partition(":")[2]
    with open(console, "w", encoding="utf-8") as stream:
        stream.write("[    0.000000] Linux version\n")
        if mode == "panic":
            stream.write("[    1.000000] Kernel panic - not syncing: VFS: Unable to mount root fs\n")
    if mode == "dies":
        print("qemu: could not load the firmware", file=sys.stderr)
        sys.exit(1)
    if mode.startswith("taken:") and not os.path.exists(mode[6:]):
        with open(mode[6:], "w", encoding="utf-8") as stream:
            stream.write("was here")
        print("qemu: Could not set up host forwarding rule", file=sys.stderr)
        sys.exit(1)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    port = int(re.search(r"hostfwd=tcp:127\.0\.0\.1:(\d+)-", " ".join(arguments)).group(1))  # type: ignore[union-attr]
    ssh = socket.socket()
    ssh.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ssh.bind(("127.0.0.1", port))
    ssh.listen()
    qmp = socket.socket(socket.AF_UNIX)
    path = re.match("unix:([^,]+)", option(arguments, "-qmp")).group(1)  # type: ignore[union-attr]
    if os.path.exists(path):
        os.unlink(path)
    qmp.bind(path)
    qmp.listen()
    if mode != "silent":
        threading.Thread(target=greet, args=(ssh,), daemon=True).start()
    control(qmp, mode == "stubborn")


if __name__ == "__main__":
    main()
