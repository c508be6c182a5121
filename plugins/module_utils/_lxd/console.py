# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VM's serial console from its first byte on, and how far the guest has come by what it printed. Private to the collection."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections import deque
from types import TracebackType
from typing import Optional, Sequence

_RECONNECT_S = 0.2
_RECEIVE_S = 0.5
_LINE_LIMIT = 400
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])|[\x00-\x08\x0b-\x1f\x7f]")

PANIC, USERSPACE, KERNEL, NOT_BOOTABLE, FIRMWARE, SILENT = (
    "panic",
    "userspace",
    "kernel",
    "not_bootable",
    "firmware",
    "silent",
)

# What kernels, init systems and OVMF print; the furthest stage comes first.
_STAGES = (
    (PANIC, re.compile(r"Kernel panic - not syncing")),
    (
        USERSPACE,
        re.compile(r"^\S+ login:|systemd\[1\]|Welcome to |Run /\S*init as init process|cloud-init\[", re.MULTILINE),
    ),
    (KERNEL, re.compile(r"Linux version [0-9]|EFI stub: |^\[ +[0-9]+\.[0-9]{6}\] ", re.MULTILINE)),
    (
        NOT_BOOTABLE,
        re.compile(r"BdsDxe: (?:No bootable option|failed to (?:load|start))|Access Denied|Security Violation"),
    ),
)
_FIRMWARE_LINE = re.compile(r"BdsDxe|UEFI|TianoCore|PXE|SeaBIOS|Booting from|iPXE", re.IGNORECASE)


class ConsoleReader:
    """Follows the console's socket in a thread and keeps the last lines. QEMU serves one client: leave when done.

    Used as a context manager, entered before the VM starts: what is printed while nobody is connected is lost.
    """

    def __init__(self, paths: Sequence[str], keep_lines: int = 200) -> None:
        self._paths = tuple(paths)
        self._lines: deque[str] = deque(maxlen=keep_lines)
        self._partial = ""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpulab-console", daemon=True)

    def __enter__(self) -> ConsoleReader:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=_RECEIVE_S * 4)

    def lines(self, count: int = 0) -> list[str]:
        """The last lines, without escape sequences; 0 means all that are kept."""
        with self._lock:
            last = plain_text(self._partial)
            kept = [*self._lines, *([last] if last else [])]
        return kept[-count:] if count else kept

    def _run(self) -> None:
        while not self._stop.is_set():
            connection = self._connect()
            if connection is None:
                self._stop.wait(_RECONNECT_S)
                continue
            with connection:
                self._follow(connection)

    def _connect(self) -> Optional[socket.socket]:
        for path in self._paths:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(path)
            except OSError:
                # Not there yet, or its QEMU is gone; another path or another moment may do.
                connection.close()
                continue
            connection.settimeout(_RECEIVE_S)
            return connection
        return None

    def _follow(self, connection: socket.socket) -> None:
        while not self._stop.is_set():
            try:
                data = connection.recv(65536)
            except socket.timeout:
                continue
            except OSError:
                return
            if not data:
                return
            self._take(data.decode("utf-8", errors="replace"))

    def _take(self, text: str) -> None:
        with self._lock:
            whole = self._partial + text.replace("\r\n", "\n").replace("\r", "\n")
            *lines, self._partial = whole.split("\n")
            # A guest that prints without line ends must not grow this process.
            self._partial = self._partial[-_LINE_LIMIT:]
            for line in lines:
                clean = plain_text(line)
                if clean:
                    self._lines.append(clean)


def console_paths(folders: Sequence[str]) -> list[str]:
    """LXD names the socket qemu.console in the instance's log folder (driver_qemu.go consolePath, 5.0.2 to 6.9)."""
    return [os.path.join(folder, "qemu.console") for folder in folders]


def plain_text(line: str) -> str:
    """A console line as a person reads it."""
    return _ESCAPES.sub("", line).rstrip()[:_LINE_LIMIT]


def boot_stage(lines: Sequence[str]) -> str:
    """The furthest stage that the console shows."""
    text = "\n".join(lines)
    for stage, pattern in _STAGES:
        if pattern.search(text):
            return stage
    spoken = [line for line in lines if line.strip()]
    if not spoken:
        return SILENT
    # A quiet kernel prints nothing; anything that is not the firmware's comes from the guest.
    return FIRMWARE if all(_FIRMWARE_LINE.search(line) for line in spoken) else KERNEL
