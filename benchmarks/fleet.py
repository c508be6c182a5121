# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast slices and fake nodes get into a cluster, next to other ways of doing the same on the same server in the same run.

Usage: python benchmarks/fleet.py --kubeconfig FILE [--kubectl PROGRAM] [--slices 1500] [--sizes 250,500,1000] [--kubernetes-core VENV]
The cluster should be one of its own, as `make fleet` and playbooks/control_plane.yml start it: everything that is made has the label
gpulab.fleet/set or the name bench-..., and is deleted again. VENV is a virtual environment for the package `ansible`, which holds
kubernetes.core; it is made if it is not there. Nothing is judged: seconds depend on the machine, ratios of one run much less.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "playbooks" / "collections"))

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.presets import load
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.client import Kubernetes
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import NODE, resource_kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import connect
from ansible_collections.gpulab.fleet.plugins.module_utils._slices import DriverSettings, default_drivers, render_node

MACHINE = "aws-p5"
CONNECTIONS = 16
# How many tasks of kubernetes.core stand for a loop of them; each takes about as long as the next.
TASKS = 12
SLICES = resource_kind("ResourceSlice", "v1")
CODE = """
import importlib, json, sys
from ansible.module_utils.testing import patch_module_args
module = importlib.import_module("ansible_collections.gpulab.fleet.plugins.modules." + sys.argv[1])
with patch_module_args(json.load(open(sys.argv[2]))):
    module.main()
"""


class Run:
    """What one call of a module took."""

    def __init__(self, module: str, params: dict[str, Any], folder: Path) -> None:
        arguments, output = folder / "arguments.json", folder / "output"
        arguments.write_text(json.dumps(params))
        environment = {**os.environ, "PYTHONPATH": sys.path[0], "XDG_STATE_HOME": str(folder)}
        started = time.monotonic()
        with output.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, "-c", CODE, module, str(arguments)], env=environment, stdout=stream
            )
            _pid, status, usage = os.wait4(process.pid, 0)
        self.seconds = time.monotonic() - started
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.memory_mb = usage.ru_maxrss / 1024
        text = output.read_text()
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"{module} failed:\n{text[-3000:]}")
        self.result: dict[str, Any] = json.loads(text.strip().splitlines()[-1])


def some_slices(number: int) -> list[dict[str, Any]]:
    """GPU slices of so many nodes."""
    machine = load(MACHINE)
    drivers = (DriverSettings("gpu.nvidia.com"),)
    return [
        slice_
        for index in range(number)
        for slice_ in render_node(machine, node=f"bench-{index:05}", node_uid=None, drivers=drivers)
    ]


@contextmanager
def clean(kubernetes: Kubernetes) -> Iterator[None]:
    """Nothing of ours before and after."""

    def sweep() -> None:
        for kind in (SLICES, NODE):
            names = [item["metadata"]["name"] for item in kubernetes.list_metadata(kind)]
            ours = [name for name in names if "bench-" in name]
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                list(pool.map(lambda name, kind=kind: kubernetes.delete(kind, name), ours))

    sweep()
    try:
        yield
    finally:
        sweep()


def bare_posts(kubernetes: Kubernetes, slices: Sequence[dict[str, Any]]) -> float:
    """Seconds for the same objects by the least that can be done: JSON over connections that are kept."""
    configuration = kubernetes.transport.access._configuration
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    address = urlsplit(kubernetes.host)
    headers = {"Content-Type": "application/json", **kubernetes.transport.access.headers()}
    shares = [slices[start::CONNECTIONS] for start in range(CONNECTIONS)]

    def post(share: Sequence[dict[str, Any]]) -> None:
        connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=context)
        for slice_ in share:
            connection.request("POST", SLICES.path(), json.dumps(slice_), headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 201:
                raise SystemExit(f"POST: {answer.status}")
        connection.close()

    started = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(post, shares))
    return time.monotonic() - started


def kubectl_create(kubectl: str, kubeconfig: str, file: Path) -> float:
    started = time.monotonic()
    argv = [kubectl, "--kubeconfig", kubeconfig, "create", "-f", str(file)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def kubernetes_core(venv: Path, kubeconfig: str, slices: Sequence[dict[str, Any]], folder: Path) -> float:
    """Seconds a task of a loop of kubernetes.core.k8s, start of the playbook and of the loop not counted."""
    if not (venv / "bin" / "ansible-playbook").exists():
        print(f"installing the package ansible into {venv}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "pip"), "install", "-q", "ansible", "kubernetes"], check=True)
    (folder / "items.json").write_text(json.dumps({"items": list(slices[:TASKS])}))
    loop = {
        "kubernetes.core.k8s": {"kubeconfig": kubeconfig, "state": "present", "definition": "{{ item }}"},
        "loop": "{{ items }}",
        "loop_control": {"label": "{{ item.metadata.name }}"},
    }
    (folder / "play.json").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [loop]}]))
    (folder / "empty.json").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": []}]))
    times = []
    for play in ("empty.json", "play.json"):
        argv = [
            str(venv / "bin" / "ansible-playbook"),
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            f"@{folder}/items.json",
        ]
        argv += ["-e", f"ansible_python_interpreter={venv}/bin/python", str(folder / play)]
        started = time.monotonic()
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "PYTHONPATH"))
        }
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=folder)
        times.append(time.monotonic() - started)
    return (times[1] - times[0]) / len(slices[:TASKS])


