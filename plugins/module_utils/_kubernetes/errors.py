# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong between us and an API server, with verb, resource and user in the message. Private to the collection."""

from __future__ import annotations

import json
import re
from typing import Any, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

_USER = re.compile(r'User "([^"]*)"')
# A server's text can be a whole web page of a proxy.
_TEXT_LIMIT = 600


class ClusterError(FleetError):
    """Anything that a cluster, or the way to it, refuses. `fatal`: no other request of this run would fare better."""

    fatal = False


class ConfigurationError(ClusterError):
    """The way to the cluster is described wrongly: kubeconfig, context, certificate files."""

    fatal = True


class Unreachable(ClusterError):
    """Nobody answers, or nobody whom we can trust."""

    fatal = True


class ApiError(ClusterError):
    """The API server said no."""

    def __init__(self, message: str, status: int = 0, reason: str = "", **details: object) -> None:
        super().__init__(message, status=status, reason=reason, **details)
        self.status = status
        self.reason = reason


class NotFound(ApiError):
    """There is no such object, or no such resource."""


class AlreadyExists(ApiError):
    """There is an object of that name."""


class Conflict(ApiError):
    """Somebody else changed the object meanwhile, or owns a field of it."""


class Invalid(ApiError):
    """The object breaks a rule of the API."""


class Forbidden(ApiError):
    """RBAC, or an admission plugin, does not allow it."""


class Unauthorized(ApiError):
    """The server does not accept our credentials."""

    fatal = True


class Expired(ApiError):
    """A list took so long that the server has forgotten where it was."""


class TooBusy(ApiError):
    """The server asked for patience longer than we have."""


_BY_STATUS = {401: Unauthorized, 403: Forbidden, 404: NotFound, 410: Expired, 429: TooBusy}


def failure(
    status: int,
    body: bytes,
    verb: str,
    resource: str,
    name: str = "",
    namespace: str = "",
    user: str = "",
) -> ApiError:
    """The error that an answer stands for."""
    said = _status(body)
    text = str(said.get("message") or "") or _plain(body) or "no explanation"
    reason = str(said.get("reason") or "")
    match = _USER.search(text)
    who = match.group(1) if match else user
    target = f"{resource} {namespace + '/' if namespace else ''}{name}".rstrip(" /") if resource else name
    details: dict[str, Any] = {
        "verb": verb,
        "resource": resource,
        "name": name,
        "namespace": namespace,
        "user": who,
        "server_message": _cut(text),
    }
    kind: type[ApiError] = _BY_STATUS.get(status, ApiError)
    if status == 401:
        message = f"the API server does not accept the credentials of {who or 'the user'} (401 {_cut(text)})"
        message += (
            "; has a token or client certificate expired? Renew it, or choose another user with context or api_key"
        )
    elif status == 403 and match:
        message = (
            f"user {who!r} may not {verb} {resource or 'this'}: {_cut(text)};"
            f" give the user a role with the verb {verb} on {resource}, or choose another user"
        )
    elif status == 404 and not (said.get("details") or {}).get("name"):
        details["no_such_resource"] = True
        message = (
            f"the API server has no {resource}: it could not {verb} there ({_cut(text)}); is the API version served?"
        )
    else:
        message = f"cannot {verb} {target}: {_cut(text)}"
        if status == 409:
            kind = AlreadyExists if reason == "AlreadyExists" else Conflict
        elif status == 422 or reason == "Invalid":
            kind = Invalid
        elif not said:
            message += f" (status {status})"
    return kind(message, status=status, reason=reason, **details)


def retry_after_s(headers: Mapping[str, str], body: bytes) -> Optional[float]:
    """The seconds that the server asks us to wait; None when it says nothing."""
    for value in (headers.get("Retry-After"), _status(body).get("details", {}).get("retryAfterSeconds")):
        try:
            if value is not None and float(value) >= 0:
                return float(value)
        except (TypeError, ValueError):
            # A date is allowed there too, but API servers send seconds.
            continue
    return None


def _status(body: bytes) -> dict[str, Any]:
    """The Status object of an answer; an empty dictionary when it is something else."""
    if not body.lstrip().startswith(b"{"):
        return {}
    try:
        data = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    if not isinstance(data.get("details"), dict):
        data["details"] = {}
    return data


def _plain(body: bytes) -> str:
    text = re.sub(r"<[^>]*>", " ", body[: 4 * _TEXT_LIMIT].decode("utf-8", errors="replace"))
    return " ".join(text.split())


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_LIMIT else text[: _TEXT_LIMIT - 1] + "…"
