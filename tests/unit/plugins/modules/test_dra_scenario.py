# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module dra_scenario as Ansible runs it: which scenarios, what the cluster lacks, and what is refused before anything is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.modules import dra_scenario

SCENARIO = """
description: It looks.
needs: {NEEDS}
steps: [{expect: {}}]
"""


@pytest.fixture
def server(api_server):
    return api_server


@pytest.fixture
def folder(tmp_path):
    """folder(name=needs, ...) -> a folder of scenarios."""

    def make(**scenarios):
        path = tmp_path / "scenarios"
        path.mkdir(exist_ok=True)
        for name, needs in scenarios.items():
            (path / f"{name}.yml").write_text(SCENARIO.replace("{NEEDS}", json.dumps(needs)))
        return str(path)

    return make


def call(capsys, tmp_path, **params):
    given = {"progress_path": str(tmp_path / "progress.jsonl"), **params}
    with patch_module_args(given), pytest.raises(SystemExit):
        dra_scenario.main()
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def given(**params):
    return {"paths": [], "only": None, "skip": [], **params}


def test_only_and_skip_choose_by_name(folder):
    path = folder(a={}, b={}, c={})
    assert [one.name for one in dra_scenario.chosen(given(paths=[path]))] == ["a", "b", "c"]
    assert [one.name for one in dra_scenario.chosen(given(paths=[path], only=["c", "a"]))] == ["c", "a"]
    assert [one.name for one in dra_scenario.chosen(given(paths=[path], skip=["b"]))] == ["a", "c"]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"only": ["d"]}, "only has 'd'; there are a, b"),
        ({"skip": ["d"]}, "skip has 'd'; there are a, b"),
        ({"only": ["a"], "skip": ["a"]}, "no scenario is left to run"),
        ({"only": []}, "no scenario is left to run"),
    ],
)
def test_a_choice_that_cannot_be_meant(folder, params, told):
    with pytest.raises(FleetError) as error:
        dra_scenario.chosen(given(paths=[folder(a={}, b={})], **params))
    assert told in error.value.message


@pytest.mark.parametrize(
    ("minor", "features", "told"),
    [
        (37, {"DRAPrioritizedList": True}, ""),
        (37, {"prioritized-list": True}, ""),
        (37, {"DRAPrioritizedList": False}, "which is off"),
        (32, {"DRAPrioritizedList": True}, "since 1.33; this is 1.32"),
    ],
)
def test_a_feature_is_there_or_the_reason_says_why_not(minor, features, told):
    lack = dra_scenario.Features(None, minor, features).lacks("prioritized-list")
    assert (told in lack) if told else lack == ""


def test_a_feature_that_nobody_knows_is_an_error():
    with pytest.raises(FleetError, match=r"needs the feature 'time-travel'; there are .*admin-access"):
        dra_scenario.Features(None, 37, {}).lacks("time-travel")


def test_whether_a_gate_is_on_may_be_unknown(server, folder, capsys, tmp_path):
    """The server has no metrics that we may read."""
    path = folder(a={"features": ["prioritized-list"], "nodes": 0})
    result = call(capsys, tmp_path, host=server.url, paths=[path])
    assert result["failed"] and "nothing was validated" in result["msg"]
    (one,) = result["scenarios"]
    assert one["status"] == "skipped" and "say so with features" in one["reason"]


def test_older_kubernetes_and_missing_classes_skip(server, folder, capsys, tmp_path):
    path = folder(a={"kubernetes": "1.99"}, b={"classes": ["no-such-class"]})
    result = call(capsys, tmp_path, host=server.url, paths=[path])
    assert [one["reason"] for one in result["scenarios"]] == [
        "needs Kubernetes 1.99; this is 1.37",
        "needs the DeviceClass no-such-class, which the cluster does not have",
    ]
    assert server.writes == 0


def test_a_cluster_without_slices_is_a_failed_check(server, folder, capsys, tmp_path):
    path = folder(a={"kubernetes": "1.99"})
    result = call(capsys, tmp_path, host=server.url, paths=[path], cluster="lab")
    (check,) = [one for one in result["checks"] if one["status"] == "failed"]
    assert (check["host"], check["test"], check["name"]) == ("lab", "fleet", "pool.published")


@pytest.mark.parametrize(
    ("text", "params", "told"),
    [
        ("steps: []", {}, "has no description"),
        (None, {"parallel": 0}, "parallel is 0; give 1 or more"),
        (None, {"timeout_s": 0}, "timeout_s is 0; give 1 or more"),
        (None, {"paths": ["/no/such/folder"]}, "there is no scenario at /no/such/folder"),
    ],
)
def test_bad_input_is_told_before_the_cluster_is_asked(server, folder, capsys, tmp_path, text, params, told):
    path = folder(a={})
    if text:
        (Path(path) / "a.yml").write_text(text)
    result = call(capsys, tmp_path, **{"host": server.url, "paths": [path], **params})
    assert result["failed"] and told in result["msg"] and not server.requests


def test_a_wrong_version_in_needs_is_told(server, folder, capsys, tmp_path):
    result = call(capsys, tmp_path, host=server.url, paths=[folder(a={"kubernetes": "new"})])
    assert result["failed"] and "needs.kubernetes is 'new'; write it as '1.34'" in result["msg"]
    assert server.writes == 0


def test_check_mode_writes_nothing(server, folder, capsys, tmp_path):
    path = folder(a={"nodes": 0})
    result = call(capsys, tmp_path, host=server.url, paths=[path], fail_on="never", _ansible_check_mode=True)
    assert [(one["name"], one["status"]) for one in result["scenarios"]] == [("a", "would run")]
    assert server.writes == 0
