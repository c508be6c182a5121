# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios as they are written: one YAML file each. Private to the collection."""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

YAML_IMPORT_ERROR: Optional[str] = None
try:
    import yaml
except ImportError:
    YAML_IMPORT_ERROR = traceback.format_exc()

_NAME = re.compile(r"[a-z0-9]([a-z0-9_]{0,38}[a-z0-9])?")
_KEYS = ("description", "needs", "manifests", "steps")
_NEEDS = ("kubernetes", "features", "classes", "nodes", "devices", "aligned", "unaligned")
_DEVICES = ("name", "class", "select", "count")
_ALIGNMENT = ("attribute", "devices")
# A step does one of these.
ACTIONS = ("apply", "delete", "expect", "repeat")
_STEP = {
    "apply": ("apply",),
    "delete": ("delete", "within_s"),
    "expect": ("expect", "within_s", "label"),
    "repeat": ("repeat", "steps"),
}


@dataclass(frozen=True)
class DeviceNeed:
    """Devices that each node of the scenario must have, all of them free."""

    name: str
    device_class: str
    select: str
    number: int


@dataclass(frozen=True)
class Alignment:
    """Devices of several needs that have to share an attribute's value, or must not be able to."""

    attribute: str
    devices: tuple[str, ...]


@dataclass(frozen=True)
class Needs:
    """What a cluster must have for a scenario to mean anything."""

    kubernetes: str = ""
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    nodes: int = 1
    devices: tuple[DeviceNeed, ...] = ()
    aligned: Optional[Alignment] = None
    unaligned: Optional[Alignment] = None


@dataclass(frozen=True)
class Step:
    """One action, with its argument as it is written; templates in it are filled in when its turn comes."""

    action: str
    argument: Any
    within_s: Any = None
    label: str = ""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A scenario as its file says it."""

    name: str
    path: str
    description: str
    needs: Mapping[str, Any]
    manifests: Mapping[str, str]
    steps: tuple[Step, ...] = field(default=())


def find_scenarios(paths: Sequence[str]) -> dict[str, str]:
    """Name -> path of the scenarios in files and folders; a later folder's scenario replaces one of the same name."""
    found: dict[str, str] = {}
    for path in paths:
        full = os.path.abspath(os.path.expanduser(path))
        if os.path.isdir(full):
            files = [os.path.join(full, name) for name in sorted(os.listdir(full)) if name.endswith((".yml", ".yaml"))]
            if not files:
                raise FleetError(f"the folder {path} has no scenario; a scenario is a file with the ending .yml")
        elif os.path.isfile(full):
            files = [full]
        else:
            raise FleetError(f"there is no scenario at {path}; give a file or a folder of files with the ending .yml")
        for file in files:
            found[os.path.splitext(os.path.basename(file))[0]] = file
    return found


def load_scenario(name: str, path: str) -> Scenario:
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise FleetError(f"{path} cannot be read: {error}") from error
    return parse_scenario(name, text, path)


def parse_scenario(name: str, text: str, path: str) -> Scenario:
    """The scenario in a file's text; everything that is wrong with it is told before anything is done."""
    if not _NAME.fullmatch(name):
        raise FleetError(f"{path}: name the file of a scenario with small letters, digits and underscores, 40 at most")
    raw = load_yaml(text, path)
    data = _mapping(raw, path, _KEYS)
    manifests = data.get("manifests") or {}
    if not isinstance(manifests, Mapping) or not all(isinstance(one, str) for one in manifests.values()):
        raise FleetError(f"{path}: manifests has to be a dictionary of texts, which are YAML with templates in it")
    needs = _mapping(data.get("needs") or {}, f"{path}: needs", _NEEDS)
    if not isinstance(data.get("description"), str):
        raise FleetError(f"{path} has no description; say in a sentence what holds when the scenario passes")
    steps = _steps(data.get("steps"), f"{path}: steps", set(map(str, manifests)))
    return Scenario(
        name, path, str(data["description"]).strip(), needs, {str(k): v for k, v in manifests.items()}, steps
    )


def load_yaml(text: str, where: str) -> Any:
    return _documents(text, where)[0]


def load_documents(text: str, where: str) -> list[dict[str, Any]]:
    """The objects of a text of several YAML documents."""
    found = [one for one in _documents(text, where) if one is not None]
    for one in found:
        if not isinstance(one, dict) or not one.get("kind") or not isinstance(one.get("metadata"), dict):
            raise FleetError(f"{where} has a document that is no Kubernetes object: {str(one)[:200]}")
    return found


