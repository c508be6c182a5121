# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the steps of one passthrough test left, as checks: start, look, release. Private to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.result import Check, Subject

# A GPU that no container can have is no fault of the test (reason of lxd_gpu_container).
UNUSABLE = "gpu_unusable_in_container"
_EVIDENCE_KEYS = (
    "reason",
    "last_state",
    "console",
    "instance_log",
    "holders",
    "released",
    "actions",
    "option",
    "value",
    "viability",
    "used_by",
    "lxd_error",
)
# What Ansible puts before every message.
_NOISE = ("Task failed: ", "Action failed: ", "Module failed: ", "Failed to connect to the host via ssh: ")
Step = Mapping[str, Any]


def checks_of_test(
    host: str,
    test: str,
    device: str,
    start: Step,
    look: Step,
    release: Step,
    kept: bool = False,
    seconds: float = 0.0,
) -> list[dict[str, Any]]:
    """The checks of one test. A step that never came about is an empty dictionary, or was skipped."""
    start, release = ({} if step.get("skipped") else step for step in (start, release))
    subject = Subject(host, test, device)
    checks = [_start(subject, device, start, seconds)]
    found = [check.to_dict() for check in checks]
    if checks[0].status == "passed":
        found += _look(subject, device, look)
    if checks[0].status != "skipped":
        found.append(_release(subject, device, release, kept).to_dict())
    return found


def failed_check(host: str, test: str, device: str, name: str, step: Step, seconds: float = 0.0) -> dict[str, Any]:
    """One check for a step outside of a test that failed or could not reach its host."""
    return Subject(host, test).failed(device, name, _message(step), _evidence(step), seconds).to_dict()


def skipped_check(host: str, test: str, device: str, name: str, reason: str) -> dict[str, Any]:
    return Subject(host, test).skipped(device, name, reason).to_dict()


def lost(step: Step) -> bool:
    """Whether the host could not be reached."""
    return bool(step.get("unreachable"))


def went_wrong(step: Step) -> bool:
    return lost(step) or bool(step.get("failed"))


def _start(subject: Subject, device: str, step: Step, seconds: float) -> Check:
    name = "start"
    if not step:
        return subject.failed(device, name, "the test did not get as far as its start", None, seconds)
    if step.get("reason") == UNUSABLE:
        return subject.skipped(device, name, _message(step), _evidence(step), seconds)
    if went_wrong(step):
        return subject.failed(device, name, _message(step), _evidence(step), seconds)
    actions = [str(action) for action in step.get("actions") or ()]
    ready = step.get("ready") or {}
    starts = actions.count("start")
    evidence = {
        "actions": actions,
        "starts": starts,
        "ready": ready,
        "qemu_opts": step.get("qemu_opts_explained"),
        "config": (step.get("instance") or {}).get("config"),
    }
    if starts > 1:
        return subject.failed(device, name, f"it took {starts} starts where one is enough", evidence, seconds)
    how = "started once" if starts else "ran already"
    after = f", ready after {float(ready['seconds']):.0f} s" if ready.get("seconds") is not None else ""
    return subject.passed(device, name, f"{how}{after}{_hole(step)}", evidence, seconds)


def _hole(step: Step) -> str:
    explained = step.get("qemu_opts_explained") or {}
    tokens = explained.get("tokens")
    return f"; QEMU options added: {' '.join(str(token) for token in tokens)}" if tokens else ""


def _look(subject: Subject, device: str, step: Step) -> list[dict[str, Any]]:
    if not step:
        return [subject.failed(device, "look", "nobody looked into the guest").to_dict()]
    if step.get("skipped"):
        return [subject.skipped(device, "look", "in check mode there is no guest to look into").to_dict()]
    # With fail_on, or when only later checks went wrong, the module has checks to tell of as well.
    found = [dict(check) for check in step.get("checks") or ()]
    if went_wrong(step) and not found:
        found.append(subject.failed(device, "look", _message(step), _evidence(step)).to_dict())
    return found


def _release(subject: Subject, device: str, step: Step, kept: bool) -> Check:
    name = "release"
    if kept:
        return subject.skipped(device, name, "the instance was kept (keep_instances), and its GPU with it")
    if not step:
        return subject.failed(device, name, "nobody removed the instance")
    if went_wrong(step):
        return subject.failed(device, name, _message(step), _evidence(step))
    released = [dict(state) for state in step.get("released") or ()]
    held = [state for state in released if not state.get("released")]
    evidence = {"released": released}
    if held:
        return subject.failed(
            device, name, "; ".join(f"{state.get('address')}: {state.get('reason')}" for state in held), evidence
        )
    if not released:
        return subject.passed(device, name, "the instance is gone; no function had to be given back", evidence)
    return subject.passed(device, name, "; ".join(_returned(state) for state in released), evidence)


def _returned(state: Mapping[str, Any]) -> str:
    return f"{state.get('address')} is back on {state.get('driver') or 'no driver, as before'}"


def _message(step: Step) -> str:
    # Of a loop, Ansible tells only that one of its items failed.
    for item in step.get("results") or ():
        if isinstance(item, Mapping) and went_wrong(item):
            return _message(item)
    text = " ".join(str(step.get("msg") or "").split())
    for words in _NOISE:
        text = text.replace(words, "")
    if lost(step):
        return f"the host could not be reached any more: {text or 'no message'}"
    if text.startswith("Module result deserialization failed") and step.get("module_stderr"):
        # Ansible's words for a module that did not even begin; what it printed says why.
        return f"a module could not run on the host: {' '.join(str(step['module_stderr']).split())[-400:]}"
    return text or "it failed without a message"


def _evidence(step: Step) -> dict[str, Any] | None:
    found = {key: step[key] for key in _EVIDENCE_KEYS if step.get(key) not in (None, [], {})}
    return found or None
