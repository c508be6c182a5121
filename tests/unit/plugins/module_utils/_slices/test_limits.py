# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the API's limits: what is just allowed passes, one more is refused with object, field and limit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._slices import KUBERNETES, SliceError, check_slices, convert

Slice = dict[str, Any]
Change = Callable[[Slice], Any]


def _device(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"type": {"string": "gpu"}}, "capacity": {"memory": {"value": "80Gi"}}, **more}


def _slice(*devices: dict[str, Any], name: str = "one", **spec: Any) -> Slice:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices) or [_device("gpu-0")],
            **spec,
        },
    }


def _problems(*slices: Any, kubernetes: str | None = None, pools: bool = True) -> list[str]:
    try:
        check_slices(slices, kubernetes, pools)
    except SliceError as error:
        violations: Any = error.details["violations"]
        return [f"{item['object']}: {item['field']}: {item['problem']}" for item in violations]
    return []


def _set(path: str, value: Any) -> Change:
    """Sets what a path of keys and numbers leads to."""

    def change(item: Slice) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split("|")]
        place: Any = item
        for part in way:
            place = place[part]
        place[last] = value

    return change


def _attributes(count: int) -> dict[str, Any]:
    return {f"a{number}": {"int": number} for number in range(count)}


def _counters(count: int) -> dict[str, Any]:
    return {f"c-{number}": {"value": "1"} for number in range(count)}


DEVICE = "spec|devices|0"
MEMORY = f"{DEVICE}|capacity|memory"
TYPE = f"{DEVICE}|attributes|type"
# As messages name them.
GPU = "spec.devices[gpu-0]"
ATTRIBUTES = f"{GPU}.attributes"


def _policy(**policy: Any) -> dict[str, Any]:
    return {"value": "80Gi", "requestPolicy": policy}


def _terms(item: Slice) -> None:
    item["spec"].update(nodeName=None, nodeSelector={"nodeSelectorTerms": [{}, {}]})


def _condition_twice(item: Slice) -> None:
    item["spec"]["devices"][0].update(bindingConditions=["a"], bindingFailureConditions=["a"])


