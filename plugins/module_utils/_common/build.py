# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# pylint: disable=ansible-bad-function  # run_command has no deadline, and no module is at hand here
"""Runs a build script once per content: cached by key, safe under two runs at once, re-made when damaged. Private to the collection."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import IO, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired, FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.files import FileLock
from ansible_collections.gpulab.fleet.plugins.module_utils._common.logs import excerpt, tail
from ansible_collections.gpulab.fleet.plugins.module_utils._common.manifest import MANIFEST, damage, write_manifest
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress

# A script says what it is doing with lines that begin so; everything else goes to the log only.
PROGRESS_MARK = "@ "
HEARTBEAT_S = 5.0


class BuildError(FleetError):
    """A build script failed; the details hold the end of its log."""


@dataclass(frozen=True)
class Recipe:
    """What is built: `bash SCRIPT OUTDIR`, or our own Python for a script in that language, must make the outputs in OUTDIR.

    The parameters are in its environment.
    """

    kind: str
    script: str
    outputs: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Built:
    path: str
    key: str
    fresh: bool
    seconds: float

    def output(self, name: str) -> str:
        return os.path.join(self.path, name)


def key_of(recipe: Recipe) -> str:
    """A digest of the script, of the files beside it that it names (and those that these name), and of the parameters."""
    total = hashlib.sha256()
    for name, content in sorted(_script_files(recipe.script).items()):
        for part in (name.encode(), content):
            total.update(hashlib.sha256(part).digest())
    total.update(json.dumps([recipe.kind, recipe.outputs, sorted(recipe.parameters)]).encode())
    return total.hexdigest()[:20]


def find(recipe: Recipe, cache_root: str) -> Optional[Built]:
    """The finished build, if it is there and sound; builds nothing."""
    key = key_of(recipe)
    path = os.path.join(cache_root, recipe.kind, key)
    return Built(path, key, False, 0.0) if os.path.isdir(path) and damage(path) is None else None


def ensure(recipe: Recipe, cache_root: str, progress: Progress, timeout_s: float) -> Built:
    """The finished build: from the cache, from the run that is just making it, or made now."""
    key = key_of(recipe)
    path = os.path.join(cache_root, recipe.kind, key)
    if os.path.isdir(path) and damage(path) is None:
        return Built(path, key, False, 0.0)
    deadline = Deadline(timeout_s)
    lock = _locked(os.path.join(cache_root, recipe.kind, f".{key}.lock"), recipe, progress, deadline)
    try:
        return _ensure_locked(recipe, key, cache_root, progress, deadline)
    finally:
        lock.release()


def _ensure_locked(recipe: Recipe, key: str, cache_root: str, progress: Progress, deadline: Deadline) -> Built:
    folder = os.path.join(cache_root, recipe.kind)
    path = os.path.join(folder, key)
    _sweep(folder, f".building-{key}")
    if os.path.isdir(path):
        reason = damage(path)
        if reason is None:
            return Built(path, key, False, deadline.elapsed_s())
        progress.say(f"{recipe.kind}: the cached build is damaged ({reason}), building it again")
        _remove_tree(path)
    temporary = os.path.join(folder, f".building-{key}-{os.getpid()}")
    os.makedirs(temporary, mode=0o755)
    try:
        _run(recipe, key, temporary, cache_root, progress, deadline)
        about = {"kind": recipe.kind, "key": key, "parameters": dict(recipe.parameters)}
        write_manifest(temporary, recipe.outputs, about)
        os.rename(temporary, path)
    except BaseException:
        _remove_tree(temporary)
        raise
    progress.say(f"{recipe.kind}: built in {deadline.elapsed_s():.0f} s")
    return Built(path, key, True, deadline.elapsed_s())


def _locked(path: str, recipe: Recipe, progress: Progress, deadline: Deadline) -> FileLock:
    """The lock, held; a person who waits for another run is told so."""
    lock = FileLock(path, 0.0)
    try:
        lock.acquire()
    except DeadlineExpired:
        progress.say(f"{recipe.kind}: another run is building it, waiting")
        lock = FileLock(path, deadline.remaining_s())
        lock.acquire()
    return lock


def _run(recipe: Recipe, key: str, outdir: str, cache_root: str, progress: Progress, deadline: Deadline) -> None:
    log = os.path.join(cache_root, "logs", f"{recipe.kind}-{key}.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    progress.say(f"{recipe.kind}: building, log in {log}")
    with open(log, "wb") as stream:
        try:
            process = subprocess.Popen(
                [sys.executable if recipe.script.endswith(".py") else "bash", recipe.script, outdir],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                env={**os.environ, **dict(recipe.parameters)},
                start_new_session=True,
            )
        except OSError as error:
            raise BuildError(f"{recipe.kind}: {recipe.script} does not start: {error}") from error
        watch = _Watch(recipe.kind, progress, deadline)
        reader = threading.Thread(target=watch.read, args=(process.stdout, stream), daemon=True)
        reader.start()
        try:
            status = _wait(process, watch, deadline)
        except BaseException:
            _end_group(process)
            raise
        # A background process of the script could keep the pipe open; its output is not waited for.
        reader.join(timeout=5.0)
    if status is None:
        raise BuildError(
            f"{recipe.kind}: not built within {deadline.timeout_s:.0f} s; last step: {watch.last}. Log: {log}",
            log=log,
            excerpt=tail(log),
        )
    if status != 0:
        raise BuildError(
            f"{recipe.kind}: the build ended with status {status} at step: {watch.last}. {excerpt(log)}",
            log=log,
            excerpt=tail(log),
        )
    missing = [name for name in recipe.outputs if not os.path.exists(os.path.join(outdir, name))]
    if missing:
        raise BuildError(
            f"{recipe.kind}: {os.path.basename(recipe.script)} ended well but made no {', '.join(missing)}. Log: {log}",
            log=log,
        )


class _Watch:
    """Turns a script's output into progress: its own lines, and a heartbeat when it is silent."""

    def __init__(self, kind: str, progress: Progress, deadline: Deadline) -> None:
        self.kind = kind
        self.last = "start"
        self._progress = progress
        self._deadline = deadline
        self._said_at_s = deadline.elapsed_s()

    def read(self, pipe: IO[bytes], log: IO[bytes]) -> None:
        for line in pipe:
            log.write(line)
            log.flush()
            text = line.decode(errors="replace").rstrip()
            if text.startswith(PROGRESS_MARK):
                self.last = text[len(PROGRESS_MARK) :].strip()
                self._say(self.last)

    def heartbeat(self) -> None:
        if self._deadline.elapsed_s() - self._said_at_s >= HEARTBEAT_S:
            self._say(f"still at: {self.last}")

    def _say(self, text: str) -> None:
        self._said_at_s = self._deadline.elapsed_s()
        self._progress.say(f"{self.kind}: {text} ({self._said_at_s:.0f} s)")


