# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the way to a cluster is read, and what is said when it is not there."""

from __future__ import annotations

import datetime

import pytest
import yaml

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.certificates import expiry_note
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ConfigurationError, Unreachable
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.options import (
    cluster_arguments,
    connect,
    secrets_of,
)


def kubeconfig(url, **user):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "jane", "user": user or {"token": "good"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "jane"}}],
    }


def write(path, content):
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_a_kubeconfig_by_path_mapping_and_environment(server, tmp_path, monkeypatch):
    server.tokens = {"good"}
    config = kubeconfig(server.url)
    path = write(tmp_path / "kubeconfig", config)
    for given in (path, config, None):
        monkeypatch.setenv("KUBECONFIG", path)
        kubernetes = connect({"kubeconfig": given})
        assert kubernetes.server_version().short == "1.37"
        assert kubernetes.user == "jane"


def test_options_win_over_the_kubeconfig(server):
    server.tokens = {"better"}
    kubernetes = connect({"kubeconfig": kubeconfig("http://127.0.0.1:9"), "host": server.url, "api_key": "better"})
    assert kubernetes.server_version().short == "1.37"


def test_a_missing_kubeconfig_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="kubeconfig is '/nowhere/config', and there is no such file; give"):
        connect({"kubeconfig": "/nowhere/config"})
    with pytest.raises(ConfigurationError, match="no kubeconfig found: kubeconfig and host are unset"):
        connect({})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not YAML"),
        ("", "cannot be used"),
        ("[]", "cannot be used"),
        ("current-context: lab\n", r"current-context is 'lab', but it has the contexts \(none\)"),
    ],
)
def test_a_damaged_kubeconfig_is_one_message(tmp_path, text, message):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        connect({"kubeconfig": str(path)})


def test_an_unknown_context_is_named_with_those_that_exist():
    with pytest.raises(ConfigurationError, match="context is 'prod', but it has the contexts lab; give one"):
        connect({"kubeconfig": kubeconfig("http://x"), "context": "prod"})


def test_missing_certificate_files_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"ca_cert is '/no/ca.pem', and there is no such file"):
        connect({"host": "https://x", "ca_cert": "/no/ca.pem"})
    config = kubeconfig("https://x", **{"client-certificate": "/no/cert", "client-key": "/no/key"})
    with pytest.raises(ConfigurationError, match="/no/cert"):
        connect({"kubeconfig": write(tmp_path / "k", config)})


def test_a_credential_plugin_that_fails_is_not_passed_over(tmp_path):
    config = kubeconfig(
        "https://x",
        exec={
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/no/such/plugin",
            "interactiveMode": "Never",
        },
    )
    with pytest.raises(ConfigurationError, match=r"no credentials for the context lab: .*no/such/plugin"):
        connect({"kubeconfig": write(tmp_path / "k", config)})


def test_a_server_that_speaks_no_tls_is_not_trusted(server):
    kubernetes = connect({"host": server.url.replace("http:", "https:")}, patience_s=0.1)
    with pytest.raises(Unreachable, match="cannot trust https://127"):
        kubernetes.server_version()


@pytest.mark.parametrize("value", [-1, 257, 100000])
def test_concurrency_has_limits(value):
    with pytest.raises(FleetError, match=f"concurrency is {value}; give a number from 1 to 256"):
        connect({"host": "http://x", "concurrency": value})


def test_every_connection_option_has_the_environment_variable_that_users_know():
    spec = cluster_arguments()
    variables = {name: entry["fallback"][1][0] for name, entry in spec.items() if "fallback" in entry}
    assert variables["kubeconfig"] == "K8S_AUTH_KUBECONFIG"
    assert variables["api_key"] == "K8S_AUTH_API_KEY"
    assert variables["validate_certs"] == "K8S_AUTH_VERIFY_SSL"
    assert spec["api_key"]["no_log"] is True
    assert set(spec) - set(variables) == {"concurrency"}


def test_secrets_in_a_kubeconfig_mapping_are_found():
    assert secrets_of({"kubeconfig": kubeconfig("x", token="t0p")}) == {"t0p"}
    assert secrets_of({"kubeconfig": "/path"}) == set()


def test_an_expired_client_certificate_is_told(tmp_path):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.timezone.utc)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now - datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "cert.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    assert "expired at" in expiry_note(str(path))
    assert expiry_note(str(path), now - datetime.timedelta(days=1.5)) == ""
    assert expiry_note(None) == expiry_note("/no/such/file") == ""


def test_a_proxy_is_used_and_passed_by(server, monkeypatch):
    """A proxy gets whole URLs; the server in memory does not mind being one."""
    through = connect({"host": "http://cluster.invalid", "proxy": server.url})
    assert through.server_version().short == "1.37"
    assert server.requests[-1] == "GET http://cluster.invalid/version"
    beside = connect({"host": server.url, "proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}, patience_s=0.1)
    assert beside.server_version().short == "1.37"
    assert server.requests[-1] == "GET /version"


def test_a_host_may_have_a_path(server):
    """As management servers have it, which hand requests on to clusters."""
    kubernetes = connect({"host": f"{server.url}/k8s/clusters/c-1/"})
    with pytest.raises(FleetError):
        kubernetes.server_version()
    assert server.requests[-1] == "GET /k8s/clusters/c-1/version"
