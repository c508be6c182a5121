# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cluster in memory, which tests break in one place at a time."""

from __future__ import annotations

from typing import Any

import pytest

GPU, NIC = "gpu.nvidia.com", "dra.net"


class World:
    """Objects as an API server returns them; `view()` is a look at them."""

    def __init__(self) -> None:
        # pytest reads this file before it knows where the collection is.
        from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_requests import Selectors
        from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Subject

        self.slices: list[dict[str, Any]] = []
        self.claims: list[dict[str, Any]] = []
        self.pods: list[dict[str, Any]] = []
        self.classes = [
            self.device_class(GPU, f"device.driver == '{GPU}' && device.attributes['{GPU}'].type == 'gpu'"),
            self.device_class(
                "mig.nvidia.com", f"device.driver == '{GPU}' && device.attributes['{GPU}'].type == 'mig'"
            ),
            self.device_class(NIC, f"device.driver == '{NIC}'"),
        ]
        self.subject = Subject("lab", "test", kind="claim")
        self.selectors = Selectors()

    @staticmethod
    def device_class(name: str, expression: str) -> dict[str, Any]:
        return {
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }

    @staticmethod
    def gpu(number: int, **attributes: Any) -> dict[str, Any]:
        """A GPU with a root of its own; attributes are texts, or None for none."""
        values = {
            "type": "gpu",
            "productName": "NVIDIA H100 80GB HBM3",
            "uuid": f"GPU-{number}",
            "resource.kubernetes.io/pcieRoot": f"pci0000:{number}0",
            **attributes,
        }
        return {
            "name": f"gpu-{number}",
            "attributes": {name: {"string": value} for name, value in values.items() if value is not None},
            "capacity": {"memory": {"value": "81559Mi"}},
        }

    @staticmethod
    def nic(number: int, root: str | None) -> dict[str, Any]:
        attributes = {"resource.kubernetes.io/pcieRoot": {"string": root}} if root else {"dra.net/rdma": {"bool": True}}
        return {"name": f"nic-{number}", "attributes": attributes}

    @staticmethod
    def mig(name: str, parent: str, memory_slices: list[int], profile: str = "1g.10gb") -> dict[str, Any]:
        return {
            "name": name,
            "attributes": {
                "type": {"string": "mig"},
                "profile": {"string": profile},
                "uuid": {"string": f"MIG-{name}"},
                "parentUUID": {"string": parent},
            },
            "capacity": {f"memorySlice{number}": {"value": "1"} for number in memory_slices},
        }

    def slice(
        self,
        devices: list[dict[str, Any]],
        node: str = "n1",
        driver: str = GPU,
        pool: str = "",
        generation: int = 1,
        count: int = 1,
        **spec: Any,
    ) -> dict[str, Any]:
        made = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{driver}-{node}-{len(self.slices)}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": pool or node, "generation": generation, "resourceSliceCount": count},
                "devices": devices,
                **spec,
            },
        }
        self.slices.append(made)
        return made

    def claim(
        self,
        name: str = "c",
        requests: list[dict[str, Any]] | None = None,
        given: list[str] | None = None,
        pods: tuple[str, ...] = (),
        **devices: Any,
    ) -> dict[str, Any]:
        """`given`: REQUEST=DEVICE[@NODE[/DRIVER]] each; None leaves the claim unallocated."""
        asked = requests or [
            {"name": "gpu", "exactly": {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": 1}}
        ]
        made: dict[str, Any] = {
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
            "spec": {"devices": {"requests": asked, **devices}},
            "status": {},
        }
        if given is not None:
            made["status"] = {
                "allocation": {"devices": {"results": [self.result(text) for text in given]}},
                "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods],
            }
        self.claims.append(made)
        return made

    @staticmethod
    def result(text: str) -> dict[str, Any]:
        request, _equals, where = text.partition("=")
        device, _at, place = where.partition("@")
        node, _slash, driver = (place or "n1").partition("/")
        return {"request": request, "driver": driver or GPU, "pool": node, "device": device}

    def pod(
        self,
        name: str = "p",
        claims: dict[str, str] | None = None,
        node: str | None = "n1",
        phase: str = "Running",
        blocked: str = "",
        **spec: Any,
    ) -> dict[str, Any]:
        made: dict[str, Any] = {
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
            "spec": {
                "resourceClaims": [
                    {"name": key, "resourceClaimName": value} for key, value in (claims or {"gpu": "c"}).items()
                ],
                **({"nodeName": node} if node else {}),
                **spec,
            },
            "status": {"phase": phase},
        }
        if blocked:
            reason, _colon, message = blocked.partition(": ")
            made["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
            ]
        self.pods.append(made)
        return made

    def view(self) -> Any:
        from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import View

        return View(self.slices, self.claims, self.pods, self.classes)


@pytest.fixture
def world() -> World:
    """No nodes yet; classes for GPUs, MIG devices and adapters."""
    return World()


@pytest.fixture
def pair(world: World) -> World:
    """A node with two GPUs; claim c has the first, and pod p runs with it."""
    world.slice([world.gpu(0), world.gpu(1)])
    world.claim("c", given=["gpu=gpu-0"], pods=("p",))
    world.pod("p")
    return world