def measure_rendering() -> None:
    machine = load(MACHINE)
    drivers = default_drivers(machine)
    devices, nodes, started = 0, 0, time.process_time()
    while time.process_time() - started < 3:
        slices = render_node(machine, node=f"bench-{nodes:05}", node_uid="uid", drivers=drivers)
        devices += sum(len(slice_["spec"]["devices"]) for slice_ in slices)
        nodes += 1
    seconds = time.process_time() - started
    print(
        f"rendering: {devices / seconds:,.0f} devices a second in one process ({nodes} nodes of {MACHINE})\n",
        flush=True,
    )


def measure_creation(kubernetes: Kubernetes, options: argparse.Namespace, folder: Path) -> None:
    slices = some_slices(options.slices)
    file = folder / "slices.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": slices}))
    params = {
        "kubeconfig": options.kubeconfig,
        "machine": MACHINE,
        "nodes": [slice_["spec"]["nodeName"] for slice_ in slices],
        "drivers": [{"name": "gpu.nvidia.com"}],
        "set": "bench",
        "results_limit": 0,
        "concurrency": CONNECTIONS,
    }
    seconds: dict[str, list[float]] = {
        "bare POSTs": [],
        "resourceslice": [],
        "resourceslice, after the start of Python": [],
        "kubectl create -f": [],
    }
    # Taking turns, so that what else the machine does meets all of them.
    for number in range(options.rounds):
        with clean(kubernetes):
            seconds["bare POSTs"].append(bare_posts(kubernetes, slices))
        with clean(kubernetes):
            run = Run("resourceslice", params, folder)
            seconds["resourceslice"].append(run.seconds)
            seconds["resourceslice, after the start of Python"].append(run.result["seconds"])
        with clean(kubernetes):
            seconds["kubectl create -f"].append(kubectl_create(options.kubectl, options.kubeconfig, file))
        print(
            f"round {number + 1}: " + ", ".join(f"{name} {times[-1]:.1f} s" for name, times in seconds.items()),
            flush=True,
        )
    totals = {name: sum(times) for name, times in seconds.items()}
    if options.kubernetes_core:
        with clean(kubernetes):
            each = kubernetes_core(Path(options.kubernetes_core), options.kubeconfig, slices, folder)
        totals["a loop of kubernetes.core.k8s"] = each * options.slices * options.rounds
    whole, ours = totals["resourceslice"], totals["resourceslice, after the start of Python"]
    print(f"\ncreating {options.slices} slices of 8 GPUs over {CONNECTIONS} connections:")
    for name, total in totals.items():
        rate = options.slices * options.rounds / total
        print(
            f"  {name:41} {rate:8.1f} a second; ours is {total / ours:6.2f} times as fast, {total / whole:6.2f} with its start"
        )
    print(flush=True)


def measure_fleet(kubernetes: Kubernetes, options: argparse.Namespace, folder: Path) -> None:
    print(f"fleets of {MACHINE} (8 GPUs, 32 network adapters, 3 slices a node), each from nothing:")
    for size in options.sizes:
        params = {
            "kubeconfig": options.kubeconfig,
            "name": "bench-{n:05}",
            "count": size,
            "machine": MACHINE,
            "timeout_s": 3600,
            "results_limit": 0,
            "wait": not options.no_wait,
        }
        with clean(kubernetes):
            first, second = Run("fake_gpu_node", params, folder), Run("fake_gpu_node", params, folder)
            print(
                f"  {size:6} nodes: {first.seconds:7.1f} s ({1000 * first.seconds / size:5.1f} ms a node, {first.cpu_s:6.1f} s of them"
                f" our CPU), {first.memory_mb:4.0f} MB; again: {second.seconds:5.1f} s ({second.seconds / first.seconds:5.1%}),"
                f" {second.result['requests']} requests, changed: {second.result['changed']}, {second.memory_mb:4.0f} MB",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kubectl", default=shutil.which("kubectl") or "kubectl")
    parser.add_argument("--slices", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--sizes", type=lambda text: [int(part) for part in text.split(",") if part], default=[250, 500, 1000]
    )
    parser.add_argument("--kubernetes-core", metavar="VENV")
    parser.add_argument(
        "--no-wait", action="store_true", help="do not wait for nodes to be ready, for clusters without KWOK"
    )
    options = parser.parse_args()
    measure_rendering()
    kubernetes = connect({"kubeconfig": options.kubeconfig, "concurrency": CONNECTIONS})
    with tempfile.TemporaryDirectory(prefix="gpulab-bench-") as name:
        if options.slices:
            measure_creation(kubernetes, options, Path(name))
        if options.sizes:
            measure_fleet(kubernetes, options, Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
