# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download a file with a checksum, retried within a deadline. Private to the collection."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
from typing import Callable

from ansible.module_utils.urls import open_url

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

_CHUNK_BYTES = 1024 * 1024
_PAUSE_S = 2.0
_TRIES = 5
_REQUEST_TIMEOUT_S = 30.0
_SAY_EVERY_S = 2.0


class DownloadError(FleetError):
    """A file that could not be fetched, or that is not what its checksum promises."""


def sha256_of(*paths: str) -> str:
    """The digest of one file, or of several one after the other (LXD's fingerprint of a split image)."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as stream:
            for chunk in iter(lambda: stream.read(_CHUNK_BYTES), b""):
                digest.update(chunk)
    return digest.hexdigest()


def download(
    url: str,
    target: str,
    sha256: str,
    deadline: Deadline,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch `url` into `target`. Network faults and 5xx answers are tried again; a wrong checksum or a 4xx answer is final."""
    for attempt in range(1, _TRIES + 1):
        try:
            actual = _fetch(url, target, deadline, say)
        except urllib.error.HTTPError as error:
            failure: Exception = error
            if error.code < 500:
                break
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            failure = error
        else:
            if actual != sha256:
                raise DownloadError(
                    f"{url} has the sha256 {actual} and not {sha256}; correct the checksum, or find out who changed the file",
                    url=url,
                    expected=sha256,
                    actual=actual,
                )
            return
        if attempt == _TRIES or deadline.expired():
            break
        say(f"download of {url} failed ({failure}); trying again")
        sleep(min(_PAUSE_S, deadline.remaining_s()))
    raise DownloadError(
        f"{url} could not be downloaded: {failure}; see whether this host reaches it", url=url
    ) from failure


def _fetch(url: str, target: str, deadline: Deadline, say: Callable[[str], None]) -> str:
    digest = hashlib.sha256()
    done_bytes = 0
    said_s = 0.0
    # The checksum is that of the bytes as served: nothing may unpack them on the way.
    with open_url(url, timeout=_REQUEST_TIMEOUT_S, decompress=False) as response, open(target, "wb") as stream:
        total = response.headers.get("Content-Length")
        while True:
            chunk = response.read(_CHUNK_BYTES)
            if not chunk:
                break
            digest.update(chunk)
            stream.write(chunk)
            done_bytes += len(chunk)
            if deadline.expired():
                raise DownloadError(
                    f"{url} did not arrive within {deadline.timeout_s:.0f} s ({done_bytes} bytes came); raise timeout_s",
                    url=url,
                )
            if deadline.elapsed_s() - said_s >= _SAY_EVERY_S:
                said_s = deadline.elapsed_s()
                say(
                    f"downloading {url}: {done_bytes // 2**20} MiB"
                    + (f" of {int(total) // 2**20} MiB" if total else "")
                )
        if total is not None and done_bytes != int(total):
            raise http.client.IncompleteRead(b"", int(total) - done_bytes)
    return digest.hexdigest()
