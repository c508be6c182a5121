# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: aggregate
short_description: Say what is being waited for while a task takes long
version_added: 0.1.0
description:
  - Prints a line every few seconds while a task runs, with the time since it began, its name and its hosts.
  - Modules that run on this machine and write lines of progress (C(virtual_gpu_host) does) have their newest line shown as well.
  - Says nothing about tasks that end soon. It is no stdout callback and goes with any of them.
requirements:
  - Enable it with C(callbacks_enabled = gpulab.fleet.progress) in C(ansible.cfg).
options:
  after_s:
    description: Seconds that a task may take before anything is said about it.
    type: float
    default: 3
    env:
      - name: GPULAB_PROGRESS_AFTER_S
    ini:
      - section: callback_gpulab_progress
        key: after_s
  interval_s:
    description: Seconds between two lines.
    type: float
    default: 5
    env:
      - name: GPULAB_PROGRESS_INTERVAL_S
    ini:
      - section: callback_gpulab_progress
        key: interval_s
author:
  - The gpulab.fleet authors (@gpulab)
"""

import json
import os
import sys
import threading
import time
from typing import Any, NamedTuple

from ansible.plugins.callback import CallbackBase

from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import progress_dir

_HOSTS_SHOWN = 3
_TAIL_BYTES = 4096


class Running(NamedTuple):
    """A host that is at work on a task; times by the monotonic clock and by the calendar (progress files have the latter)."""

    host: str
    task: str
    began_s: float
    began_at: float


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpulab.fleet.progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Changed by Ansible's own thread, read by ours; a dictionary's single steps are atomic. There is no lock, because a fork that
        # happens while our thread holds one would take it along for ever.
        self._running: dict[str, Running] = {}
        self._stop = False
        self._thread: threading.Thread | None = None

    def v2_playbook_on_start(self, playbook: Any) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="gpulab-progress", daemon=True)
            self._thread.start()

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        name = host.get_name()
        self._running[name] = Running(name, task.get_name().strip(), time.monotonic(), time.time())

    def v2_runner_on_ok(self, result: Any) -> None:
        self._ended(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._ended(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._ended(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._ended(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._stop = True

    def _ended(self, result: Any) -> None:
        # 2.21 has `host`, where 2.19 has only `_host`.
        host = getattr(result, "host", None) or result._host
        self._running.pop(host.get_name(), None)

    def _watch(self) -> None:
        after_s, interval_s = float(self.get_option("after_s")), max(0.1, float(self.get_option("interval_s")))
        said_s = 0.0
        while not self._stop:
            time.sleep(min(0.5, interval_s / 2))
            now_s = time.monotonic()
            slow = [entry for entry in list(self._running.values()) if now_s - entry.began_s >= after_s]
            if slow and now_s - said_s >= interval_s:
                said_s = now_s
                if not say("".join(f"{line}\n" for line in describe(slow, now_s, progress_dir()))):
                    return


def describe(running: list[Running], now_s: float, folder: str) -> list[str]:
    """A line per task: time, name, hosts, and what a module of this machine said last since the task began."""
    tasks: dict[str, list[Running]] = {}
    for entry in sorted(running, key=lambda entry: entry.began_s):
        tasks.setdefault(entry.task, []).append(entry)
    lines = []
    for task, entries in tasks.items():
        hosts = ", ".join(entry.host for entry in entries[:_HOSTS_SHOWN])
        more = f" and {len(entries) - _HOSTS_SHOWN} more" if len(entries) > _HOSTS_SHOWN else ""
        line = f"… {now_s - entries[0].began_s:.0f} s  {task}  [{hosts}{more}]"
        said = newest_line(folder, entries[0].began_at)
        lines.append(f"{line}  {said}" if said else line)
    return lines


def newest_line(folder: str, since: float) -> str:
    """The newest line of all progress files that is not older than `since`; nothing rather than trouble."""
    newest, text = since, ""
    try:
        files = [
            entry
            for entry in os.scandir(folder)
            if entry.name.endswith(".jsonl") and entry.stat().st_mtime >= since - 1
        ]
    except OSError:
        return ""
    for entry in files:
        try:
            with open(entry.path, "rb") as stream:
                stream.seek(max(0, entry.stat().st_size - _TAIL_BYTES))
                last = stream.read().rstrip(b"\n").rpartition(b"\n")[2]
            said = json.loads(last)
            if float(said["time"]) >= newest:
                newest, text = float(said["time"]), f"{said['who']}: {said['text']}"
        except (OSError, ValueError, KeyError, TypeError):
            # A line that is only half written now is whole at the next look.
            continue
    return " ".join(text.split())


def say(text: str) -> bool:
    """Straight to the terminal or the log, past Python's buffers and their locks; False when nobody listens any more."""
    data = text.encode(getattr(sys.__stdout__, "encoding", None) or "utf-8", errors="replace")
    try:
        while data:
            data = data[os.write(1, data) :]
    except BlockingIOError:
        # A full pipe: this line is lost, the next one may find room.
        return True
    except OSError:
        return False
    return True
