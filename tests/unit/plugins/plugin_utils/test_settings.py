# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.filter.passthrough_settings import (
    passthrough_settings,
    role_defaults,
    role_variables,
)
from ansible_collections.gpulab.fleet.plugins.plugin_utils._settings import (
    ENVIRONMENT,
    TESTS,
    TIERS,
    VARIABLES,
    misspelled,
    settings,
)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("vm_ram_mb", "8192", 8192),
        ("vm_ram_mb", 8192, 8192),
        ("vm_ram_mb", " 512 ", 512),
        ("vm_cpus", 4, "4"),
        ("vm_cpus", "0-3,8", "0-3,8"),
        ("qemu_opts", " -global q35-pcihost.pci-hole64-size=8192G", " -global q35-pcihost.pci-hole64-size=8192G"),
        ("qemu_opts", "", ""),
        ("qemu_opts", ["auto", "-global vfio-pci.x-no-mmap=on"], ["auto", "-global vfio-pci.x-no-mmap=on"]),
        ("gpus", "all", ["all"]),
        ("gpus", "0000:41:00.0,81:00.0", ["0000:41:00.0", "0000:81:00.0"]),
        ("gpus", "['10de:2330']", ["10de:2330"]),
        ("gpus", ["00000000:17:00.0", "10DE:2330"], ["0000:17:00.0", "10de:2330"]),
        ("tests", "container,vm", ["vm", "container"]),
        ("tests", ["vm"], ["vm"]),
        ("tiers", "pci", ["pci"]),
        ("keep_instances", "yes", True),
        ("hugepages", False, False),
        ("vm_config", {"user.x": 1}, {"user.x": 1}),
        ("vm_image", "ubuntu:24.04", "ubuntu:24.04"),
        ("vm_image", {"alias": "debian13"}, {"alias": "debian13"}),
    ],
)
def test_values_as_texts_and_as_yaml(name: str, value: object, expected: object) -> None:
    assert settings({name: value}, {}) == ({name: expected}, [])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("vm_ram_mb", "8G", ["vm_ram_mb is '8G'", "MiB", "8192"]),
        ("vm_ram_mb", "-1", ["vm_ram_mb is '-1'"]),
        ("vm_ram_mb", True, ["vm_ram_mb is True"]),
        ("vm_cpus", "many", ["vm_cpus is 'many'", "0-3"]),
        ("gpus", ["0000:41:00"], ["gpus is ['0000:41:00']", "gpus[0]", "10de:2330"]),
        # an address without quotes, as YAML 1.1 reads it
        ("gpus", [600.0], ["gpus is [600.0]", "gpus[0]"]),
        ("gpus", [], ["gpus is []"]),
        ("tests", "vms", ["tests is 'vms'", "vm, container"]),
        ("tiers", ["pci", "compute2"], ["tiers is", "driver"]),
        ("keep_instances", "maybe", ["keep_instances is 'maybe'", "true or false"]),
        ("qemu_opts", 5, ["qemu_opts is 5", "auto"]),
        ("vm_config", "x", ["vm_config is 'x'", "dictionary"]),
        ("vm_image", {"file": "/no/such/file"}, ["vm_image is", "/no/such/file is no file on this controller"]),
        ("vm_image", {"file": "/etc/hostname", "sum": "x"}, ["vm_image is", "not sum"]),
        ("vm_timeout_s", "soon", ["vm_timeout_s is 'soon'", "seconds"]),
    ],
)
def test_a_wrong_value_is_one_sentence_with_name_value_and_remedy(name: str, value: object, words: list[str]) -> None:
    found, problems = settings({name: value}, {})
    assert found == {}
    assert len(problems) == 1
    assert [word for word in words if word not in problems[0]] == []


