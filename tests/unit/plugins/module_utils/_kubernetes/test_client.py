# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client against a server that misbehaves on request."""

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes import errors
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import (
    NODE,
    POD,
    kind_of,
    resource_kind,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.transport import parse_warnings


def node(name, **labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}


def test_create_get_list_update_patch_delete(server, cluster):
    kubernetes = cluster()
    made = kubernetes.create(NODE, node("a", color="red"))
    assert made["metadata"]["uid"]
    kubernetes.create(NODE, node("b"))
    assert kubernetes.get(NODE, "a")["metadata"]["labels"] == {"color": "red"}
    assert kubernetes.get(NODE, "missing") is None
    assert [item["metadata"]["name"] for item in kubernetes.list(NODE, labels="color=red")] == ["a"]
    made["metadata"]["labels"]["color"] = "blue"
    changed = kubernetes.update(NODE, made)
    assert changed["metadata"]["labels"]["color"] == "blue"
    with pytest.raises(errors.Conflict):
        kubernetes.update(NODE, made)
    kubernetes.patch(NODE, "a", {"metadata": {"labels": {"color": None, "size": "big"}}})
    assert kubernetes.get(NODE, "a")["metadata"]["labels"] == {"size": "big"}
    assert kubernetes.delete(NODE, "a") is True
    assert kubernetes.delete(NODE, "a") is False
    assert [item["kind"] for item in kubernetes.list(NODE)] == ["Node"]


def test_a_long_list_comes_in_pages_and_metadata_alone_if_asked(server, cluster):
    for number in range(25):
        server.add("nodes", node(f"n{number:02d}"))
    kubernetes = cluster()
    names = [item["metadata"]["name"] for item in kubernetes.list(NODE, limit=10)]
    assert names == [f"n{number:02d}" for number in range(25)]
    assert server.count("^GET /api/v1/nodes") == 3
    items = list(kubernetes.list_metadata(NODE, limit=100))
    assert len(items) == 25
    assert all(set(item) == {"metadata"} for item in items)


def test_dry_run_stores_nothing(server, cluster):
    kubernetes = cluster(dry_run=True)
    assert kubernetes.create(NODE, node("a"))["metadata"]["uid"]
    assert kubernetes.get(NODE, "a") is None
    assert server.count("dryRun=All") == 1


def test_kept_connections_are_no_more_than_asked_for(server, cluster):
    from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.many import run_many

    kubernetes = cluster(concurrency=4)
    outcomes = list(run_many(lambda n: kubernetes.create(NODE, node(f"n{n}")), range(200), 4))
    assert all(outcome.ok for outcome in outcomes)
    assert len(server.agents) <= 4
    assert len(server.of("nodes")) == 200


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server, cluster, fake, status):
    server.faults.append(fake.Fault("^POST /api/v1/nodes", status=status, times=3))
    kubernetes = cluster()
    kubernetes.create(NODE, node("a"))
    assert server.count("^POST") == 4
    assert len(kubernetes.pauses) == 3
    assert kubernetes.pauses[2] > kubernetes.pauses[0] * 1.5


def test_retry_after_is_honoured(server, cluster, fake):
    server.faults.append(fake.Fault("^POST", status=429, headers={"Retry-After": "7"}))
    kubernetes = cluster()
    kubernetes.create(NODE, node("a"))
    assert 7 <= kubernetes.pauses[0] <= 7.5


def test_patience_beyond_the_deadline_is_an_error_that_says_so(server, cluster, fake):
    server.faults.append(fake.Fault("^POST", status=429, headers={"Retry-After": "90"}))
    with pytest.raises(errors.TooBusy, match=r"asks for 9\d s of patience, but \d+ s are left \(timeout_s\)"):
        cluster(timeout_s=5).create(NODE, node("a"))


def test_a_server_that_always_fails_is_left_in_the_end(server, cluster, fake):
    server.faults.append(fake.Fault("^POST", status=500, times=99, message="etcd is on fire"))
    with pytest.raises(errors.ApiError, match="cannot create nodes a: etcd is on fire") as caught:
        cluster().create(NODE, node("a"))
    assert caught.value.details["verb"] == "create"
    assert server.count("^POST") == 7


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_cut_connection_is_made_again_and_nothing_is_there_twice(server, cluster, fake, carried_out):
    server.faults.append(fake.Fault("^POST", carried_out=carried_out))
    made = cluster().create(NODE, node("a"))
    assert made["metadata"]["name"] == "a"
    assert len(server.of("nodes")) == 1


def test_what_was_there_before_stays_an_error(server, cluster, fake):
    server.add("nodes", node("a"))
    with pytest.raises(errors.AlreadyExists, match='cannot create nodes a: nodes "a" already exists'):
        cluster().create(NODE, node("a"))


