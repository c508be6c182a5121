# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gathers what all hosts of a passthrough run have to say."""

from __future__ import annotations

DOCUMENTATION = r"""
name: passthrough_report
short_description: Gather the checks of all hosts
version_added: 0.1.0
description:
  - Gathers the facts C(passthrough_checks), C(passthrough_labels) and C(passthrough_host) of all hosts of a play.
  - A host without checks was lost before its first test. It gets a failed check, so that it is not missing in the report.
positional: hostvars
options:
  _input:
    description: Names of all hosts of the play. C(localhost) counts only when it has checks.
    type: list
    elements: str
    required: true
  hostvars:
    description: Ansible's C(hostvars).
    type: dict
    required: true
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Show all checks
  ansible.builtin.debug:
    msg: "{{ (ansible_play_hosts_all | gpulab.fleet.passthrough_report(hostvars)).checks }}"
"""

RETURN = r"""
_value:
  description: C(checks) of all hosts, C(labels) of their devices and C(hosts), facts of their own, both by host, and C(started), when the first test began.
  type: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpulab.fleet.plugins.plugin_utils._outcome import failed_check

_LOST = "the run ended for this host before its first test; the messages above say why"
_NOBODY = (
    "there is no host to test: the inventory has none besides localhost, or --limit and passthrough_hosts leave none"
)


def passthrough_report(hosts: Sequence[str], hostvars: Mapping[str, Any]) -> dict[str, Any]:
    checks: list[dict[str, Any]] = []
    labels: dict[str, Any] = {}
    about: dict[str, Any] = {}
    started = []
    tested = [host for host in hosts if host != "localhost" or "passthrough_checks" in hostvars[host]]
    for host in tested:
        facts = hostvars[host]
        checks += facts.get("passthrough_checks") or [failed_check(host, "ready", "host", "tested", {"msg": _LOST})]
        if facts.get("passthrough_labels"):
            labels[host] = facts["passthrough_labels"]
        if facts.get("passthrough_host"):
            about[host] = facts["passthrough_host"]
        if facts.get("_passthrough_started"):
            started.append(str(facts["_passthrough_started"]))
    if not tested:
        checks.append(failed_check("localhost", "ready", "host", "hosts", {"msg": _NOBODY}))
    return {"checks": checks, "labels": labels, "hosts": about, "started": min(started, default="")}


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"passthrough_report": passthrough_report}
