# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""OUTDIR/bin: the programs that GPULAB_RELEASE names, from published releases, each checked against its published checksum.

Called as `python3 download_release.py OUTDIR`. GPULAB_RELEASE is JSON: {"what", "files": [{"name", "url", "checksum_url", "member"}]}.
Lines that begin with "@ " say what it is doing; it ends with a status other than 0 and the reason as its last line when a file cannot be had.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import tarfile
import time
import urllib.error
import urllib.request
from typing import Any, Callable, NoReturn, TypeVar

T = TypeVar("T")

ANSWER_TIMEOUT_S = 20.0
PAUSES_S = tuple(float(part) for part in os.environ.get("GPULAB_PAUSES_S", "3 10").split())
SAY_EACH_S = 4.0
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


class Failed(Exception):
    """A download that another try may save."""


class NoSuchHost(Failed):
    """A name that does not resolve, as on a computer without a way out: one more try is enough."""


def say(text: str) -> None:
    print(f"@ {text}", flush=True)


def die(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(1)


def main() -> None:
    outdir = sys.argv[1]
    release = json.loads(os.environ["GPULAB_RELEASE"])
    target, work = os.path.join(outdir, "bin"), os.path.join(outdir, "download")
    os.makedirs(target)
    os.makedirs(work)
    fetched: dict[str, str] = {}
    for entry in release["files"]:
        url = entry["url"]
        if url not in fetched:
            digest = tries(f"the checksum of {entry['name']}", lambda entry=entry: checksum(entry))
            path = os.path.join(work, f"{len(fetched)}")
            tries(entry["name"], lambda entry=entry, path=path, digest=digest: download(entry, path, digest))
            fetched[url] = path
        program = os.path.join(target, entry["name"])
        if entry["member"]:
            extract(fetched[url], entry["member"], program, url)
        else:
            shutil.copyfile(fetched[url], program)
        os.chmod(program, 0o755)
    shutil.rmtree(work)
    say(f"{release['what']} is downloaded")


def tries(what: str, work: Callable[[], T]) -> T:
    for pause_s in (*PAUSES_S, None):
        try:
            return work()
        except Failed as error:
            if pause_s is None or (isinstance(error, NoSuchHost) and pause_s != PAUSES_S[0]):
                die(f"{what} cannot be downloaded: {error}")
            say(f"{what}: {error}; again in {pause_s:g} s")
            time.sleep(pause_s)
    raise AssertionError("the last pause is None")


def opened(url: str) -> Any:
    try:
        return urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code in (408, 425, 429) or error.code >= 500:
            raise Failed(f"{url} answers {error.code}") from error
        die(f"{url} answers {error.code} {error.reason}; is there such a release? A mirror is named with download_urls")
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        kind = NoSuchHost if isinstance(reason, socket.gaierror) else Failed
        raise kind(f"{url}: {reason}") from error


def checksum(entry: dict[str, Any]) -> str:
    url = entry["checksum_url"]
    try:
        with opened(url) as answer:
            text = answer.read(1 << 22).decode(errors="replace")
    except OSError as error:
        raise Failed(f"{url}: {error}") from error
    digest = find_digest(text, entry["url"].rpartition("/")[2])
    if digest is None:
        die(f"{url} has no SHA-256 for {entry['url'].rpartition('/')[2]}")
    return digest


def find_digest(text: str, file: str) -> str | None:
    """A digest alone, `digest  name` lines, or the description of a GitHub release, whose assets have digests."""
    if text.lstrip().startswith("{"):
        for asset in json.loads(text).get("assets", []):
            if asset.get("name") == file:
                found = _DIGEST.search(str(asset.get("digest")))
                return found[0] if found else None
        return None
    lines = [line.split() for line in text.splitlines() if line.strip()]
    for words in lines:
        if len(words) >= 2 and words[-1].lstrip("*") == file and _DIGEST.fullmatch(words[0]):
            return words[0]
    if len(lines) == 1 and len(lines[0]) == 1 and _DIGEST.fullmatch(lines[0][0]):
        return lines[0][0]
    return None


def download(entry: dict[str, Any], path: str, digest: str) -> None:
    total = hashlib.sha256()
    done = 0
    said_at_s = time.monotonic()
    say(f"{entry['name']}: downloading {entry['url']}")
    try:
        with opened(entry["url"]) as answer, open(path, "wb") as stream:
            size = int(answer.headers.get("Content-Length") or 0)
            while True:
                block = answer.read(1 << 18)
                if not block:
                    break
                total.update(block)
                stream.write(block)
                done += len(block)
                if time.monotonic() - said_at_s >= SAY_EACH_S:
                    said_at_s = time.monotonic()
                    say(f"{entry['name']}: {done >> 20} of {size >> 20} MiB")
    except (OSError, socket.timeout) as error:
        raise Failed(f"{entry['url']}: {error} after {done} bytes") from error
    if size and done != size:
        raise Failed(f"{entry['url']}: {done} of {size} bytes came")
    if total.hexdigest() != digest:
        raise Failed(f"{entry['url']} has the SHA-256 {total.hexdigest()}, its publisher names {digest}")


def extract(archive: str, member: str, program: str, url: str) -> None:
    try:
        with tarfile.open(archive) as tar:
            source = tar.extractfile(member)
            if source is None:
                die(f"{member} in {url} is no file")
            with source, open(program, "wb") as stream:
                shutil.copyfileobj(source, stream)
    except (KeyError, tarfile.TarError) as error:
        die(f"{url} has no {member}: {error}")


if __name__ == "__main__":
    main()
