# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of a ResourceSlice, since which release of Kubernetes each is there, and the limits of each release; private to the collection.

Fields are from kubernetes/api, branches release-1.32 to master@10b39a39; limits from kubernetes/kubernetes,
pkg/apis/resource/types.go and pkg/apis/resource/validation/validation.go@009801d9 and the same files of the releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Optional

Release = tuple[int, int]

_OLDEST: Release = (1, 32)

SLICE: Mapping[str, Release] = dict.fromkeys(("apiVersion", "kind", "metadata", "spec"), _OLDEST)
SPEC: Mapping[str, Release] = {
    **dict.fromkeys(("driver", "pool", "nodeName", "nodeSelector", "allNodes", "devices"), _OLDEST),
    "perDeviceNodeSelection": (1, 33),
    "sharedCounters": (1, 33),
    "partitionTypeAttribute": (1, 37),
    "skipNodeOperations": (1, 37),
}
POOL: Mapping[str, Release] = dict.fromkeys(("name", "generation", "resourceSliceCount"), _OLDEST)
DEVICE: Mapping[str, Release] = {
    **dict.fromkeys(("name", "attributes", "capacity"), _OLDEST),
    **dict.fromkeys(("consumesCounters", "nodeName", "nodeSelector", "allNodes", "taints"), (1, 33)),
    **dict.fromkeys(
        ("bindsToNode", "bindingConditions", "bindingFailureConditions", "allowMultipleAllocations"), (1, 34)
    ),
    "nodeAllocatableResourceMappings": (1, 36),
    "nodeAllocatableResources": (1, 37),
}
SCALARS: Mapping[str, type] = {"int": int, "bool": bool, "string": str, "version": str}
LISTS: Mapping[str, type] = {"ints": int, "bools": bool, "strings": str, "versions": str}
ATTRIBUTE: Mapping[str, Release] = {**dict.fromkeys(SCALARS, _OLDEST), **dict.fromkeys(LISTS, (1, 36))}
CAPACITY: Mapping[str, Release] = {"value": _OLDEST, "requestPolicy": (1, 34)}
# What stands inside another field came with it.
POLICY: Mapping[str, Release] = dict.fromkeys(("default", "validValues", "validRange"), _OLDEST)
RANGE: Mapping[str, Release] = dict.fromkeys(("min", "max", "step"), _OLDEST)
COUNTER_SET: Mapping[str, Release] = dict.fromkeys(("name", "counters"), _OLDEST)
CONSUMPTION: Mapping[str, Release] = dict.fromkeys(("counterSet", "counters"), _OLDEST)
COUNTER: Mapping[str, Release] = {"value": _OLDEST}
TAINT: Mapping[str, Release] = dict.fromkeys(("key", "value", "effect", "timeAdded"), _OLDEST)

TAINT_EFFECTS = ("None", "NoSchedule", "NoExecute")

# The same in all releases.
DRIVER_LENGTH = 63
POOL_LENGTH = 253
NODE_LENGTH = 253
NAME_LENGTH = 253
LABEL_LENGTH = 63
DOMAIN_LENGTH = 63
IDENTIFIER_LENGTH = 32
VALUE_BYTES = 64
ATTRIBUTES_AND_CAPACITIES = 32
BINDING_CONDITIONS = 4
VALID_VALUES = 10


@dataclass(frozen=True)
class Limits:
    """What one release allows; None is no limit of that kind."""

    # Devices of a slice, and of one with taints, counters or lists in it.
    devices: int
    advanced_devices: int
    taints: int
    # Values of all attributes of a device, those of lists counted one by one.
    attribute_values: Optional[int]
    counter_sets: Optional[int]
    counters_per_set: Optional[int]
    counters_per_slice: Optional[int]
    consumptions_per_device: Optional[int]
    consumed_per_slice: Optional[int]
    # sharedCounters and devices may stand in one slice.
    combined: bool


_FIRST = Limits(
    devices=128,
    advanced_devices=128,
    taints=4,
    attribute_values=None,
    counter_sets=None,
    counters_per_set=None,
    counters_per_slice=32,
    consumptions_per_device=None,
    consumed_per_slice=1024,
    combined=True,
)
_SINCE_1_35 = Limits(
    devices=128,
    advanced_devices=64,
    taints=16,
    attribute_values=None,
    counter_sets=8,
    counters_per_set=32,
    counters_per_slice=None,
    consumptions_per_device=2,
    consumed_per_slice=None,
    combined=False,
)
_SINCE_1_36 = replace(_SINCE_1_35, attribute_values=48)


def limits_of(release: Release) -> Limits:
    """The limits of a release of Kubernetes."""
    if release >= (1, 36):
        return _SINCE_1_36
    return _SINCE_1_35 if release >= (1, 35) else _FIRST
