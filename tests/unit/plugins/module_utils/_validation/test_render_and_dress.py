# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates become objects, and objects are bound to the nodes and the API version that a scenario runs with."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.dress import HOSTNAME, RUN_LABEL, dress
from ansible_collections.gpulab.fleet.plugins.module_utils._validation.render import Renderer

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{}]}}
FAKE = [{"key": "fake", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("{{ gpus | length }}", 2),
        (" {{ gpus }} ", ["a", "b"]),
        ("{{ gpus[0] }}-{{ gpus[1] }}", "a-b"),
        (
            {"count": "{{ gpus | length }}", "names": ["x-{{ gpus[0] }}", 3, None]},
            {"count": 2, "names": ["x-a", 3, None]},
        ),
        ("no template", "no template"),
        (True, True),
    ],
)
def test_one_expression_stays_what_it_is(value: Any, result: Any):
    assert Renderer().data(value, {"gpus": ["a", "b"]}, "here") == result


@pytest.mark.parametrize(
    "value", ["{{ missing }}", "x {{ missing }}", "{{ gpus.none.at_all }}", "{{ 1 / 0 }}", "{{ if }}"]
)
def test_what_cannot_be_filled_in_says_where(value: str):
    with pytest.raises(FleetError, match=r"here\.key: the template cannot be filled in"):
        Renderer().data({"key": value}, {"gpus": []}, "here")


def test_templates_run_in_a_sandbox():
    with pytest.raises(FleetError, match="unsafe"):
        Renderer().text("{{ ''.__class__.__mro__ }}", {}, "here")


def dressed(obj: dict[str, Any], version: str = "v1", nodes: tuple[str, ...] = ("n1",), **extra: str) -> dict[str, Any]:
    return dress(obj, "run1", version, nodes, FAKE, "pause", extra)


def test_a_pod_gets_its_node_a_toleration_an_image_and_the_label():
    result = dressed(POD)
    assert result["metadata"]["labels"] == {RUN_LABEL: "run1"}
    assert result["spec"] == {
        "containers": [{"image": "pause"}],
        "tolerations": FAKE,
        "nodeSelector": {HOSTNAME: "n1"},
    }
    assert POD["spec"] == {"containers": [{}]}, "what is given stays as it is"


def test_further_labels_are_asked_of_the_node():
    assert dressed(POD, pool="a")["spec"]["nodeSelector"] == {HOSTNAME: "n1", "pool": "a"}


def test_several_nodes_are_an_affinity():
    spec = dressed(POD, nodes=("n1", "n2"))["spec"]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": HOSTNAME, "operator": "In", "values": ["n1", "n2"]}]
    assert "nodeSelector" not in spec


@pytest.mark.parametrize("own", [{"nodeName": "x"}, {"nodeSelector": {"a": "b"}}, {"affinity": {}}])
def test_a_pod_that_knows_where_it_belongs_is_left_there(own: dict[str, Any]):
    given = {**POD, "spec": {**POD["spec"], **own, "tolerations": []}}
    assert dressed(given)["spec"] == {"containers": [{"image": "pause"}], "tolerations": [], **own}


def test_pods_of_a_deployment_are_dressed():
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": "own"}]}}},
    }
    template = dressed(deployment)["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "web", RUN_LABEL: "run1"}
    assert template["spec"]["nodeSelector"] == {HOSTNAME: "n1"} and template["spec"]["containers"] == [{"image": "own"}]


REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "c", "count": 2}}


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        ("v1", REQUEST),
        ("v1beta2", REQUEST),
        ("v1beta1", {"name": "gpu", "deviceClassName": "c", "count": 2}),
    ],
)
def test_claims_are_sent_in_the_version_that_the_server_has(version: str, request_: dict[str, Any]):
    spec = {"devices": {"requests": [REQUEST]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}, "spec": spec}
    template = {**claim, "kind": "ResourceClaimTemplate", "spec": {"spec": spec}}
    of_claim, of_template = dressed(claim, version), dressed(template, version)
    assert of_claim["apiVersion"] == of_template["apiVersion"] == f"resource.k8s.io/{version}"
    assert of_claim["spec"]["devices"]["requests"] == [request_]
    assert of_template["spec"]["spec"]["devices"]["requests"] == [request_]
    assert of_template["spec"]["metadata"]["labels"] == {RUN_LABEL: "run1"}, "generated claims are found by it"
