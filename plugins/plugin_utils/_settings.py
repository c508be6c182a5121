# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person may set for the passthrough playbook: read, judged, and said clearly when wrong. Private to the collection."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.address import parse_address

TESTS = ("vm", "container")
TIERS = ("pci", "driver", "compute")

_CPU_SET = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
_IDS = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{4}")
_IMAGE_FILE_KEYS = ("file", "metadata", "checksum", "metadata_checksum")
# What people call these things elsewhere, where spelling alone does not lead to our name.
_SYNONYMS = {
    "cpus": "vm_cpus",
    "container": "container_image",
    "image": "vm_image",
    "memory_mb": "vm_ram_mb",
    "qemu_options": "qemu_opts",
    "ram_mb": "vm_ram_mb",
    "raw_qemu": "qemu_opts",
    "vm_mem": "vm_ram_mb",
    "vm_memory": "vm_ram_mb",
    "vm_memory_mb": "vm_ram_mb",
    "vm_vcpus": "vm_cpus",
    "vmcpus": "vm_cpus",
    "vmram": "vm_ram_mb",
}
_NEAR = 0.8


class Wrong(Exception):
    """A value that cannot be used; the text goes behind "NAME is VALUE; "."""


def _whole(lowest: int, unit: str, example: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        text = str(value).strip()
        if isinstance(value, bool) or not re.fullmatch(r"[0-9]+", text) or int(text) < lowest:
            raise Wrong(f"give {unit} as a whole number from {lowest} up, such as {example}")
        return int(text)

    return convert


def _cpus(value: Any) -> str:
    text = str(value).strip()
    if isinstance(value, bool) or not _CPU_SET.fullmatch(text) or text == "0":
        raise Wrong("give a count such as 4, or a set of the host's CPUs such as 0-3 or 0-3,8")
    return text


def _truth(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0"):
        return False
    raise Wrong("give true or false")


def _words(value: Any) -> list[Any]:
    """A list, or a text with commas, as it comes from the command line."""
    if isinstance(value, str):
        return [word.strip() for word in value.strip("[]").replace("'", "").replace('"', "").split(",") if word.strip()]
    if isinstance(value, Sequence):
        return list(value)
    return [value]


def _choice(allowed: Sequence[str]) -> Callable[[Any], list[str]]:
    def convert(value: Any) -> list[str]:
        words = [str(word) for word in _words(value)]
        wrong = [word for word in words if word not in allowed]
        if wrong or not words:
            raise Wrong(f"give one or more of {', '.join(allowed)}")
        return [word for word in allowed if word in words]

    return convert


def _gpus(value: Any) -> list[str]:
    chosen = []
    for position, word in enumerate(_words(value)):
        if isinstance(word, str) and (word.lower() == "all" or _IDS.fullmatch(word)):
            chosen.append(word.lower())
            continue
        try:
            chosen.append(parse_address(word, f"gpus[{position}]"))
        except FleetError as error:
            raise Wrong(f'{error.message}, ids such as "10de:2330", or all') from error
    if not chosen:
        raise Wrong('give all, or a list of addresses such as "0000:41:00.0"')
    return chosen


def _qemu_opts(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(word, str) for word in value):
        return list(value)
    raise Wrong("give auto, a text or a list of texts with QEMU's options, or '' to leave LXD alone")


def _image(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, Mapping) and value:
        image = {str(key): text for key, text in value.items() if text is not None}
        unknown = [key for key in image if key not in _IMAGE_FILE_KEYS] if "file" in image else []
        if unknown:
            raise Wrong(f"with file it takes {', '.join(_IMAGE_FILE_KEYS)}, and not {', '.join(unknown)}")
        for key in ("file", "metadata"):
            if "file" in image and key in image:
                path = os.path.abspath(os.path.expanduser(str(image[key])))
                if not os.path.isfile(path):
                    raise Wrong(
                        f"its {key} {path} is no file on this controller; correct the path, or build the image first"
                    )
                image[key] = path
        return image
    raise Wrong(
        "give an alias or remote:alias, a path on the host, a URL with its checksum, or a dictionary with file for a file of this controller"
    )


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Wrong("give a dictionary")
    return dict(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("give a text")
    return value.strip()


# Every variable of the playbook, with what makes a value of it. Those that only name hosts or paths are not looked at here.
VARIABLES: Mapping[str, Callable[[Any], Any]] = {
    "vm_ram_mb": _whole(1, "MiB", 8192),
    "vm_cpus": _cpus,
    "qemu_opts": _qemu_opts,
    "vm_image": _image,
    "container_image": _image,
    "gpus": _gpus,
    "gpus_together": _truth,
    "tests": _choice(TESTS),
    "tiers": _choice(TIERS),
    "expected_driver": _text,
    "hugepages": _truth,
    "secure_boot": _truth,
    "vm_config": _mapping,
    "vm_devices": _mapping,
    "container_config": _mapping,
    "vm_timeout_s": _whole(1, "seconds", 600),
    "container_timeout_s": _whole(1, "seconds", 300),
    "check_timeout_s": _whole(1, "seconds", 180),
    "compute_timeout_s": _whole(1, "seconds", 600),
    "release_timeout_s": _whole(1, "seconds", 60),
    "burn_seconds": _whole(1, "seconds", 10),
    "keep_instances": _truth,
}
# The variable a fallback in the environment stands for.
ENVIRONMENT = {"vm_ram_mb": "VM_RAM_MB", "vm_cpus": "VM_CPUS", "qemu_opts": "QEMU_OPTS"}
OTHER_VARIABLES = (
    "passthrough_hosts",
    "passthrough_serial",
    "passthrough_own_variables",
    "lab_report_dir",
    # Facts and results of our own roles, which are there when an earlier play has run them.
    "passthrough_checks",
    "passthrough_labels",
    "virtual_gpu_host_result",
    "lxd_host_instances",
    "lxd_host_socket",
)


def settings(values: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Usable values of all variables that are set, and what is wrong with the others.

    A variable that is set wins over the environment, an empty one of the environment is not set. Zero and nothing mean LXD's default for
    memory and CPUs, as they do in the checkbox launchers that these names come from.
    """
    found: dict[str, Any] = {}
    problems = []
    for name, convert in VARIABLES.items():
        value, shown = values.get(name), name
        if value is None and environment.get(ENVIRONMENT.get(name, "")):
            shown = f"{ENVIRONMENT[name]} in the environment"
            value = environment[ENVIRONMENT[name]]
        if value is None or (name in ("vm_ram_mb", "vm_cpus") and str(value).strip() in ("", "0")):
            continue
        if value == "" and name != "qemu_opts":
            continue
        try:
            found[name] = convert(value)
        except Wrong as error:
            problems.append(f"{shown} is {_shown(value)}; {error}")
    return found, problems


def misspelled(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """A message for each name that looks like one of ours and is none."""
    ours = sorted({*VARIABLES, *OTHER_VARIABLES, *known})
    problems = []
    for name in sorted(set(names)):
        if name in ours or name.startswith(("_", "ansible_")):
            continue
        lower = name.lower()
        near = [_SYNONYMS[lower]] if lower in _SYNONYMS else difflib.get_close_matches(lower, ours, n=1, cutoff=_NEAR)
        if near:
            problems.append(
                f"{name} is no variable of this playbook, did you mean {near[0]}? (If it is one of your own, name it in passthrough_own_variables.)"
            )
    return problems


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
