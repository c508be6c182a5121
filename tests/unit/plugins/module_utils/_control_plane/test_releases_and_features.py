# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane import releases
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.features import (
    FEATURES,
    Switches,
    enabled_gates,
    refused,
    switches,
)


@pytest.mark.parametrize(
    ("given", "version", "exact"),
    [("1.37", "1.37.2", False), ("v1.34", "1.34.4", False), ("1.36.1", "1.36.1", True), ("v1.32.11", "1.32.11", True)],
)
def test_a_minor_version_stands_for_a_known_patch_release(given: str, version: str, exact: bool):
    found = releases.wanted(given)
    assert (found.version, found.exact) == (version, exact)
    assert found.etcd.count(".") == 2


@pytest.mark.parametrize("given", ["1.31", "1.38", "1.3", "2.0", "latest", "", 1.3, "1.37.2-gke.1"])
def test_other_versions_are_refused_with_those_there_are(given: object):
    with pytest.raises(FleetError, match=r"kubernetes_version is .*1\.32, 1\.33.*1\.37"):
        releases.wanted(given)  # type: ignore[arg-type]


def test_every_release_is_in_the_table_from_1_32_on():
    assert [releases.minor_number(minor) for minor in releases.KUBERNETES] == [32, 33, 34, 35, 36, 37]
    assert all(releases.minor_of(version) == minor for minor, (version, _etcd) in releases.KUBERNETES.items())
    assert list(releases.KUBERNETES)[-1] == releases.NEWEST


def test_what_a_user_has_installed_may_differ_in_the_patch_only_if_none_was_named():
    assert releases.wanted("1.37").accepts("1.37.9")
    assert not releases.wanted("1.37").accepts("1.36.2")
    assert not releases.wanted("1.37.2").accepts("1.37.9")
    assert not releases.wanted("1.37").accepts("")


def test_the_addresses_of_releases_are_filled_in():
    urls = {"etcd": "http://mirror/{version}/{arch}/{file}"}
    found = {one.name: one for one in releases.kubernetes_downloads(releases.wanted("1.35"), "arm64", urls)}
    assert set(found) == set(releases.KUBERNETES_PROGRAMS)
    assert found["kubectl"].url == "https://dl.k8s.io/v1.35.4/bin/linux/arm64/kubectl"
    assert found["kubectl"].checksum_url == found["kubectl"].url + ".sha256" and found["kubectl"].member is None
    assert found["etcd"].url == "http://mirror/3.6.5/arm64/etcd"
    assert found["etcdctl"].member == "etcd-v3.6.5-linux-arm64/etcdctl"
    kwok = releases.kwok_downloads("0.8.0", "amd64", {})
    assert [one.url.rpartition("/")[2] for one in kwok] == ["kwok-linux-amd64", "kwokctl-linux-amd64"]


@pytest.mark.parametrize(
    ("urls", "says"),
    [
        ({"kubelet": "https://x"}, "has the key 'kubelet'"),
        ({"etcd": "ftp://x"}, "must begin with https://"),
        ({"etcd": "https://x/{name}"}, "only {version}, {arch} and {file}"),
        ({"etcd": "https://x/{"}, "only {version}, {arch} and {file}"),
    ],
)
def test_wrong_addresses_are_named(urls: dict[str, str], says: str):
    with pytest.raises(FleetError) as caught:
        releases.check_urls(urls)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("version", "gates", "versions"),
    [
        ("1.32.5", {"DynamicResourceAllocation": True}, {"resource.k8s.io/v1beta1": True}),
        (
            "1.33.5",
            {"DynamicResourceAllocation": True},
            {"resource.k8s.io/v1beta1": True, "resource.k8s.io/v1beta2": True},
        ),
        ("1.34.4", {}, {}),
        ("1.37.2", {}, {}),
    ],
)
def test_allocation_itself_is_switched_on_where_it_is_off_by_default(version, gates, versions):
    found = switches(version, [], {}, {})
    assert (found.gates, found.runtime_config) == (gates, versions)


def test_a_feature_brings_its_gates_and_the_versions_of_its_objects():
    found = switches("1.35.4", ["device-taints"], {}, {})
    assert found.gates == {"DRADeviceTaints": True, "DRADeviceTaintRules": True}
    assert found.runtime_config == {"resource.k8s.io/v1alpha3": True}
    # Rules were no gate of their own before 1.35, and their API is on by itself in 1.37.
    assert "DRADeviceTaintRules" not in switches("1.34.4", ["device-taints"], {}, {}).gates
    assert switches("1.37.2", ["device-taints"], {}, {}).runtime_config == {}


def test_the_users_gates_have_the_last_word():
    found = switches(
        "1.34.4", ["partitionable-devices"], {"DRAPartitionableDevices": False}, {"resource.k8s.io/v1beta1": True}
    )
    assert found.gates == {"DRAPartitionableDevices": False}
    assert Switches.text({**found.gates, "A": True}) == "A=true,DRAPartitionableDevices=false"


def test_unknown_and_later_features_are_refused():
    with pytest.raises(FleetError, match="features has 'time-travel'; there are admin-access"):
        switches("1.37.2", ["time-travel"], {}, {})
    with pytest.raises(
        FleetError, match=r"'list-attributes', which Kubernetes has since 1\.36; kubernetes_version is 1\.35\.4"
    ):
        switches("1.35.4", ["list-attributes"], {}, {})


def test_every_feature_can_be_had_in_the_newest_release():
    found = switches(releases.KUBERNETES[releases.NEWEST][0], FEATURES, {}, {})
    assert all(found.gates.values()) and len(found.gates) >= len(FEATURES)


METRICS = """# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement of a k8s feature.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRAListTypeAttributes",stage="ALPHA"} 0
kubernetes_feature_enabled{name="DRADeviceTaints",stage=""} 1
other_metric{name="DRANothing"} 1
"""


def test_gates_are_read_from_the_metrics():
    assert enabled_gates(METRICS) == {"DRAListTypeAttributes": False, "DRADeviceTaints": True}


def test_gates_that_are_not_as_asked_for_are_named():
    reported = enabled_gates(METRICS)
    assert refused({"DRADeviceTaints": True, "DRAListTypeAttributes": False, "AllAlpha": True}, reported) == []
    assert refused({"DRADeviceTaints": False, "DRAListTypeAttributes": True, "New": True}, reported) == [
        "DRADeviceTaints is on",
        "DRAListTypeAttributes is off",
        "New is unknown",
    ]
