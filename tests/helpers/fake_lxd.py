# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An LXD in memory on a unix socket: for faults and for releases that no machine here has. It is spoken to over real HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socketserver
import subprocess
import tempfile
import threading
import time
import uuid
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Callable, Optional
from urllib.parse import parse_qs, unquote, urlsplit

LXD_5_0 = (
    "projects",
    "instance_all_projects",
    "cloud_init",
    "cpu_hotplug",
    "pci_device_type",
    "nvidia_runtime",
    "nvidia_runtime_config",
)
LXD_6_7 = (*LXD_5_0, "gpu_cdi", "instance_boot_mode")
LXD_6_9_PLUS = (*LXD_6_7, "gpu_cdi_hotplug", "gpu_mig_cdi")

RUNNING, STOPPED, ERROR = "Running", "Stopped", "Error"
_CODES = {RUNNING: 103, STOPPED: 102, ERROR: 112, "Frozen": 110}
_VM_HOT = (
    "user.",
    "cloud-init.",
    "environment.",
    "boot.",
    "limits.memory",
    "limits.cpu",
    "security.secureboot",
    "security.devlxd",
)


class Refusal(Exception):
    """An HTTP error, or the failure of an operation."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class FakeLxd:
    """One server. Tests set attributes before or between requests and read `requests` afterwards.

    Faults: `fail` (action -> LXD's error text), `busy` (action -> how often LXD's database is too slow for it),
    `hang` (actions whose operation never ends), `etag_races` (so many PUTs meet
    a change by somebody else), `down_until` (connections are cut until that time), `forget_operations`.
    Guests: `agent_after` (state requests until the agent answers), `run` (what a command gives), `after_start`, `after_stop`.
    """

    def __init__(self, folder: Path, extensions: tuple[str, ...] = LXD_5_0, version: str = "5.0.2") -> None:
        self.folder = folder
        self.socket = folder / "unix.socket"
        self.extensions = extensions
        self.version = version
        self.instances: dict[str, dict[str, Any]] = {}
        self.images: dict[str, dict[str, Any]] = {}
        self.aliases: dict[str, str] = {}
        self.profiles: dict[str, dict[str, Any]] = {
            "default": {"config": {}, "devices": {"root": {"type": "disk", "path": "/", "pool": "default"}}}
        }
        self.resources: dict[str, Any] = {"gpu": {"cards": []}}
        self.operations: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, dict[str, str]] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.fail: dict[str, str] = {}
        self.busy: dict[str, int] = {}
        self.hang: set[str] = set()
        self.etag_races = 0
        self.down_until = 0.0
        self.agent_after = 0
        self.run: Callable[[str, list[str]], tuple[int, str, str]] = lambda name, command: (0, "", "")
        self.after_start: Callable[[str], None] = lambda name: None
        self.after_stop: Callable[[str], None] = lambda name: None
        self._lock = threading.RLock()
        self._server: Optional[_Server] = None

    def __enter__(self) -> FakeLxd:
        self._server = _Server(str(self.socket), self)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_details: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    # What tests use

    def add_image(self, alias: str, kind: str = "virtual-machine", **properties: str) -> str:
        fingerprint = hashlib.sha256(alias.encode()).hexdigest()
        self.images[fingerprint] = {"fingerprint": fingerprint, "type": kind, "properties": properties}
        self.aliases[alias] = fingerprint
        return fingerprint

    def add_card(self, address: str, driver: str = "", drm: bool = False, uuid_text: str = "") -> None:
        card: dict[str, Any] = {"pci_address": address, "driver": driver, "vendor_id": "10de"}
        if drm:
            card["drm"] = {"id": 0, "card_name": "card0"}
        if driver == "nvidia":
            card["nvidia"] = {"uuid": uuid_text, "card_name": "nvidia0"}
        self.resources["gpu"]["cards"].append(card)

    def actions(self, name: str) -> list[str]:
        """What was done to an instance, in its order: create, update, start, stop, delete, …"""
        words = {
            "POST /1.0/instances": "create",
            f"PUT /1.0/instances/{name}": "update",
            f"DELETE /1.0/instances/{name}": "delete",
        }
        found = []
        for method, path, body in self.requests:
            if path == f"/1.0/instances/{name}/state" and method == "PUT":
                found.append(str(body["action"]))
            elif f"{method} {path}" in words and (method != "POST" or body["name"] == name):
                found.append(words[f"{method} {path}"])
        return found

    # The API

    def answer(
        self, method: str, path: str, query: dict[str, str], headers: Any, payload: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, metadata (bytes for a file) and headers; an `Operation` is told by status 202."""
        with self._lock:
            is_json = "json" in (headers.get("Content-Type") or "")
            body = json.loads(payload) if payload and is_json else None
            self.requests.append((method, path, body))
            parts = [unquote(part) for part in path.strip("/").split("/")]
            if parts == ["1.0"]:
                return (
                    200,
                    {
                        "api_extensions": list(self.extensions),
                        "auth": "trusted",
                        "environment": {"server_version": self.version},
                    },
                    {},
                )
            return self._route(method, parts[1:], query, headers, payload, body)

    def _route(
        self, method: str, parts: list[str], query: dict[str, str], headers: Any, payload: bytes, body: Any
    ) -> Any:
        head, rest = parts[0], parts[1:]
        if head == "instances":
            return self._instances(method, rest, query, headers, body)
        if head == "operations" and rest[1:] == ["websocket"]:
            if rest[0] not in self.operations or query.get("secret") not in ("secret0", "secret1", "secret2"):
                raise Refusal("not found", 404)
            key = headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            return 101, b"", {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept}
        if head == "operations":
            return self._operation(rest[0], float(query.get("timeout", "0")))
        if head == "profiles":
            return 200, [{"name": name, **profile} for name, profile in self.profiles.items()], {}
        if head == "resources":
            return 200, self.resources, {}
        if head == "images":
            return self._images(method, rest, headers, payload)
        raise Refusal("not found", 404)

    def _images(self, method: str, rest: list[str], headers: Any, payload: bytes) -> Any:
        if method == "POST":
            return 202, self._begin("import", lambda: self._import(headers, payload)), {}
        if not rest:
            return 200, list(self.images.values()), {}
        if rest[0] == "aliases":
            if rest[1] not in self.aliases:
                raise Refusal("not found", 404)
            return 200, {"name": rest[1], "target": self.aliases[rest[1]]}, {}
        found = [image for fingerprint, image in self.images.items() if fingerprint.startswith(rest[0])]
        if not found:
            raise Refusal("not found", 404)
        if method == "DELETE":
            return 202, self._begin("image-delete", lambda: self.images.pop(found[0]["fingerprint"])), {}
        return 200, found[0], {}

    def _import(self, headers: Any, payload: bytes) -> None:
        kind, content = "container", payload
        if headers["Content-Type"].startswith("multipart/"):
            message = BytesParser().parsebytes(
                b"Content-Type: " + headers["Content-Type"].encode() + b"\r\n\r\n" + payload
            )
            names = [part.get_param("name", header="content-disposition") for part in message.get_payload()]
            content = b"".join(part.get_payload(decode=True) for part in message.get_payload())
            kind = {"rootfs.img": "virtual-machine", "rootfs": "container"}[names[1]]
        if b"creation_date: 0\n" in content:
            raise Refusal("Missing creation date")
        fingerprint = hashlib.sha256(content).hexdigest()
        if fingerprint in self.images:
            raise Refusal("Image with same fingerprint already exists")
        properties = {key: values[0] for key, values in parse_qs(headers.get("X-LXD-properties", "")).items()}
        self.images[fingerprint] = {"fingerprint": fingerprint, "type": kind, "properties": properties}

    def _instances(self, method: str, rest: list[str], query: dict[str, str], headers: Any, body: Any) -> Any:
        if not rest:
            if method == "GET":
                return 200, [self._rendered(name) for name in self.instances], {}
            return 202, self._begin("create", lambda: self._create(body)), {}
        name = rest[0]
        if name not in self.instances:
            raise Refusal("Instance not found", 404)
        if len(rest) == 1:
            if method == "GET":
                return 200, self._rendered(name), {"ETag": self._etag(name)}
            if method == "PUT":
                if self.etag_races:
                    self.etag_races -= 1
                    self.instances[name]["config"]["user.somebody-else"] = str(self.etag_races)
                if headers.get("If-Match") != self._etag(name):
                    raise Refusal("ETag doesn't match", 412)
                return 202, self._begin("update", lambda: self._update(name, body)), {}
            return 202, self._begin("delete", lambda: self._delete(name)), {}
        if rest[1] == "state":
            if method == "GET":
                return 200, self._state(name), {}
            action = body["action"]
            return 202, self._begin(action, lambda: self._act(name, action, body["force"])), {}
        if rest[1] == "exec":
            return 202, self._begin("exec", lambda: self._exec(name, body)), {}
        if rest[1] == "files":
            return self._file(method, name, query["path"])
        if rest[1] == "logs":
            return self._log(method, name, rest[2])
        raise Refusal("not found", 404)

    def _create(self, body: dict[str, Any]) -> None:
        if body["name"] in self.instances:
            raise Refusal(f"Instance {body['name']!r} already exists")
        if (
            body["source"].get("type") == "image"
            and not body["source"].get("server")
            and body["source"].get("fingerprint") not in self.images
        ):
            raise Refusal("Image not found")
        self._check_keys(body["config"])
        self.instances[body["name"]] = {
            "name": body["name"], "type": body["type"], "status": STOPPED, "architecture": "x86_64", "ephemeral": False,
            "config": {**body["config"], "volatile.uuid": str(uuid.uuid4())}, "devices": body.get("devices", {}),
            "profiles": body.get("profiles", ["default"]), "description": "", "asked": 0,
        }  # fmt: skip

    def _check_keys(self, config: dict[str, str]) -> None:
        new = "instance_boot_mode" in self.extensions
        unknown = [key for key in config if key == ("security.secureboot" if new else "boot.mode")]
        unknown += [key for key in config if key.startswith("nvidia.") and "gpu_mig_cdi" in self.extensions]
        if unknown:
            raise Refusal(f"Unknown configuration key: {unknown[0]!r}")
        if not all(isinstance(value, str) for value in config.values()):
            raise Refusal("json: cannot unmarshal value into Go struct field")

    def _update(self, name: str, body: dict[str, Any]) -> None:
        instance = self.instances[name]
        self._check_keys(body["config"])
        if instance["status"] != STOPPED and instance["type"] == "virtual-machine":
            changed = {
                key
                for key in {*instance["config"], *body["config"]}
                if instance["config"].get(key) != body["config"].get(key)
            }
            cold = [key for key in sorted(changed) if not key.startswith(_VM_HOT)]
            if cold:
                raise Refusal(f'Key "{cold[0]}" cannot be updated when VM is running')
            if instance["devices"] != body["devices"]:
                raise Refusal("Devices cannot be changed when VM is running")
        instance.update({key: body[key] for key in ("config", "devices", "profiles")})

    def _act(self, name: str, action: str, force: bool) -> None:
        instance = self.instances[name]
        if action == "start":
            if instance["status"] == RUNNING:
                raise Refusal("The instance is already running")
            instance.update(status=RUNNING, asked=0)
            self.after_start(name)
        elif action == "stop":
            if instance["status"] == STOPPED:
                raise Refusal("The instance is already stopped")
            if "shutdown" in self.fail and not force:
                raise Refusal(self.fail["shutdown"])
            instance["status"] = STOPPED
            self.after_stop(name)
        elif action == "unfreeze":
            instance["status"] = RUNNING

    def _delete(self, name: str) -> None:
        if self.instances[name]["status"] != STOPPED:
            raise Refusal("Instance is running")
        del self.instances[name]

    def _state(self, name: str) -> dict[str, Any]:
        instance = self.instances[name]
        instance["asked"] += 1
        answering = instance["status"] == RUNNING and instance["asked"] > self.agent_after
        return {
            "status": instance["status"],
            "status_code": _CODES[instance["status"]],
            "processes": 12 if answering else -1,
        }

    def _exec(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.instances[name]["status"] != RUNNING:
            raise Refusal("Instance is not running")
        if self.instances[name]["asked"] <= self.agent_after:
            raise Refusal("LXD VM agent isn't currently running")
        if body["record-output"] or not body["wait-for-websocket"]:
            # What LXD 5.0 does with VMs when nobody connects the websockets.
            raise Refusal("Timed out waiting for websockets to connect")
        command = list(body["command"])
        code, stdout, stderr = self.run(name, command)
        if "gpulab-" in " ".join(command):
            self._record(name, command, code, stdout, stderr)
        return {"return": code}

    def _record(self, name: str, command: list[str], code: int, stdout: str, stderr: str) -> None:
        """Let a shell put what the command would have printed where the script in `command` puts it."""
        with tempfile.TemporaryDirectory() as folder:
            for stream, text in (("1", stdout), ("2", stderr)):
                Path(folder, f"text{stream}").write_text(text, encoding="utf-8")
            printing = f"cat {folder}/text1; cat {folder}/text2 >&2; exit {code}"
            *script, in_guest = command[:6]
            ended = subprocess.run([*script, f"{folder}/file", "sh", "-c", printing], check=False, capture_output=True)
            assert (ended.returncode, ended.stdout, ended.stderr) == (code, b"", b""), ended
            assert sorted(os.listdir(folder)) == ["file", "text1", "text2"]
            self.files.setdefault(name, {})[in_guest] = Path(folder, "file").read_bytes()

    def _file(self, method: str, name: str, path: str) -> Any:
        files = self.files.get(name, {})
        if path not in files:
            raise Refusal("file does not exist", 404)
        if method == "DELETE":
            del files[path]
            return 200, {}, {}
        return 200, files[path], {}

    def _log(self, method: str, name: str, file: str) -> Any:
        logs = self.logs.get(name, {})
        if file not in logs:
            raise Refusal("not found", 404)
        if method == "DELETE":
            del logs[file]
            return 200, {}, {}
        return 200, logs[file].encode(), {}

    def _rendered(self, name: str) -> dict[str, Any]:
        instance = self.instances[name]
        config: dict[str, str] = {}
        devices: dict[str, Any] = {}
        for profile in instance["profiles"]:
            config.update(self.profiles[profile]["config"])
            devices.update(self.profiles[profile]["devices"])
        config.update(instance["config"])
        devices.update(instance["devices"])
        rendered = {key: value for key, value in instance.items() if key != "asked"}
        return {
            **rendered,
            "status_code": _CODES[instance["status"]],
            "expanded_config": config,
            "expanded_devices": devices,
        }

    def _etag(self, name: str) -> str:
        instance = self.instances[name]
        text = json.dumps([instance["config"], instance["devices"], instance["profiles"]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    # Operations

    def _begin(self, action: str, work: Callable[[], Any]) -> dict[str, Any]:
        operation = {"id": str(uuid.uuid4()), "status": "Running", "status_code": 103, "metadata": {}, "err": ""}
        self.operations[operation["id"]] = operation
        if action == "exec":
            operation["metadata"] = {"fds": {stream: f"secret{stream}" for stream in ("0", "1", "2", "control")}}
        shown = dict(operation)
        if action in self.hang:
            return shown
        try:
            if action in self.fail:
                raise Refusal(self.fail[action])
            if self.busy.get(action, 0) > 0:
                self.busy[action] -= 1
                raise Refusal("context deadline exceeded")
            result = work()
            metadata = {**operation["metadata"], **(result if isinstance(result, dict) else {})}
            operation.update(status="Success", status_code=200, metadata=metadata)
        except Refusal as refusal:
            operation.update(status="Failure", status_code=400, err=str(refusal))
        return shown

    def _operation(self, identifier: str, timeout_s: float) -> Any:
        if identifier not in self.operations:
            raise Refusal("Operation not found", 404)
        operation = self.operations[identifier]
        if operation["status_code"] == 103:
            # A real one waits all of `timeout`; tests have less patience.
            time.sleep(min(timeout_s, 0.05))
        return 200, operation, {}

    def restart(self, away_s: float = 0.0) -> None:
        """What a restart of LXD does to clients: connections are cut for a while and operations are forgotten."""
        with self._lock:
            self.operations.clear()
            self.down_until = time.monotonic() + away_s


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: str, lxd: FakeLxd) -> None:
        self.lxd = lxd
        super().__init__(path, _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_arguments: object) -> None:
        """Tests read `requests`."""

    def _handle(self) -> None:
        lxd = self.server.lxd
        payload = self._payload()
        if time.monotonic() < lxd.down_until:
            self.close_connection = True
            return
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        try:
            status, metadata, headers = lxd.answer(self.command, url.path, query, self.headers, payload)
        except Refusal as refusal:
            self._send(refusal.status, {"type": "error", "error": str(refusal), "error_code": refusal.status}, {})
            return
        if isinstance(metadata, bytes):
            self._send_bytes(status, metadata, headers or {"Content-Type": "application/octet-stream"})
            return
        kind = "async" if status == 202 else "sync"
        body = {"type": kind, "status": "Success", "status_code": status, "metadata": metadata}
        if kind == "async":
            body["operation"] = f"/1.0/operations/{metadata['id']}"
        self._send(status, body, headers)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _payload(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while True:
                size = int(self.rfile.readline(), 16)
                data += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, status: int, body: Any, headers: dict[str, str]) -> None:
        self._send_bytes(status, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})

    def _send_bytes(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