# What is changed of a valid slice, and the field and the words of the only complaint; without words it is allowed.
CASES: list[tuple[str, Change, str, list[str]]] = [
    # Names and lengths.
    ("name", _set("metadata|name", "n" * 253), "", []),
    ("name too long", _set("metadata|name", "n" * 254), "metadata.name", ["254", "at most 253"]),
    ("name upper", _set("metadata|name", "Node"), "metadata.name", ["'Node'", "lower-case"]),
    ("no name", _set("metadata", {}), "metadata.name", ["is missing"]),
    ("name by the server", _set("metadata", {"generateName": "one-"}), "", []),
    ("driver", _set("spec|driver", "d" * 63), "", []),
    ("driver too long", _set("spec|driver", "d" * 64), "spec.driver", ["64 characters", "at most 63"]),
    ("driver upper", _set("spec|driver", "GPU.nvidia.com"), "spec.driver", ["GPU.nvidia.com", "lower-case"]),
    ("driver missing", _set("spec|driver", None), "spec.driver", ["is missing"]),
    ("pool", _set("spec|pool|name", "rack-1/node-1.example.com"), "", []),
    ("pool too long", _set("spec|pool|name", "p" * 254), "spec.pool.name", ["254", "at most 253"]),
    ("pool part", _set("spec|pool|name", "rack-1//node"), "spec.pool.name", ["has a part ''"]),
    ("pool count", _set("spec|pool|resourceSliceCount", 0), "spec.pool.resourceSliceCount", ["0 is out of range", "1 and more"]),
    ("pool count text", _set("spec|pool|resourceSliceCount", "1"), "spec.pool.resourceSliceCount", ["'1' is not a whole number"]),
    ("generation", _set("spec|pool|generation", 0), "", []),
    ("generation negative", _set("spec|pool|generation", -1), "spec.pool.generation", ["-1 is out of range"]),
    ("device name", _set(f"{DEVICE}|name", "d" * 63), "", []),
    ("device name too long", _set(f"{DEVICE}|name", "d" * 64), "spec.devices[0].name", ["64", "at most 63"]),
    ("device name dot", _set(f"{DEVICE}|name", "mig-1g.5gb"), "spec.devices[0].name", ["'mig-1g.5gb'", "is no DNS label"]),
    ("device name missing", _set(f"{DEVICE}|name", None), "spec.devices[0].name", ["is missing"]),
    ("node", _set("spec|nodeName", "Node_1"), "spec.nodeName", ["'Node_1'"]),
    # Attributes.
    ("attribute identifier", _set(f"{DEVICE}|attributes", {"a" * 32: {"int": 1}}), "", []),
    ("attribute identifier too long", _set(f"{DEVICE}|attributes", {"a" * 33: {"int": 1}}), f"{ATTRIBUTES}[{'a' * 33}]", ["33", "at most 32"]),
    ("attribute with a dash", _set(f"{DEVICE}|attributes", {"product-name": {"string": "x"}}), f"{ATTRIBUTES}[product-name]", ["no hyphen"]),
    ("attribute with a dot", _set(f"{DEVICE}|attributes", {"product.name": {"string": "x"}}), f"{ATTRIBUTES}[product.name]", ["no dot"]),
    ("attribute domain", _set(f"{DEVICE}|attributes", {"d" * 63 + "/a": {"int": 1}}), "", []),
    ("attribute domain too long", _set(f"{DEVICE}|attributes", {"d" * 64 + "/a": {"int": 1}}), f"{ATTRIBUTES}[{'d' * 64}/a]", ["64", "at most 63"]),
    ("attribute slashes", _set(f"{DEVICE}|attributes", {"a/b/c": {"int": 1}}), f"{ATTRIBUTES}[a/b/c]", ["more than one slash"]),
    ("attribute value", _set(TYPE, {"string": "x" * 64}), "", []),
    ("attribute value too long", _set(TYPE, {"string": 65 * "x"}), f"{ATTRIBUTES}[type].string", ["65 bytes", "at most 64"]),
    ("attribute bytes", _set(TYPE, {"string": "ü" * 33}), f"{ATTRIBUTES}[type].string", ["66 bytes"]),
    ("attribute empty", _set(TYPE, {"string": ""}), "", []),
    ("attribute two kinds", _set(TYPE, {"string": "x", "int": 1}), f"{ATTRIBUTES}[type]", ["has int and string", "exactly one"]),
    ("attribute no kind", _set(TYPE, {}), f"{ATTRIBUTES}[type]", ["has no value", "exactly one"]),
    ("attribute bare", _set(TYPE, "gpu"), f"{ATTRIBUTES}[type]", ["'gpu' is not a mapping"]),
    ("unquoted address", _set(TYPE, {"string": 600.0}), f"{ATTRIBUTES}[type].string", ["600.0 is a number", "0000:10:00.0", "base 60"]),
    ("unquoted number", _set(TYPE, {"string": -5}), f"{ATTRIBUTES}[type].string", ["-5 is a number", "quotes"]),
    ("int text", _set(TYPE, {"int": "1"}), f"{ATTRIBUTES}[type].int", ["'1' is not a whole number"]),
    ("int true", _set(TYPE, {"int": True}), f"{ATTRIBUTES}[type].int", ["True is not a whole number"]),
    ("int 64", _set(TYPE, {"int": (1 << 63) - 1}), "", []),
    ("int 65", _set(TYPE, {"int": 1 << 63}), f"{ATTRIBUTES}[type].int", ["64 bits"]),
    ("bool text", _set(TYPE, {"bool": "true"}), f"{ATTRIBUTES}[type].bool", ["'true' is not true or false"]),
    ("version", _set(TYPE, {"version": "580.105.8"}), "", []),
    ("version with leading zero", _set(TYPE, {"version": "580.105.08"}), f"{ATTRIBUTES}[type].version", ["'580.105.08'", "without leading zeros"]),
    ("version of two", _set(TYPE, {"version": "13.0"}), f"{ATTRIBUTES}[type].version", ["three numbers"]),
    ("version unquoted", _set(TYPE, {"version": 13.0}), f"{ATTRIBUTES}[type].version", ["13.0 is a number"]),
    ("32 attributes", _set(f"{DEVICE}|attributes", _attributes(31)), "", []),
    ("33 attributes", _set(f"{DEVICE}|attributes", _attributes(32)), GPU, ["33 attributes and capacities", "at most 32"]),
    ("list", _set(f"{DEVICE}|attributes|numa", {"ints": [0, 1]}), "", []),
    ("list empty", _set(f"{DEVICE}|attributes|numa", {"ints": []}), f"{ATTRIBUTES}[numa].ints", ["is empty"]),
    ("list kind", _set(f"{DEVICE}|attributes|numa", {"versions": ["1.2.3", "1"]}), f"{ATTRIBUTES}[numa].versions[1]", ["three numbers"]),
    ("47 in a list", _set(f"{DEVICE}|attributes|numa", {"ints": list(range(47))}), "", []),
    ("48 in a list", _set(f"{DEVICE}|attributes|numa", {"ints": list(range(48))}), ATTRIBUTES, ["49 values", "at most 48"]),
    # Capacity.
    ("capacity name", _set(f"{DEVICE}|capacity", {"memory-gb": {"value": "1"}}), f"{GPU}.capacity[memory-gb]", ["no hyphen"]),
    ("capacity value", _set(f"{DEVICE}|capacity|memory|value", "80GB"), f"{GPU}.capacity[memory].value", ["'80GB' is no quantity"]),
    ("capacity number", _set(f"{DEVICE}|capacity|memory|value", 5), "", []),
    ("capacity bare", _set(f"{DEVICE}|capacity|memory", "80Gi"), f"{GPU}.capacity[memory]", ["not a mapping", '{"value": "80Gi"}']),
    ("capacity missing", _set(f"{DEVICE}|capacity|memory", {}), f"{GPU}.capacity[memory].value", ["is missing"]),
    ("policy without shares", _set(MEMORY, _policy(default="1Gi")), f"{GPU}.capacity[memory].requestPolicy", ["allowMultipleAllocations: true"]),
    # Taints.
    ("16 taints", _set(f"{DEVICE}|taints", [{"key": f"gpu.nvidia.com/t{n}", "effect": "NoSchedule"} for n in range(16)]), "", []),
    ("17 taints", _set(f"{DEVICE}|taints", [{"key": f"t{n}", "effect": "NoSchedule"} for n in range(17)]), f"{GPU}.taints", ["17 taints", "at most 16"]),
    ("taint effect", _set(f"{DEVICE}|taints", [{"key": "t", "effect": "Never"}]), f"{GPU}.taints[0].effect", ["'Never'", "NoSchedule"]),
    ("taint effect None", _set(f"{DEVICE}|taints", [{"key": "t", "value": "79", "effect": "None"}]), "", []),
    ("taint effect null", _set(f"{DEVICE}|taints", [{"key": "t", "effect": None}]), f"{GPU}.taints[0].effect", ["allowed: None"]),
    ("taint key", _set(f"{DEVICE}|taints", [{"key": "-", "effect": "None"}]), f"{GPU}.taints[0].key", ["'-'"]),
    # Nodes.
    ("no node", _set("spec|nodeName", None), "spec", ["none of them", "exactly one"]),
    ("two ways", _set("spec|allNodes", True), "spec", ["nodeName and allNodes", "exactly one"]),
    ("two terms", _terms, "spec.nodeSelector.nodeSelectorTerms", ["exactly one term"]),
    ("device's node", _set(f"{DEVICE}|nodeName", "node-1"), GPU, ["perDeviceNodeSelection: true"]),
    ("device without node", lambda item: item["spec"].update(nodeName=None, perDeviceNodeSelection=True), GPU, ["exactly one of nodeName"]),
    # Conditions.
    ("4 conditions", _set(f"{DEVICE}|bindingConditions", ["a", "b", "c", "d"]), "", []),
    ("5 conditions", _set(f"{DEVICE}|bindingConditions", list("abcde")), f"{GPU}.bindingConditions", ["5 conditions", "at most 4"]),
    ("a condition twice", _condition_twice, f"{GPU}.bindingConditions", ["twice"]),
    # What the server would drop in silence.
    ("unknown field", _set(f"{DEVICE}|atributes", {}), f"{GPU}.atributes", ["is no field", "would drop it"]),
    ("unknown top", _set("status", {}), "status", ["is no field"]),
    ("wrong version", _set("apiVersion", "resource.k8s.io/v1alpha3"), "apiVersion", ["v1alpha3", "allowed: resource.k8s.io/v1beta1"]),
    ("wrong kind", _set("kind", "ResourceClaim"), "kind", ["'ResourceClaim' is not ResourceSlice"]),
    ("no spec", _set("spec", None), "spec", ["is missing"]),
    ("devices no list", _set("spec|devices", {"gpu-0": {}}), "spec.devices", ["is not a list"]),
    ("a device no mapping", _set("spec|devices|0", "gpu-0"), "spec.devices[0]", ["'gpu-0' is not a mapping"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "field", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_one_slice(change: Change, field: str, words: list[str]) -> None:
    item = _slice()
    change(item)
    problems = _problems(item)
    if not words:
        assert problems == []
        return
    name = item["metadata"].get("name")
    about = f"ResourceSlice {name}" if name else "ResourceSlice number 1"
    fitting = [problem for problem in problems if problem.startswith(f"{about}: {field}: ")]
    assert len(fitting) == 1, problems
    assert [word for word in words if word not in fitting[0]] == [], fitting


def test_the_message_has_object_field_and_limit() -> None:
    item = _slice()
    item["spec"]["devices"][0]["attributes"]["bad-name"] = {"string": "x"}
    with pytest.raises(SliceError) as caught:
        check_slices([item])
    assert "ResourceSlice one: spec.devices[gpu-0].attributes[bad-name]: the name is no C identifier" in str(
        caught.value
    )


def test_all_violations_are_told_and_ten_are_shown() -> None:
    slices = [_slice(name=f"Bad-{number}") for number in range(25)]
    with pytest.raises(SliceError, match="and 15 more") as caught:
        check_slices(slices)
    assert len(caught.value.details["violations"]) == 25  # type: ignore[arg-type]
    assert str(caught.value).count("\n- ResourceSlice") == 10


@pytest.mark.parametrize(
    ("more", "limit", "because"),
    [
        ({}, 128, ""),
        ({"taints": [{"key": "t", "effect": "None"}]}, 64, "taints"),
        ({"attributes": {"numa": {"ints": [0]}}}, 64, "list attributes"),
        ({"consumesCounters": [{"counterSet": "s", "counters": _counters(1)}]}, 64, "consumesCounters"),
    ],
)
def test_devices_of_a_slice(more: dict[str, Any], limit: int, because: str) -> None:
    def problems(count: int, kubernetes: str | None = None) -> list[str]:
        devices = [_device(f"gpu-{number}") for number in range(count)]
        devices[3].update(more)
        return _problems(_slice(*devices), kubernetes=kubernetes, pools=False)

    assert problems(limit) == []
    (problem,) = problems(limit + 1)
    assert f"has {limit + 1} devices" in problem
    assert f"at most {limit} are allowed" in problem
    assert because in problem
    # Before 1.35, 128 devices were allowed whatever they had.
    if because in ("taints", "consumesCounters"):
        assert problems(128, "1.34") == []
        assert "129 devices" in problems(129, "1.34")[0]


def test_counters_since_1_35() -> None:
    def shared(sets: int, counters: int) -> Slice:
        item = _slice(sharedCounters=[{"name": f"s-{n}", "counters": _counters(counters)} for n in range(sets)])
        del item["spec"]["devices"]
        return item

    assert _problems(shared(8, 32)) == []
    assert "9 counter sets; at most 8" in _problems(shared(9, 1))[0]
    assert "33 counters; at most 32" in _problems(shared(1, 33))[0]
    assert _problems(shared(4, 8), kubernetes="1.34") == []
    assert "have 40 counters; at most 32 are allowed in a slice" in _problems(shared(5, 8), kubernetes="1.34")[0]
    empty = shared(1, 0)
    assert "spec.sharedCounters[0].counters: is missing" in _problems(empty)[0]
    twice = shared(2, 1)
    twice["spec"]["sharedCounters"][1]["name"] = "s-0"
    assert "'s-0' is the name of two counter sets" in _problems(twice)[0]


def test_counters_and_devices_in_one_slice() -> None:
    item = _slice(_device("gpu-0"), sharedCounters=[{"name": "s", "counters": _counters(1)}])
    assert _problems(item, kubernetes="1.34") == []
    assert "only one of them is allowed" in _problems(item, kubernetes="1.35")[0]


def test_counters_of_a_device() -> None:
    def device(*sets: str) -> Slice:
        consumed = [{"counterSet": name, "counters": _counters(1)} for name in sets]
        return _slice(_device("gpu-0", consumesCounters=consumed))

    assert _problems(device("a", "b"), pools=False) == []
    assert "3 counter sets; at most 2" in _problems(device("a", "b", "c"), pools=False)[0]
    assert "'a' is there twice" in _problems(device("a", "a"), pools=False)[0]
    many = _slice(
        *(_device(f"d-{n}", consumesCounters=[{"counterSet": "s", "counters": _counters(32)}]) for n in range(33))
    )
    assert "consume 1056 counters; at most 1024" in _problems(many, kubernetes="1.33", pools=False)[0]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({}, []),
        ({"default": "10Gi", "validValues": ["10Gi", "20Gi"]}, []),
        ({"default": "1", "validValues": [str(n) for n in range(1, 11)]}, []),
        ({"default": "1", "validValues": [str(n) for n in range(1, 12)]}, ["validValues", "11 values", "at most 10"]),
        ({"default": "10Gi", "validValues": ["20Gi", "10Gi"]}, ["ascending"]),
        ({"default": "10Gi", "validValues": ["10Gi", "10240Mi"]}, ["ascending order, each once"]),
        ({"default": "5Gi", "validValues": ["10Gi"]}, ["default", "is not one of validValues"]),
        ({"default": "10Gi", "validValues": ["10Gi", "90Gi"]}, ["larger than the capacity"]),
        ({"validValues": ["10Gi"]}, ["default", "is missing"]),
        ({"default": "1Mi", "validValues": ["1Mi"], "validRange": {"min": "1Mi"}}, ["one of them is allowed"]),
        ({"default": "1Mi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}, []),
        ({"default": "1Mi", "validRange": {"max": "80Gi"}}, ["min", "is missing"]),
        ({"default": "1Mi", "validRange": {"min": "1Mi", "step": "0"}}, ["step", "greater than zero"]),
        ({"default": "3Mi", "validRange": {"min": "1Mi", "max": "9Mi", "step": "4Mi"}}, ["from min to default"]),
        ({"default": "1Mi", "validRange": {"min": "1Mi", "max": "8Mi", "step": "2Mi"}}, ["from min to max"]),
        ({"default": "0", "validRange": {"min": "1Mi"}}, ["does not hold the default"]),
        ({"default": "1Mi", "validRange": {"min": "1Mi", "max": "90Gi"}}, ["beyond the capacity"]),
        ({"default": "2Mi", "validRange": {"min": "2Mi", "max": "1Mi"}}, ["min is larger than max", "larger than max"]),
    ],
)
def test_policies_of_shares(policy: dict[str, Any], words: list[str]) -> None:
    item = _slice(_device("gpu-0", allowMultipleAllocations=True, capacity={"memory": _policy(**policy)}))
    problems = " | ".join(_problems(item))
    assert bool(problems) == bool(words), problems
    assert not words or any(word in problems for word in words[-1:]), problems


@pytest.mark.parametrize(
    ("more", "spec", "since"),
    [
        ({"taints": [{"key": "t", "effect": "None"}]}, {}, "1.33"),
        ({"consumesCounters": [{"counterSet": "s", "counters": _counters(1)}]}, {}, "1.33"),
        ({"allowMultipleAllocations": True}, {}, "1.34"),
        ({"bindingConditions": ["a"]}, {}, "1.34"),
        ({"attributes": {"numa": {"ints": [0]}}}, {}, "1.36"),
        ({}, {"skipNodeOperations": ["*"]}, "1.37"),
    ],
)
def test_fields_that_an_older_server_would_drop(more: dict[str, Any], spec: dict[str, Any], since: str) -> None:
    item = _slice(_device("gpu-0", **more), **spec)
    for kubernetes in KUBERNETES:
        problems = _problems(item, kubernetes=kubernetes, pools=False)
        if KUBERNETES.index(kubernetes) >= KUBERNETES.index(since):
            assert problems == []
        else:
            assert len(problems) == 1
            assert f"is a field since Kubernetes {since}; {kubernetes} would drop it" in problems[0]


@pytest.mark.parametrize("version", ["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"])
def test_other_versions_of_the_api(version: str) -> None:
    item = convert(_slice(_device("gpu-0"), _device("gpu-0")), version)
    problems = _problems(item)
    assert problems == ["ResourceSlice one: spec.devices[1].name: 'gpu-0' is the name of two devices of this slice"]
    bad = convert(_slice(_device("gpu-0", attributes={"a-b": {"int": 1}})), version)
    wrapper = ".basic" if version.endswith("v1beta1") else ""
    assert _problems(bad)[0].startswith(f"ResourceSlice one: spec.devices[gpu-0]{wrapper}.attributes[a-b]: ")
    # A device of the other version's form.
    mixed = copy.deepcopy(item)
    mixed["apiVersion"] = "resource.k8s.io/v1" if wrapper else "resource.k8s.io/v1beta1"
    assert any("is no field" in problem for problem in _problems(mixed))


# Pools -------------------------------------------------------------------------------------------------------------------


def _pool(*devices: list[dict[str, Any]], **pool: Any) -> list[Slice]:
    slices = [_slice(*items, name=f"slice-{number}") for number, items in enumerate(devices)]
    for item in slices:
        item["spec"]["pool"].update({"resourceSliceCount": len(slices), **pool})
    return slices


def test_a_pool_of_two() -> None:
    assert _problems(*_pool([_device("gpu-0")], [_device("gpu-1")])) == []


def _pool_problem(slices: list[Slice]) -> str:
    # The API server takes each of these.
    assert _problems(*slices, pools=False) == []
    (problem,) = _problems(*slices)
    assert problem.startswith("pool node-1 of gpu.nvidia.com: ")
    return problem


def test_pools_that_the_scheduler_does_not_take() -> None:
    assert "says 2, but there are 1 slices" in _pool_problem(_pool([_device("gpu-0")], [_device("gpu-1")])[:1])
    assert "says 1, but there are 2 slices" in _pool_problem(
        _pool([_device("gpu-0")], [_device("gpu-1")], resourceSliceCount=1)
    )
    unequal = _pool([_device("gpu-0")], [_device("gpu-1")])
    unequal[1]["spec"]["pool"]["resourceSliceCount"] = 1
    assert "differs between its slices: 1, 2" in _pool_problem(unequal)
    stale = _pool([_device("gpu-0")], [_device("gpu-0")], resourceSliceCount=1)
    stale[1]["spec"]["pool"]["generation"] = 2
    assert "1 slices are older than generation 2" in _pool_problem(stale)
    assert "two devices are named gpu-0, in slice-0 and slice-1" in _pool_problem(
        _pool([_device("gpu-0")], [_device("gpu-0")])
    )


def test_two_pools_with_one_name() -> None:
    slices = [_slice(name="a"), _slice(name="b")]
    slices[1]["spec"]["nodeName"] = "node-2"
    assert "is the name of pools of 2 nodes: node-1, node-2" in _pool_problem(slices)
    # Pools of other drivers may have the name of the node as well.
    slices[1]["spec"]["driver"] = "dra.net"
    assert _problems(*slices) == []


def test_counters_that_are_not_there_or_too_few() -> None:
    def pool(counter_set: str, counters: dict[str, Any]) -> list[Slice]:
        device = _device("gpu-0", consumesCounters=[{"counterSet": counter_set, "counters": counters}])
        slices = _pool([device], [device])
        slices[1]["spec"]["sharedCounters"] = [{"name": "s", "counters": {"memory": {"value": "80Gi"}}}]
        del slices[1]["spec"]["devices"]
        return slices

    assert _problems(*pool("s", {"memory": {"value": "81920Mi"}})) == []
    assert "names the counter set t, which no slice" in _pool_problem(pool("t", {"memory": {"value": "1"}}))
    assert "names encoders, which s has not" in _pool_problem(pool("s", {"encoders": {"value": "1"}}))
    assert "takes more of memory than s has" in _pool_problem(pool("s", {"memory": {"value": "81Gi"}}))


def test_two_slices_with_one_name() -> None:
    slices = _pool([_device("gpu-0")], [_device("gpu-1")])
    slices[1]["metadata"]["name"] = "slice-0"
    assert "ResourceSlice slice-0: metadata.name: is the name of two slices" in _problems(*slices, pools=False)


@pytest.mark.parametrize("item", [None, [], "text", 5])
def test_what_is_no_object(item: Any) -> None:
    assert len(_problems(item)) == 1
