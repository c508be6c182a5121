# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the options of the module virtual_gpu_host to a typed request, and from outcomes to its result. Private to the collection."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.all_of_them import named_diff
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import cache_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._common.progress import Progress, progress_file
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.manage import Request, manage, manage_all
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.parts import PartsRequest

# These need to know what the host is to be.
STARTING_STATES = ("present", "started", "restarted")


def run(params: Mapping[str, Any], machine: Optional[Machine], check_mode: bool) -> dict[str, Any]:
    """What the module returns."""
    request = to_request(params, machine, check_mode)
    who = "all" if params["all"] else params["name"]
    progress = Progress(progress_file(f"virtual-host-{who}", params["progress_path"], params["state_dir"]), who)
    outcomes = manage_all(request, progress) if params["all"] else [manage(params["name"], request, progress)]
    return {
        "changed": any(outcome.differences.changed for outcome in outcomes),
        "hosts": [outcome.to_dict() for outcome in outcomes],
        "diff": [
            named_diff(f"virtual host {outcome.name}", outcome.differences)
            for outcome in outcomes
            if outcome.differences.changed
        ],
    }


def to_request(params: Mapping[str, Any], machine: Optional[Machine], check_mode: bool) -> Request:
    """The options, typed; what does not go together is refused."""
    if params["all"] and params["state"] in STARTING_STATES:
        raise FleetError(f"all is true with state {params['state']!r}; it goes with stopped and absent only")
    return Request(
        state=params["state"],
        parts=PartsRequest(
            cache_root=params["cache_dir"] or cache_dir(),
            sources=params["sources"] or "",
            qemu_command=tuple(params["qemu_command"] or ()),
            image=params["image"],
            guest_images=params["guest_images"],
            parameters={str(name): str(value) for name, value in params["build_parameters"].items()},
            timeout_s=params["build_timeout_s"],
        ),
        machine=machine,
        cpus=params["cpus"],
        memory_mb=params["memory_mb"],
        accel=params["accel"],
        ssh_key=params["ssh_key"] or "",
        kernel_arguments=params["kernel_arguments"],
        qemu_arguments=tuple(params["qemu_arguments"]),
        nested_guard=params["nested_guard"],
        wait_for=params["wait_for"],
        timeout_s=params["timeout_s"],
        shutdown_timeout_s=params["shutdown_timeout_s"],
        state_root=params["state_dir"],
        check_mode=check_mode,
    )


def warnings(hosts: Iterable[Mapping[str, Any]]) -> list[str]:
    """What a person should know although nothing failed."""
    found = []
    for host in hosts:
        if host["found"]["status"] == "crashed":
            found.append(f"virtual host {host['name']} had crashed: {host['found']['reason']}")
        if host.get("moved"):
            moves = [f"{name} is at {host['addresses'][name]}, not {old}" for name, old in host["moved"].items()]
            found.append(
                f"virtual host {host['name']} has devices that QEMU cannot put at the described address: {', '.join(moves)}"
            )
    return found
