# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory on loopback, spoken to over real HTTP: for faults that a real one does not have at will."""

from __future__ import annotations

import copy
import json
import re
import socket
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}


@dataclass
class Fault:
    """Meets requests whose `METHOD /path?query` the pattern finds, `times` times; `carried_out`: the server does what was asked first."""

    pattern: str
    status: int = 0
    times: int = 1
    reason: str = ""
    message: str = "made to fail"
    headers: dict[str, str] = field(default_factory=dict)
    carried_out: bool = False
    after: int = 0


class FakeKubernetes:
    """One server. Tests set attributes and read `requests`.

    `faults` (a Fault with status 0 cuts the connection), `tokens` (None: everybody is let in), `forbidden` ((verb, resource)),
    `drop` (names of device fields that a gate switches off), `warn` (Warning headers of writes), `writes_left` (then it dies),
    `versions` (of resource.k8s.io), `on_create` (called with each new object).
    """

    def __init__(self, version: str = "1.37") -> None:
        self.minor = version.split(".")[1]
        self.versions = ["v1"]
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.requests: list[str] = []
        self.agents: set[tuple[str, int]] = set()
        self.faults: list[Fault] = []
        self.tokens: set[str] | None = None
        self.user = "jane"
        self.forbidden: set[tuple[str, str]] = set()
        self.drop: set[str] = set()
        self.warn: list[str] = []
        self.writes_left: int | None = None
        self.on_create: Any = None
        self.incomplete: list[str] = []
        self._revision = 100
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # What tests look at

    def of(self, resource: str) -> list[dict[str, Any]]:
        return [obj for (kind, _ns, _name), obj in sorted(self.objects.items()) if kind == resource]

    def count(self, pattern: str) -> int:
        return sum(1 for line in self.requests if re.search(pattern, line))

    @property
    def writes(self) -> int:
        return self.count(r"^(POST|PUT|PATCH|DELETE) /api(?!s/authorization)")

    def add(self, resource: str, obj: dict[str, Any], manager: str = "kubectl-create") -> dict[str, Any]:
        """Put an object there as somebody else would."""
        with self.lock:
            return self._store(resource, obj, manager, dry=False)

    def change(self, resource: str, name: str, change: Any, manager: str = "kubectl-edit") -> None:
        """Change an object as somebody else would."""
        with self.lock:
            old = self.objects[(resource, "", name)]
            new = copy.deepcopy(old)
            change(new)
            self._replace(resource, old, new, manager, dry=False)

    # The server

    def answer(self, method: str, path: str, query: dict[str, str], accept: str, body: Any) -> tuple[int, Any]:
        if path == "/version":
            return 200, {"major": "1", "minor": self.minor, "gitVersion": f"v1.{self.minor}.2"}
        if path == "/apis/resource.k8s.io":
            if not self.versions:
                raise Refusal(404, "NotFound", "the server could not find the requested resource")
            entries = [{"groupVersion": f"resource.k8s.io/{v}", "version": v} for v in self.versions]
            return 200, {"kind": "APIGroup", "versions": entries, "preferredVersion": entries[0]}
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            resource = asked["resource"] + (f".{asked['group']}" if asked.get("group") else "")
            return 201, {"status": {"allowed": (asked["verb"], resource) not in self.forbidden}}
        match = _PATH.fullmatch(path)
        if match is None or (match["group"] == "resource.k8s.io" and match["version"] not in self.versions):
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        resource = match["plural"] + (f".{match['group']}" if match["group"] else "")
        namespace, name = match["namespace"] or "", unquote(match["name"] or "")
        verb = "list" if method == "GET" and not name else _VERBS[method]
        if (verb, resource) in self.forbidden:
            raise Refusal(
                403,
                "Forbidden",
                f'{resource} is forbidden: User "{self.user}" cannot {verb} resource "{match["plural"]}" in API group'
                f' "{match["group"] or ""}" at the cluster scope',
                {"kind": match["plural"], "group": match["group"] or ""},
            )
        dry = query.get("dryRun") == "All"
        if method == "DELETE" and body:
            # As the API has it: options in the body are the only ones.
            dry = body.get("dryRun") == ["All"]
        manager = query.get("fieldManager", "unknown")
        with self.lock:
            if verb == "list":
                return 200, self._list(resource, namespace, query, accept)
            if verb == "create":
                self._write(dry)
                return 201, self._store(resource, body, manager, dry, namespace)
            old = self.objects.get((resource, namespace, name))
            if old is None:
                raise Refusal(
                    404, "NotFound", f'{resource} "{name}" not found', {"name": name, "kind": match["plural"]}
                )
            if verb == "get":
                return 200, old
            self._write(dry)
            if verb == "delete":
                wanted = ((body or {}).get("preconditions") or {}).get("uid")
                if wanted and wanted != old["metadata"]["uid"]:
                    raise Refusal(409, "Conflict", "the UID in the precondition does not match", {"name": name})
                if not dry:
                    del self.objects[(resource, namespace, name)]
                    self._note_pools()
                return 200, {"kind": "Status", "status": "Success"}
            new = copy.deepcopy(body) if verb == "update" else _merge(copy.deepcopy(old), body)
            if resource == "nodes":
                # As the API has it: the two halves are written at two paths.
                half = "spec" if match["sub"] == "status" else "status"
                if half in old:
                    new[half] = copy.deepcopy(old[half])
            return 200, self._replace(resource, old, new, manager, dry)

    def _write(self, dry: bool) -> None:
        if dry or self.writes_left is None:
            return
        if self.writes_left <= 0:
            raise ConnectionError("the server has died")
        self.writes_left -= 1

    def _list(self, resource: str, namespace: str, query: dict[str, str], accept: str) -> dict[str, Any]:
        found = [
            obj
            for (kind, ns, _name), obj in sorted(self.objects.items())
            if kind == resource and (not namespace or ns == namespace) and _selected(obj, query)
        ]
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "0"))
        end = start + limit if limit else len(found)
        metadata: dict[str, Any] = {"resourceVersion": str(self._revision)}
        if end < len(found):
            metadata["continue"] = str(end)
        if "PartialObjectMetadataList" in accept:
            items = [{"metadata": obj["metadata"]} for obj in found[start:end]]
        else:
            items = [
                {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
                for obj in found[start:end]
            ]
        return {"kind": "List", "metadata": metadata, "items": items}

    def _store(
        self, resource: str, body: dict[str, Any], manager: str, dry: bool, namespace: str = ""
    ) -> dict[str, Any]:
        obj = self._dropped(copy.deepcopy(body))
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("name"):
            raise Refusal(422, "Invalid", "metadata.name: Required value: name or generateName is required")
        name = metadata["name"]
        if (resource, namespace, name) in self.objects:
            raise Refusal(409, "AlreadyExists", f'{resource} "{name}" already exists', {"name": name})
        self._revision += 1
        metadata.update(
            uid=str(uuid.uuid4()), resourceVersion=str(self._revision), creationTimestamp="2026-01-01T00:00:00Z"
        )
        metadata["generation"] = 1
        metadata["managedFields"] = [_owner(manager, obj.get("spec", {}))]
        if not dry:
            self.objects[(resource, namespace, name)] = obj
            self._note_pools()
            if self.on_create is not None:
                self.on_create(obj)
        return obj

    def _replace(
        self, resource: str, old: dict[str, Any], new: dict[str, Any], manager: str, dry: bool
    ) -> dict[str, Any]:
        sent = new.setdefault("metadata", {}).get("resourceVersion")
        if sent and sent != old["metadata"]["resourceVersion"]:
            raise Refusal(
                409,
                "Conflict",
                f"Operation cannot be fulfilled on {resource}: the object has been modified",
                {"name": "x"},
            )
        new = self._dropped(new)
        metadata = new["metadata"]
        for key in ("uid", "creationTimestamp", "generation"):
            metadata[key] = old["metadata"][key]
        managed = copy.deepcopy(old["metadata"]["managedFields"])
        before, after = old.get("spec") or {}, new.get("spec") or {}
        changed = {key: after[key] for key in after if after[key] != before.get(key)}
        if before != after:
            if any(before.get(key) != after.get(key) for key in ("driver", "nodeName")) and resource.startswith(
                "resourceslices"
            ):
                raise Refusal(422, "Invalid", "spec.driver, spec.nodeName: field is immutable")
            metadata["generation"] += 1
            for entry in managed:
                fields = entry["fieldsV1"].get("f:spec", {})
                for key in [*changed, *(set(before) - set(after))]:
                    fields.pop(f"f:{key}", None)
            mine = next((entry for entry in managed if entry["manager"] == manager), None)
            if mine is not None:
                mine["fieldsV1"].setdefault("f:spec", {}).update({f"f:{key}": {} for key in changed})
            elif changed:
                managed.append(_owner(manager, changed))
        metadata["managedFields"] = managed
        same = {**old, "metadata": None} == {**new, "metadata": None} and {**old["metadata"], "resourceVersion": 0} == {
            **metadata,
            "resourceVersion": 0,
        }
        if not same:
            self._revision += 1
        metadata["resourceVersion"] = str(self._revision) if not same else old["metadata"]["resourceVersion"]
        if not dry:
            key = next(key for key, value in self.objects.items() if value is old)
            self.objects[key] = new
            self._note_pools()
        return new

    def _dropped(self, obj: dict[str, Any]) -> dict[str, Any]:
        devices = (obj.get("spec") or {}).get("devices")
        # Claims have a dictionary of that name.
        for device in devices if isinstance(devices, list) else ():
            for inner in (device, device.get("basic") or {}):
                for name in self.drop:
                    inner.pop(name, None)
        return obj

    def _note_pools(self) -> None:
        """What a scheduler would see at this moment: pools without one complete newest generation."""
        self.incomplete = incomplete_pools(self.of("resourceslices.resource.k8s.io"))


def incomplete_pools(slices: list[dict[str, Any]]) -> list[str]:
    pools: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for obj in slices:
        pool = obj["spec"]["pool"]
        pools.setdefault((obj["spec"]["driver"], pool["name"]), []).append(pool)
    wrong = []
    for (driver, name), members in pools.items():
        newest = max(pool["generation"] for pool in members)
        current = [pool for pool in members if pool["generation"] == newest]
        if {pool["resourceSliceCount"] for pool in current} != {len(current)}:
            wrong.append(f"{driver}/{name}")
    return wrong


def _owner(manager: str, spec: dict[str, Any]) -> dict[str, Any]:
    fields = {"f:spec": {f"f:{key}": {} for key in spec}} if spec else {}
    return {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}


def _merge(base: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def _selected(obj: dict[str, Any], query: dict[str, str]) -> bool:
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, equals, value = term.partition("=")
        if equals:
            if labels.get(key) != value:
                return False
        elif (key.lstrip("!") in labels) == key.startswith("!"):
            return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        path, _equals, value = term.partition("=")
        at: Any = obj
        for key in path.split("."):
            at = (at or {}).get(key)
        if at != value:
            return False
    return True


class _Server(ThreadingHTTPServer):
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that a test cuts are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave together; otherwise each answer waits for an acknowledgement.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    fake: FakeKubernetes

    def log_message(self, *_args: Any) -> None:
        pass

    def _serve(self) -> None:
        fake = self.fake
        split = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length) if length else b""
        line = f"{self.command} {self.path}"
        with fake.lock:
            fake.requests.append(line)
            fake.agents.add(self.client_address)
            fault = next((f for f in fake.faults if f.times > 0 and re.search(f.pattern, line)), None)
            if fault is not None and fault.after > 0:
                fault.after -= 1
                fault = None
            if fault is not None:
                fault.times -= 1
        headers: dict[str, str] = {}
        try:
            if fake.tokens is not None:
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                if token not in fake.tokens:
                    raise Refusal(401, "Unauthorized", "Unauthorized")
            if fault is not None and not fault.carried_out:
                self._fail(fault)
            code, body = fake.answer(
                self.command,
                split.path,
                dict(parse_qsl(split.query)),
                self.headers.get("Accept") or "",
                json.loads(data) if data else None,
            )
            if fault is not None:
                self._fail(fault)
            if self.command != "GET":
                for text in fake.warn:
                    headers["Warning"] = f'299 - "{text}"'
        except Refusal as refusal:
            code = refusal.code
            headers.update(getattr(refusal, "headers", {}))
            body = {
                "kind": "Status",
                "status": "Failure",
                "message": refusal.message,
                "reason": refusal.reason,
                "details": refusal.details,
                "code": code,
            }
        except ConnectionError:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _fail(self, fault: Fault) -> None:
        if fault.status == 0:
            raise ConnectionError("cut by a test")
        refusal = Refusal(fault.status, fault.reason, fault.message)
        refusal.headers = fault.headers  # type: ignore[attr-defined]
        raise refusal

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve
