# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.filter.passthrough_report import passthrough_report
from ansible_collections.gpulab.fleet.plugins.plugin_utils._outcome import checks_of_test, failed_check

STARTED = {
    "changed": True,
    "actions": ["create", "start"],
    "ready": {"ready": True, "seconds": 61.4},
    "qemu_opts_explained": {"tokens": ["-global", "q35-pcihost.pci-hole64-size=512G"], "explanation": "128 GiB"},
    "instance": {"config": {"limits.memory": "2048MiB"}},
}
LOOKED = {
    "checks": [
        {
            "host": "alpha",
            "device": "0000:41:00.0",
            "test": "vm",
            "name": "pci.bars",
            "status": "passed",
            "reason": "ok",
        }
    ]
}
GONE = {
    "changed": True,
    "actions": ["stop", "delete"],
    "released": [{"address": "0000:41:00.0", "released": True, "driver": "nvidia"}],
}
IDLE = {"released": [{"address": "0000:41:00.0", "released": True, "driver": None}]}
LOST = {
    "unreachable": True,
    "changed": False,
    "msg": "Task failed: Failed to connect to the host via ssh: Connection refused",
}


def outcome(start: Any = None, look: Any = None, release: Any = None, **more: Any) -> dict[str, tuple[str, str]]:
    start, look, release = (
        default if given is None else given for given, default in ((start, STARTED), (look, LOOKED), (release, GONE))
    )
    checks = checks_of_test("alpha", "vm", "0000:41:00.0", start, look, release, **more)
    assert {(check["host"], check["test"], check["device"]) for check in checks} == {("alpha", "vm", "0000:41:00.0")}
    return {check["name"]: (check["status"], check["reason"]) for check in checks}


def test_a_test_that_went_well() -> None:
    found = outcome()
    assert {name: status for name, (status, _reason) in found.items()} == {
        "start": "passed",
        "pci.bars": "passed",
        "release": "passed",
    }
    assert (
        found["start"][1]
        == "started once, ready after 61 s; QEMU options added: -global q35-pcihost.pci-hole64-size=512G"
    )
    assert found["release"][1] == "0000:41:00.0 is back on nvidia"


def test_the_evidence_of_a_start_has_how_the_vm_was_sized() -> None:
    (start, *_rest) = checks_of_test("alpha", "vm", "g", STARTED, LOOKED, GONE)
    assert start["evidence"]["starts"] == 1
    assert start["evidence"]["qemu_opts"] == STARTED["qemu_opts_explained"]
    assert start["evidence"]["config"] == {"limits.memory": "2048MiB"}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # a start that fails leaves nothing to look at; the release is checked all the same
        (
            {"start": {"failed": True, "msg": "x did not start", "reason": "qemu_opts"}, "look": {}},
            {"start": ("failed", "x did not start"), "release": ("passed", "0000:41:00.0 is back on nvidia")},
        ),
        # more than one boot is a fault of ours
        (
            {"start": {**STARTED, "actions": ["create", "start", "stop", "start"]}, "look": {}},
            {"start": ("failed", "it took 2 starts where one is enough")},
        ),
        ({"start": {"actions": [], "ready": None}}, {"start": ("passed", "ran already")}),
        # the host goes away in the middle
        (
            {"look": LOST, "release": LOST},
            {"look": ("failed", "the host could not be reached any more: Connection refused")},
        ),
        (
            {"start": LOST, "look": {"skipped": True}, "release": LOST},
            {"start": ("failed", "the host could not be reached any more: Connection refused")},
        ),
        ({"start": {}, "look": {}, "release": {}}, {"start": ("failed", "the test did not get as far as its start")}),
        ({"look": {"failed": True, "msg": "no agent"}}, {"look": ("failed", "no agent")}),
        ({"look": {}}, {"look": ("failed", "nobody looked into the guest")}),
        ({"look": {"skipped": True}}, {"look": ("skipped", "in check mode there is no guest to look into")}),
        ({"release": {"failed": True, "msg": "held by python3"}}, {"release": ("failed", "held by python3")}),
        ({"release": {}}, {"release": ("failed", "nobody removed the instance")}),
        (
            {"release": {"skipped": True}, "kept": True},
            {"release": ("skipped", "the instance was kept (keep_instances), and its GPU with it")},
        ),
        (
            {"release": {"actions": [], "released": []}},
            {"release": ("passed", "the instance is gone; no function had to be given back")},
        ),
        (
            {
                "release": {
                    "released": [{"address": "0000:41:00.1", "released": False, "reason": "is still on vfio-pci"}]
                }
            },
            {"release": ("failed", "0000:41:00.1: is still on vfio-pci")},
        ),
        (
            {"release": IDLE},
            {"release": ("passed", "0000:41:00.0 is back on no driver, as before")},
        ),
    ],
)
def test_steps_that_went_otherwise(steps: dict[str, Any], expected: dict[str, tuple[str, str]]) -> None:
    found = outcome(**steps)
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize("failed", [True, False])
def test_a_gpu_that_no_container_can_have_is_skipped_and_nothing_else_said(failed: bool) -> None:
    found = outcome(
        {"failed": failed, "msg": "no DRM node", "reason": "gpu_unusable_in_container"},
        {"skipped": True},
        {"skipped": True},
    )
    assert found == {"start": ("skipped", "no DRM node")}


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"msg": "Task failed: Action failed: vm_ram_mb is 'x'"}, "vm_ram_mb is 'x'"),
        ({"msg": "All items completed", "results": [{"msg": "fine"}, {"failed": True, "msg": "this one"}]}, "this one"),
        ({}, "it failed without a message"),
        (
            {"msg": "Module result deserialization failed: No start", "module_stderr": "python3: not found"},
            "a module could not run on the host: python3: not found",
        ),
    ],
)
def test_the_reason_is_what_a_person_needs(step: dict[str, Any], reason: str) -> None:
    check = failed_check("alpha", "ready", "host", "host", step)
    assert (check["status"], check["reason"]) == ("failed", reason)


def test_details_of_a_failure_become_evidence_and_ansibles_own_do_not() -> None:
    check = failed_check(
        "alpha", "ready", "host", "host", {"msg": "m", "console": ["panic"], "invocation": {"x": 1}, "holders": []}
    )
    assert check["evidence"] == {"console": ["panic"]}


def test_the_report_has_every_host() -> None:
    hostvars = {
        "alpha": {
            "passthrough_checks": [{"name": "a"}],
            "passthrough_labels": {"g": "H100"},
            "_passthrough_started": "2026-01-01T00:00:05+00:00",
        },
        "beta": {
            "passthrough_checks": [{"name": "b"}],
            "passthrough_host": {"cpus": 2},
            "_passthrough_started": "2026-01-01T00:00:01+00:00",
        },
        "gamma": {},
        "localhost": {},
    }
    report = passthrough_report(list(hostvars), hostvars)
    assert [check["name"] for check in report["checks"]] == ["a", "b", "tested"]
    assert (report["checks"][2]["host"], report["checks"][2]["status"]) == ("gamma", "failed")
    assert report["labels"] == {"alpha": {"g": "H100"}}
    assert report["hosts"] == {"beta": {"cpus": 2}}
    assert report["started"] == "2026-01-01T00:00:01+00:00"


@pytest.mark.parametrize("hosts", [[], ["localhost"]])
def test_a_run_without_hosts_does_not_pass(hosts: list[str]) -> None:
    (check,) = passthrough_report(hosts, {"localhost": {}})["checks"]
    assert (check["status"], "no host to test" in check["reason"]) == ("failed", True)


def test_localhost_counts_when_it_was_tested() -> None:
    report = passthrough_report(["localhost"], {"localhost": {"passthrough_checks": [{"name": "a"}]}})
    assert [check["name"] for check in report["checks"]] == ["a"]