def test_conflicts_of_others_are_tried_again_and_own_ones_are_not(server, cluster, fake):
    server.faults.append(fake.Fault("^POST", status=409, reason="Conflict", message="quota has been modified"))
    cluster().create(NODE, node("a"))
    assert server.count("^POST") == 2
    server.faults.append(fake.Fault("^PUT", status=409, reason="Conflict"))
    with pytest.raises(errors.Conflict):
        cluster().update(NODE, server.of("nodes")[0])
    assert server.count("^PUT") == 1


def test_a_dead_server_is_given_up_after_a_while_by_all_threads(server, cluster):
    from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.many import run_many

    server.writes_left = 10
    kubernetes = cluster(patience_s=0.3, concurrency=4)
    outcomes = list(run_many(lambda n: kubernetes.create(NODE, node(f"n{n}")), range(100), 4))
    assert sum(outcome.ok for outcome in outcomes) == 10
    assert len(outcomes) == 100
    messages = [outcome.error.message for outcome in outcomes if not outcome.ok]
    assert all("does not answer" in message for message in messages)
    assert sum(message.startswith("not tried: ") for message in messages) >= 70


def test_nobody_listens(cluster):
    kubernetes = cluster(host="http://127.0.0.1:9", patience_s=0.1)
    with pytest.raises(
        errors.Unreachable, match=r"the API server http://127.0.0.1:9 \(the option host\) does not answer.*refused"
    ):
        kubernetes.server_version()


def test_no_rights(server, cluster):
    server.forbidden = {("create", "nodes")}
    kubernetes = cluster()
    with pytest.raises(
        errors.Forbidden,
        match=r"user 'jane' may not create nodes: .*give the user a role with the verb create on nodes",
    ):
        kubernetes.create(NODE, node("a"))
    assert kubernetes.may("create", NODE) is False
    assert kubernetes.may("delete", NODE) is True


def test_bad_credentials(server, cluster):
    server.tokens = {"good"}
    with pytest.raises(errors.Unauthorized, match=r"does not accept the credentials of .* expired\?") as caught:
        cluster(api_key="old").create(NODE, node("a"))
    assert caught.value.fatal
    cluster(api_key="good").create(NODE, node("a"))


def test_a_token_that_expires_meanwhile_is_renewed(server, cluster):
    server.tokens = {"first"}
    kubernetes = cluster(api_key="first")
    kubernetes.create(NODE, node("a"))
    server.tokens = {"second"}
    # What a kubeconfig with a credential plugin does: the client's hook is asked for the token again.
    kubernetes.transport.access._configuration.api_key["BearerToken"] = "Bearer second"
    kubernetes.create(NODE, node("b"))
    assert len(server.of("nodes")) == 2


def test_warnings_of_the_server_are_kept_once(server, cluster):
    server.warn = ["v1 Node is odd"]
    kubernetes = cluster()
    kubernetes.create(NODE, node("a"))
    kubernetes.create(NODE, node("b"))
    assert kubernetes.warnings == ["v1 Node is odd"]


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "one"', ["one"]),
        (
            '299 - "one", 299 kube "two \\"quoted\\" and, more" "Sat, 01 Jan 2000 00:00:00 GMT"',
            ["one", 'two "quoted" and, more'],
        ),
        ("unquoted", ["unquoted"]),
        ("", []),
    ],
)
def test_warning_headers(header, texts):
    assert parse_warnings(header) == texts


def test_versions(server, cluster):
    kubernetes = cluster()
    assert kubernetes.server_version().short == "1.37"
    server.versions = ["v1beta1", "v1beta2"]
    assert kubernetes.dra_version() == "v1beta2"
    assert kubernetes.api_versions("resource.k8s.io") == ("v1beta1", "v1beta2")
    server.versions = []
    with pytest.raises(errors.ClusterError, match=r"serves no usable version of resource.k8s.io \(it has none"):
        kubernetes.dra_version()


def test_a_version_that_is_not_served_is_no_missing_object(server, cluster):
    with pytest.raises(errors.NotFound, match=r"has no resourceslices.resource.k8s.io"):
        cluster().get(resource_kind("ResourceSlice", "v1beta1"), "x")


def test_kinds():
    assert kind_of({"apiVersion": "v1", "kind": "Pod"}) is POD
    claim = kind_of({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim"})
    assert claim.path("ns", "a b") == "/apis/resource.k8s.io/v1beta1/namespaces/ns/resourceclaims/a%20b"
    assert POD.path("ns", "x", "status") == "/api/v1/namespaces/ns/pods/x/status"
    with pytest.raises(errors.ClusterError, match="no path is known for an object with apiVersion 'v9'"):
        kind_of({"apiVersion": "v9", "kind": "Pod"})