def _wait(process: subprocess.Popen[bytes], watch: _Watch, deadline: Deadline) -> Optional[int]:
    while True:
        try:
            return process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            watch.heartbeat()
        if deadline.expired():
            _end_group(process)
            return None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the script and what it started: the session is its own, and its leader is not reaped before it was signalled."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _script_files(script: str) -> dict[str, bytes]:
    folder = os.path.dirname(os.path.abspath(script))
    try:
        siblings = sorted(os.listdir(folder))
        pending = [os.path.basename(script)]
        found: dict[str, bytes] = {}
        while pending:
            name = pending.pop()
            if name in found:
                continue
            found.update(_contents(folder, name))
            text = b"\n".join(content for path, content in found.items() if path.split("/")[0] == name)
            pending.extend(sibling for sibling in siblings if sibling not in found and sibling.encode() in text)
            found.setdefault(name, b"")
    except OSError as error:
        raise BuildError(f"the build script {script} cannot be read: {error}", script=script) from error
    return found


def _contents(folder: str, name: str) -> Mapping[str, bytes]:
    path = os.path.join(folder, name)
    if not os.path.isdir(path):
        with open(path, "rb") as stream:
            return {name: stream.read()}
    contents: dict[str, bytes] = {}
    for base, _folders, files in sorted(os.walk(path)):
        for file in sorted(files):
            with open(os.path.join(base, file), "rb") as stream:
                contents[os.path.relpath(os.path.join(base, file), folder)] = stream.read()
    return contents


def _sweep(folder: str, prefix: str) -> None:
    """Remove what a killed run left; the caller holds the lock, so nobody is at it."""
    for name in os.listdir(folder):
        if name.startswith(prefix):
            _remove_tree(os.path.join(folder, name))


def _remove_tree(path: str) -> None:
    """Remove a folder, but nothing through a mount that a killed debootstrap may have left in it."""
    for mount in reversed(_mounts_below(path)):
        subprocess.run(
            ["umount", "--lazy", mount],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    left = _mounts_below(path)
    if left:
        raise BuildError(f"{left[0]} is still mounted, so {path} is not removed; unmount it", mounts=left)
    shutil.rmtree(path, ignore_errors=False)


def _mounts_below(path: str) -> list[str]:
    real = os.path.realpath(path)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
            points = [line.split(" ")[4].encode("utf-8", "surrogateescape").decode("unicode_escape") for line in stream]
    except OSError:
        return []
    return sorted(point for point in points if point == real or point.startswith(real + "/"))


__all__ = ["MANIFEST", "BuildError", "Built", "Recipe", "ensure", "find", "key_of"]
