# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DeviceClasses that come with DRA drivers; private to the collection.

Sources: kubernetes-sigs/dra-driver-nvidia-gpu@95932046 deployments/helm/dra-driver-nvidia-gpu/templates/deviceclass-*.yaml for both NVIDIA
drivers; dra.net brings none of its own, its users write one that selects by the driver.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._slices.errors import SliceError

GPU, COMPUTE_DOMAIN, DRANET = "gpu.nvidia.com", "compute-domain.nvidia.com", "dra.net"
GROUP = "resource.k8s.io"


def _typed(driver: str, kind: str, further: str = "") -> str:
    return f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'{further}"


# By driver: the name of a class, its CEL selector, and the extended resource that it stands for.
CLASSES: Mapping[str, tuple[tuple[str, str, Optional[str]], ...]] = {
    GPU: (
        ("gpu.nvidia.com", _typed(GPU, "gpu"), "nvidia.com/gpu"),
        ("mig.nvidia.com", _typed(GPU, "mig"), None),
        ("vfio.gpu.nvidia.com", _typed(GPU, "vfio"), None),
    ),
    COMPUTE_DOMAIN: (
        ("compute-domain-daemon.nvidia.com", _typed(COMPUTE_DOMAIN, "daemon"), None),
        (
            "compute-domain-default-channel.nvidia.com",
            _typed(COMPUTE_DOMAIN, "channel", f" && device.attributes['{COMPUTE_DOMAIN}'].id == 0"),
            None,
        ),
    ),
    DRANET: (("dra.net", f"device.driver == '{DRANET}'", None),),
}


def device_classes(drivers: Iterable[str], version: str) -> list[dict[str, Any]]:
    """The classes of some drivers in a version of the API; the extended resource is a field of v1 only."""
    found = []
    for driver in drivers:
        if driver not in CLASSES:
            raise SliceError(f"drivers has {driver!r}; classes are known for {', '.join(CLASSES)}", driver=driver)
        for name, expression, extended in CLASSES[driver]:
            spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
            if extended is not None and version == "v1":
                spec["extendedResourceName"] = extended
            found.append(
                {
                    "apiVersion": f"{GROUP}/{version}",
                    "kind": "DeviceClass",
                    "metadata": {"name": name},
                    "spec": spec,
                }
            )
    return found
