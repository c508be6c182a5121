# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors carry a message and details; differences feed changed and diff."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.differences import Differences
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import DeadlineExpired, FleetError


def test_error_keeps_message_and_details():
    error = FleetError("vm_ram_mb is 12, the least is 256", option="vm_ram_mb", value=12)
    assert str(error) == error.message == "vm_ram_mb is 12, the least is 256"
    assert error.details == {"option": "vm_ram_mb", "value": 12}


def test_deadline_expired_is_caught_as_fleet_error():
    with pytest.raises(FleetError) as caught:
        raise DeadlineExpired("too late", last_state="Starting")
    assert caught.value.details == {"last_state": "Starting"}


@pytest.mark.parametrize(
    ("pairs", "changed", "diff"),
    [
        ([], False, {"before": {}, "after": {}}),
        ([("a", 1, 1), ("b", None, None)], False, {"before": {}, "after": {}}),
        ([("a", 1, 2), ("b", 3, 3)], True, {"before": {"a": 1}, "after": {"a": 2}}),
        ([("a", None, "x"), ("b", "y", None)], True, {"before": {"a": None, "b": "y"}, "after": {"a": "x", "b": None}}),
    ],
)
def test_differences(pairs, changed, diff):
    differences = Differences()
    answers = [differences.add(*pair) for pair in pairs]
    assert answers == [before != after for _name, before, after in pairs]
    assert differences.changed is changed
    assert differences.diff() == diff
    assert list(differences.names) == list(diff["after"])


def test_diff_is_a_copy():
    differences = Differences()
    differences.add("a", 1, 2)
    differences.diff()["after"]["a"] = 3
    assert differences.diff()["after"] == {"a": 2}