def dump_documents(objects: Sequence[Mapping[str, Any]]) -> str:
    """Objects as a text of several YAML documents."""
    return str(yaml.safe_dump_all(objects, sort_keys=False, width=160))


def _documents(text: str, where: str) -> list[Any]:
    if YAML_IMPORT_ERROR is not None:
        raise FleetError(
            "this Python cannot read YAML; install the package PyYAML for the interpreter that runs the module",
            exception=YAML_IMPORT_ERROR,
        )
    try:
        return list(yaml.safe_load_all(text)) or [None]
    except yaml.YAMLError as error:
        raise FleetError(f"{where} is no YAML: {' '.join(str(error).split())}") from error


def _steps(raw: Any, where: str, manifests: set[str]) -> tuple[Step, ...]:
    if not isinstance(raw, list) or not raw:
        raise FleetError(f"{where} has to be a list of steps, each with one of {', '.join(ACTIONS)}")
    return tuple(_step(one, f"{where}[{number}]", manifests) for number, one in enumerate(raw))


def _step(raw: Any, where: str, manifests: set[str]) -> Step:
    actions = [action for action in ACTIONS if isinstance(raw, Mapping) and action in raw]
    if len(actions) != 1:
        raise FleetError(f"{where} is {raw!r}; a step has exactly one of {', '.join(ACTIONS)}")
    action = actions[0]
    data = _mapping(raw, where, _STEP[action])
    argument = data[action]
    if action == "apply":
        argument = [argument] if isinstance(argument, str) else argument
        unknown = [name for name in argument or () if str(name) not in manifests]
        if not isinstance(argument, list) or not argument or unknown:
            told = f" has no manifest {unknown[0]!r};" if unknown else ""
            raise FleetError(f"{where}:{told} apply takes names of manifests: {', '.join(sorted(manifests)) or 'none'}")
    if action == "delete" and not (
        isinstance(argument, list)
        and all(isinstance(one, Mapping) and set(one) == {"kind", "name"} for one in argument)
    ):
        raise FleetError(f"{where}: delete takes a list of dictionaries with kind and name")
    if action == "repeat" and (isinstance(argument, bool) or not isinstance(argument, (int, str))):
        raise FleetError(f"{where}: repeat takes a number, and steps beside it")
    inner = _steps(data.get("steps"), f"{where}.steps", manifests) if action == "repeat" else ()
    return Step(action, argument, data.get("within_s"), str(data.get("label") or ""), inner)


def parse_needs(raw: Mapping[str, Any], where: str) -> Needs:
    """The needs of a scenario whose templates have been filled in."""
    data = _mapping(raw, where, _NEEDS)
    devices = []
    for number, one in enumerate(data.get("devices") or ()):
        entry = _mapping(one, f"{where}.devices[{number}]", _DEVICES)
        if not entry.get("name") or not entry.get("class"):
            raise FleetError(f"{where}.devices[{number}] needs a name and a class")
        count = _count(entry.get("count", 1), f"{where}.devices[{number}].count")
        devices.append(DeviceNeed(str(entry["name"]), str(entry["class"]), str(entry.get("select") or ""), count))
    names = {one.name for one in devices}
    return Needs(
        kubernetes=str(data.get("kubernetes") or ""),
        features=tuple(map(str, data.get("features") or ())),
        classes=tuple(map(str, data.get("classes") or ())),
        nodes=_count(data.get("nodes", 1), f"{where}.nodes"),
        devices=tuple(devices),
        aligned=_alignment(data.get("aligned"), f"{where}.aligned", names),
        unaligned=_alignment(data.get("unaligned"), f"{where}.unaligned", names),
    )


def _alignment(raw: Any, where: str, names: set[str]) -> Optional[Alignment]:
    if raw is None:
        return None
    data = _mapping(raw, where, _ALIGNMENT)
    devices = tuple(map(str, data.get("devices") or ()))
    if not data.get("attribute") or not devices or not set(devices) <= names:
        raise FleetError(f"{where} needs an attribute, and devices out of {', '.join(sorted(names))}")
    return Alignment(str(data["attribute"]), devices)


def _count(raw: Union[int, str, Any], where: str) -> int:
    try:
        number = int(raw)
    except (TypeError, ValueError):
        number = -1
    if isinstance(raw, bool) or number < 0:
        raise FleetError(f"{where} is {raw!r}; give a number that is not negative")
    return number


def _mapping(raw: Any, where: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise FleetError(f"{where}: give a dictionary with {', '.join(known)}")
    unknown = sorted(set(map(str, raw)) - set(known))
    if unknown:
        raise FleetError(f"{where} has {unknown[0]!r}; known are {', '.join(known)}")
    return raw
