# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP request to an API server: kept connections, retries, warnings, errors with a name. Private to the collection."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional
from urllib.parse import urlencode

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.access import Access
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.certificates import expiry_note
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import (
    ApiError,
    Unauthorized,
    Unreachable,
    failure,
    retry_after_s,
)

try:
    from urllib3.exceptions import HTTPError, SSLError
    from urllib3.util import Timeout
except ImportError:
    # Without urllib3 there is no kubernetes client either, and `open_access` says so.
    pass

# Answers after which the same request may succeed. 409 is the callers' business, with one exception below.
_BUSY = (429, 500, 502, 503, 504)
# A server that always answers 500 has a fault that patience does not heal.
_BUSY_ATTEMPTS = 6
_CONNECT_S = 10.0
_READ_S = 60.0
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 8.0
_WARNING = re.compile(r'\s*\d{3}\s+\S+\s+"((?:[^"\\]|\\.)*)"')


@dataclass
class Answer:
    """What came back; `repeated` tells that an earlier attempt ended without an answer, so it may have been carried out."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    repeated: bool = False
    warnings: tuple[str, ...] = field(default=())

    def json(self) -> dict[str, Any]:
        data = json.loads(self.body) if self.body else {}
        return data if isinstance(data, dict) else {"value": data}


class Transport:
    """Sends requests over the connections of an `Access`; safe to use from many threads."""

    def __init__(
        self,
        access: Access,
        deadline: Deadline | None = None,
        patience_s: float = 20.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.access = access
        self.deadline = deadline
        self.patience_s = patience_s
        self.requests = 0
        self.warnings: list[str] = []
        self._sleep = sleep
        self._clock = clock
        self._chance = chance
        self._lock = threading.Lock()
        # Shared by all threads: when a server has been silent for too long, each of them gives up at once.
        self._silent_since: Optional[float] = None

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        verb: str = "",
        resource: str = "",
        name: str = "",
        namespace: str = "",
        timeout_s: float | None = None,
    ) -> Answer:
        """The answer of a request that succeeded; otherwise an ApiError or Unreachable."""
        target = f"{path}?{urlencode(query)}" if query else path
        sent = {"Accept": "application/json", "User-Agent": "gpulab.fleet"}
        data: Optional[bytes] = None
        if body is not None:
            data = json.dumps(body, separators=(",", ":")).encode()
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        busy, unanswered, renewed = 0, False, False
        while True:
            credentials = self.access.headers()
            try:
                response = self._once(method, target, data, {**sent, **credentials}, timeout_s)
            except SSLError as error:
                raise self._untrusted(error) from error
            except HTTPError as error:
                unanswered = True
                self._wait_for_server(error)
                continue
            answer = Answer(response.status, response.headers, response.data, unanswered, self._warnings(response))
            if answer.status < 300:
                return answer
            if answer.status == 401 and not renewed:
                renewed = True
                if self.access.renew(credentials):
                    continue
            refusal = failure(
                answer.status, answer.body, verb or method.lower(), resource, name, namespace, self.access.user
            )
            if isinstance(refusal, Unauthorized):
                refusal.message += expiry_note(self.access.client_cert)
            pause_s = self._pause_s(answer, refusal, method, busy)
            if pause_s is None:
                refusal.details["repeated"] = unanswered
                raise refusal
            busy += 1
            # A 5xx may come after the server has carried the request out.
            unanswered = unanswered or answer.status >= 500
            self._sleep(pause_s)

    def _once(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], timeout_s: float | None
    ) -> Any:
        read_s = timeout_s or _READ_S
        if self.deadline is not None:
            read_s = max(1.0, min(read_s, self.deadline.remaining_s()))
        with self._lock:
            self.requests += 1
        response = self.access.send(
            method,
            target,
            body=data,
            headers=headers,
            timeout=Timeout(connect=min(_CONNECT_S, read_s), read=read_s),
            retries=False,
            redirect=False,
            preload_content=True,
        )
        self._silent_since = None
        return response

    def _pause_s(self, answer: Answer, error: ApiError, method: str, attempts: int) -> Optional[float]:
        """How long to wait before the request is sent again; None when it should not be."""
        asked_s = retry_after_s(answer.headers, answer.body)
        # A quota that two requests change at once: nothing is wrong with this one.
        conflict = answer.status == 409 and error.reason == "Conflict" and method == "POST"
        if answer.status not in _BUSY and not conflict:
            return None
        # Somebody who asks for patience knows that it helps.
        if attempts >= _BUSY_ATTEMPTS and not (answer.status == 429 and asked_s is not None):
            return None
        pause_s = self._jitter(attempts) if asked_s is None else asked_s + self._jitter(0)
        if self.deadline is not None and pause_s >= self.deadline.remaining_s():
            if answer.status == 429:
                error.message += f"; it asks for {pause_s:.0f} s of patience, but {self.deadline.remaining_s():.0f} s are left (timeout_s)"
            return None
        return pause_s

    def _jitter(self, attempts: int) -> float:
        """Full jitter: clients that were refused together do not come back together."""
        longest_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * float(2**attempts))
        return longest_s * (0.5 + 0.5 * self._chance())

    def _wait_for_server(self, error: Exception) -> None:
        """Pause after a connection that failed, or give up when the server has been silent for too long."""
        now_s = self._clock()
        with self._lock:
            if self._silent_since is None:
                self._silent_since = now_s
            silent_s = now_s - self._silent_since
        left_s = self.patience_s - silent_s
        if self.deadline is not None:
            left_s = min(left_s, self.deadline.remaining_s())
        if left_s <= 0:
            raise Unreachable(
                f"the API server {self.access.host} ({self.access.source}) does not answer"
                f"{f' since {silent_s:.0f} s' if silent_s >= 1 else ''}: {_words(error)}; does it run, and is the address right?",
                host=self.access.host,
            ) from error
        self._sleep(min(left_s, self._jitter(1)))

    def _untrusted(self, error: Exception) -> Unreachable:
        words = _words(error)
        remedy = (
            "is the address right, and does ca_cert (or the kubeconfig) name the authority that signed its certificate?"
        )
        if "expired" in words:
            remedy = "the server's certificate, or that of its authority, has to be renewed"
        return Unreachable(
            f"cannot trust {self.access.host} ({self.access.source}): {words}; {remedy}", host=self.access.host
        )

    def _warnings(self, response: Any) -> tuple[str, ...]:
        values = response.headers.getlist("Warning")
        if not values:
            return ()
        texts = tuple(text for value in values for text in parse_warnings(value))
        with self._lock:
            self.warnings += [text for text in texts if text not in self.warnings]
        return texts


def parse_warnings(value: str) -> list[str]:
    """The texts of a Warning header, which may hold several: `299 - "text", 299 - "other"`."""
    found = [re.sub(r"\\(.)", r"\1", match.group(1)) for match in _WARNING.finditer(value)]
    return found or ([value.strip()] if value.strip() else [])


def _words(error: Exception) -> str:
    """An exception of urllib3 without the addresses of Python objects."""
    cause = error.args[-1] if error.args else error
    text = " ".join(str(cause if not isinstance(cause, tuple) else error).split())
    text = re.sub(r"<[^>]*object at 0x[0-9a-f]+>[,:]?\s*", "", text)
    text = re.sub(r"\(_ssl\.c:\d+\)", "", text).strip()
    return text or type(error).__name__