@pytest.mark.parametrize(
    ("values", "environment", "expected"),
    [
        (
            {},
            {"VM_RAM_MB": "2048", "VM_CPUS": "2", "QEMU_OPTS": "-x y"},
            {"vm_ram_mb": 2048, "vm_cpus": "2", "qemu_opts": "-x y"},
        ),
        ({"vm_ram_mb": 1024}, {"VM_RAM_MB": "2048"}, {"vm_ram_mb": 1024}),
        ({"qemu_opts": ""}, {"QEMU_OPTS": "-x y"}, {"qemu_opts": ""}),
        ({}, {"VM_RAM_MB": "", "VM_CPUS": "", "QEMU_OPTS": ""}, {}),
        # 0 and nothing leave LXD its default
        ({"vm_ram_mb": 0, "vm_cpus": "0"}, {}, {}),
        ({}, {"VM_RAM_MB": "0"}, {}),
        ({}, {"VM_IMAGE": "x", "GPUS": "all"}, {}),
    ],
)
def test_the_environment_stands_in_for_what_is_not_set(
    values: dict[str, object], environment: dict[str, str], expected: dict[str, object]
) -> None:
    assert settings(values, environment) == (expected, [])


def test_a_wrong_value_of_the_environment_is_called_by_its_name_there() -> None:
    assert settings({}, {"VM_RAM_MB": "lots"})[1][0].startswith("VM_RAM_MB in the environment is 'lots'; give MiB")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("vm_ram", "vm_ram_mb"),
        ("VM_RAM_MB", "vm_ram_mb"),
        ("vm_ram_mib", "vm_ram_mb"),
        ("vm_memory", "vm_ram_mb"),
        ("vm_cpu", "vm_cpus"),
        ("gpu", "gpus"),
        ("test", "tests"),
        ("tier", "tiers"),
        ("qemu_opt", "qemu_opts"),
        ("qemu_options", "qemu_opts"),
        ("vm_images", "vm_image"),
        ("containers_image", "container_image"),
        ("keep_instance", "keep_instances"),
        ("lab_reports_dir", "lab_report_dir"),
        ("passthrough_host", "passthrough_hosts"),
        ("lxd_host_hugepage_mb", "lxd_host_hugepages_mb"),
        ("virtual_gpu_host_machin", "virtual_gpu_host_machine"),
    ],
)
def test_a_misspelled_name_is_recognised(name: str, meant: str) -> None:
    (problem,) = misspelled([name], role_variables())
    assert problem.startswith(f"{name} is no variable of this playbook, did you mean {meant}?")


@pytest.mark.parametrize(
    "name",
    [
        *VARIABLES,
        *role_variables(),
        "passthrough_hosts",
        "passthrough_serial",
        "ansible_host",
        "_vm_ram",
        "inventory_hostname",
        "inventory_dir",
        "group_names",
        "groups",
        "hostvars",
        "playbook_dir",
        "role_path",
        "omit",
        "site",
        "rack",
        "datacenter",
        "ntp_servers",
    ],
)
def test_other_names_are_left_alone(name: str) -> None:
    assert misspelled([name], role_variables()) == []


def test_what_is_not_set_comes_from_the_role() -> None:
    read = passthrough_settings({"vm_ram_mb": "2048"}, [])
    assert read["problems"] == []
    assert read["settings"] == {**role_defaults(), "vm_ram_mb": 2048}
    assert set(read["settings"]) == set(VARIABLES)


def test_playbook_role_and_code_agree_on_names_and_choices(checkout: Path) -> None:
    names = yaml.safe_load((checkout / "playbooks/vars/passthrough.yml").read_text())["_passthrough_names"]
    assert names == sorted(VARIABLES)
    tasks = (checkout / "playbooks/tasks/passthrough_host.yml").read_text()
    assert [name for name in VARIABLES if f'passthrough_{name}: "{{{{ _set.{name} }}}}"' not in tasks] == []
    specs = yaml.safe_load((checkout / "roles/passthrough/meta/argument_specs.yml").read_text())["argument_specs"]
    options = specs["main"]["options"]
    assert {f"passthrough_{name}" for name in VARIABLES} <= set(options)
    assert options["passthrough_tests"]["choices"] == list(TESTS)
    assert options["passthrough_tiers"]["choices"] == list(TIERS)
    assert set(ENVIRONMENT) <= set(VARIABLES)
    for name, value in role_defaults().items():
        assert options[f"passthrough_{name}"]["default"] == value
