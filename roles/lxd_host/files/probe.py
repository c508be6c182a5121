# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a host before any module runs there: its Python, its LXD, its huge pages. Prints one line of JSON.

Arguments: the folder of our virtual environment, and the seconds that LXD may take for its first answer (its socket may have to start it first).
Standard library only, and no syntax newer than Python 3.6.
"""

import http.client
import importlib.util
import json
import os
import platform
import shutil
import socket
import sys

SOCKETS = ("/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket")
# What the modules of this collection write on the instances that they make.
OWNER_KEY = "user.gpulab.fleet"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout_s):
        super().__init__("lxd", timeout=timeout_s)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(path, endpoint, timeout_s):
    connection = UnixConnection(path, timeout_s)
    try:
        connection.request("GET", endpoint)
        answer = json.loads(connection.getresponse().read().decode())
    finally:
        connection.close()
    if answer.get("type") == "error":
        raise OSError(answer.get("error"))
    return answer.get("metadata") or {}


def first_line(path):
    try:
        with open(path) as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def look_at_lxd(timeout_s):
    folder = os.environ.get("LXD_DIR")
    paths = [os.path.join(folder, "unix.socket")] if folder else [path for path in SOCKETS if os.path.exists(path)]
    seen = {
        "socket": paths[0] if paths else None,
        "program": shutil.which("lxd", path=os.environ.get("PATH", "") + ":/snap/bin:/usr/sbin"),
    }
    seen.update(
        {
            "answers": False,
            "error": "",
            "pools": [],
            "networks": [],
            "root_device": False,
            "version": "",
            "instances": [],
        }
    )
    if not paths:
        return seen
    try:
        server = get(paths[0], "/1.0", timeout_s)
        if server.get("auth") != "trusted":
            raise OSError("LXD does not trust this user: connect as root, or as a member of its group")
        seen["version"] = server.get("environment", {}).get("server_version", "")
        seen["pools"] = [url.rsplit("/", 1)[-1] for url in get(paths[0], "/1.0/storage-pools", timeout_s)]
        seen["networks"] = [url.rsplit("/", 1)[-1] for url in get(paths[0], "/1.0/networks", timeout_s)]
        devices = get(paths[0], "/1.0/profiles/default", timeout_s).get("devices") or {}
        seen["root_device"] = any(
            device.get("type") == "disk" and device.get("path") == "/" for device in devices.values()
        )
        for instance in get(paths[0], "/1.0/instances?recursion=1", timeout_s) or []:
            if (instance.get("config") or {}).get(OWNER_KEY):
                seen["instances"].append({"name": instance["name"], "type": instance["type"]})
        seen["answers"] = True
    except (OSError, ValueError, http.client.HTTPException) as error:
        seen["error"] = str(error) or type(error).__name__
    return seen


def main():
    venv, timeout_s = sys.argv[1], float(sys.argv[2])
    release = {}
    try:
        with open("/etc/os-release") as stream:
            for line in stream:
                key, found, value = line.strip().partition("=")
                if found:
                    release[key] = value.strip('"')
    except OSError:
        pass
    pages = "/sys/kernel/mm/hugepages/hugepages-2048kB"
    seen = {
        "lxd_host": 1,
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "executable": sys.executable,
        "machine": platform.machine(),
        "libc": "-".join(platform.libc_ver()),
        # Looking for the file is enough here; importing it takes seconds on an emulated CPU.
        "pylxd": importlib.util.find_spec("pylxd") is not None,
        "venv_key": first_line(os.path.join(venv, "gpulab-key"))
        if os.access(os.path.join(venv, "bin", "python"), os.X_OK)
        else "",
        "euid": os.geteuid(),
        "os": release.get("ID", ""),
        "os_like": release.get("ID_LIKE", ""),
        "memory_mb": int(first_line("/proc/meminfo").split()[1]) // 1024,
        "hugepages": int(first_line(os.path.join(pages, "nr_hugepages")) or 0),
        "lxd": look_at_lxd(timeout_s),
    }
    print(json.dumps(seen))


main()
