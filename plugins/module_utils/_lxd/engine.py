# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of an instance module from its parameters to its result: refuse, plan, apply, wait. Private to the collection."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Mapping, Optional, Union

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.paths import cache_dir
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd import preflight
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.apply import Applier, observe, patiently
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import Instance, Lxd
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.console import ConsoleReader, console_paths
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.gpu_devices import GpuDevice, gpu_devices
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.hardware import Hardware
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.image_spec import ImageRequest, parse_image
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.images import check_image, make_ready
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import VIRTUAL_MACHINE
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.plan import CREATE, START, STOP, Plan, make_plan
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.qemu_options import join_raw_qemu, parse_qemu_options
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.spec import InstanceSpec, build_spec, check_name
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.wait import Ready, Waiter


class Engine:
    """What both modules do, for one kind of instance."""

    def __init__(
        self,
        lxd: Lxd,
        hardware: Hardware,
        kind: str,
        owner: str,
        say: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._lxd = lxd
        self._hardware = hardware
        self._kind = kind
        self._owner = owner
        self._say = say
        self._warn = warn
        self._explained: Optional[Mapping[str, object]] = None

    def run(self, params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
        """The module's result. Raises FleetError; nothing is touched before every refusal has had its chance."""
        deadline = Deadline(float(params["timeout_s"]))
        name = params["name"]
        check_name(name, self._lxd.log_folders(name), self._kind)
        image = parse_image(params.get("image"))
        options = parse_qemu_options(params.get("qemu_opts"))
        observed = observe(self._lxd, name, deadline)
        if params["state"] == "absent":
            spec = build_spec({"name": name, **_ending(params)}, self._kind, self._owner, self._lxd.has, None, False)
            return self._finish(
                params, spec, observed, make_plan(spec, observed, self._lxd.has), None, deadline, check_mode
            )

        gpus = self._gpus(params)
        spec = build_spec(params, self._kind, self._owner, self._lxd.has, gpus, False)
        config = preflight.effective_config(self._lxd, spec.profiles, observed, spec.config)
        addresses = self._addresses(gpus, observed)
        if options is not None:
            tokens = options.tokens
            if options.auto:
                tokens += self._room_for(addresses, config, options.tokens)
            spec = build_spec(params, self._kind, self._owner, self._lxd.has, gpus, join_raw_qemu(tokens))
        plan = make_plan(spec, observed, self._lxd.has)
        self._refuse(spec, plan, config, addresses, image)
        if START in plan.steps and STOP not in plan.steps and spec.kind == VIRTUAL_MACHINE and not check_mode:
            self._hardware.wait_free(addresses, min(float(params["release_timeout_s"]), deadline.remaining_s()))
        return self._finish(params, spec, observed, plan, image, deadline, check_mode)

    def _gpus(self, params: Mapping[str, Any]) -> Optional[tuple[GpuDevice, ...]]:
        selectors = params.get("gpus")
        if selectors is None:
            return None
        addresses = self._hardware.resolve(selectors)
        return gpu_devices(addresses, self._kind, self._lxd.resources() if addresses else {}, self._lxd.has)

    def _addresses(self, gpus: Optional[tuple[GpuDevice, ...]], observed: Optional[Instance]) -> tuple[str, ...]:
        """The GPUs that the instance will have: those asked for, or those it has when nothing was said."""
        if gpus is not None:
            return tuple(gpu.address for gpu in gpus)
        return preflight.gpu_addresses(self._lxd, observed)

    def _room_for(self, addresses: tuple[str, ...], config: Mapping[str, str], own: tuple[str, ...]) -> tuple[str, ...]:
        ram = preflight.ram_bytes(config, self._hardware.memory_mib)
        if ram is None:
            raise FleetError(
                f"qemu_opts is auto, but limits.memory is {config.get('limits.memory')!r}, which is no size; set ram_mb",
                option="ram_mb",
                value=config.get("limits.memory"),
            )
        sized = self._hardware.size_hole(addresses, ram, own, self._lxd.server_version)
        self._explained = sized.explained
        return sized.tokens

    def _refuse(
        self,
        spec: InstanceSpec,
        plan: Plan,
        config: Mapping[str, str],
        addresses: tuple[str, ...],
        image: Optional[ImageRequest],
    ) -> None:
        if CREATE in plan.steps:
            if image is None:
                raise FleetError(
                    f"image is missing; {spec.name} does not exist yet and has to be made from one",
                    option="image",
                    value=None,
                )
            check_image(self._lxd, image, spec.kind)
        if plan.steps:
            preflight.check_static(spec, config, self._hardware, addresses)
        if START in plan.steps:
            preflight.check_not_in_use(self._lxd, spec, addresses)
            # A VM that is stopped first gives back the pages that it has.
            if STOP not in plan.steps:
                preflight.check_hugepages(config, self._hardware)
        if plan.restart_required:
            paths = ", ".join(change.path for change in plan.pending)
            self._warn(
                f"{spec.name} runs, and {paths} can change only while it is stopped; set allow_restart: true, or stop it first"
            )

    def _finish(
        self,
        params: Mapping[str, Any],
        spec: InstanceSpec,
        observed: Optional[Instance],
        plan: Plan,
        image: Optional[ImageRequest],
        deadline: Deadline,
        check_mode: bool,
    ) -> dict[str, Any]:
        applier = Applier(
            self._lxd,
            self._hardware,
            spec,
            deadline,
            self._say,
            self._warn,
            float(params["stop_timeout_s"]),
            float(params["release_timeout_s"]),
        )
        ready: Optional[Ready] = None
        if not check_mode:
            try:
                with self._console(spec, params) as console:
                    applier.run(plan, lambda: self._source(image, deadline))
                    if not plan.steps and spec.state == "stopped" and observed is not None:
                        applier.give_back(preflight.gpu_addresses(self._lxd, observed))
                    if spec.wants_running and params["wait"]:
                        ready = self._wait(spec, deadline, console, START in plan.steps, params)
                observed = patiently(lambda: self._lxd.get_instance(spec.name), deadline) if plan.steps else observed
            except FleetError as error:
                done = {"changed": bool(applier.actions), "actions": applier.actions, "released": applier.released}
                error.details.update({key: value for key, value in done.items() if key not in error.details})
                raise
        result = {
            "changed": plan.changed,
            "diff": {side: dict(values) for side, values in plan.diff.items()},
            "actions": list(plan.steps) if check_mode else applier.actions,
            "restart_required": plan.restart_required,
            "pending": [change.path for change in plan.pending],
            "instance": None if observed is None else describe_instance(observed),
            "gpus": list(preflight.gpu_addresses(self._lxd, observed)),
            "released": applier.released,
            "ready": None if ready is None else ready.to_dict(),
        }
        if spec.kind == VIRTUAL_MACHINE:
            result["qemu_opts_explained"] = None if self._explained is None else dict(self._explained)
        return result

    def _console(
        self, spec: InstanceSpec, params: Mapping[str, Any]
    ) -> Union[ConsoleReader, contextlib.AbstractContextManager[None]]:
        """Listen from before the start on, and until the wait is over."""
        if spec.kind == VIRTUAL_MACHINE and spec.wants_running and params["wait"]:
            return ConsoleReader(console_paths(self._lxd.log_folders(spec.name)))
        return contextlib.nullcontext()

    def _source(self, image: Optional[ImageRequest], deadline: Deadline) -> Mapping[str, Any]:
        if image is None:
            return {}
        ready = make_ready(self._lxd, image, self._kind, os.path.join(cache_dir(), "downloads"), deadline, self._say)
        return ready.source

    def _wait(
        self,
        spec: InstanceSpec,
        deadline: Deadline,
        console: Optional[ConsoleReader],
        from_start: bool,
        params: Mapping[str, Any],
    ) -> Ready:
        waiter = Waiter(self._lxd, spec.name, spec.kind, deadline, console, self._say, from_start)
        ready = waiter.until_answering()
        if params.get("wait_for") == "system":
            ready = waiter.until_system_runs(bool(params.get("allow_degraded", True)))
        self._say(f"{spec.name} is ready after {ready.seconds:.0f} s")
        return ready


def describe_instance(instance: Instance) -> dict[str, object]:
    """The instance as results show it: its own keys, without what LXD keeps for itself."""
    return {
        "name": instance.name,
        "type": instance.kind,
        "status": instance.status,
        "profiles": list(instance.profiles),
        "config": {key: value for key, value in sorted(instance.config.items()) if not key.startswith("volatile.")},
        "devices": instance.devices,
    }


def _ending(params: Mapping[str, Any]) -> dict[str, Any]:
    """For state=absent nothing else of the description matters."""
    return {key: params.get(key) for key in ("state", "force", "force_foreign")}
