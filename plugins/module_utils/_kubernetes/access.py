# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to an API server: kubeconfig, TLS, credentials and proxy, by means of the kubernetes client. Private to the collection."""

from __future__ import annotations

import logging
import os
import ssl
import threading
import traceback
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union
from urllib.parse import urlsplit

from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import ConfigurationError

KUBERNETES_IMPORT_ERROR: Optional[str] = None
try:
    from kubernetes.client.configuration import Configuration
    from kubernetes.client.rest import RESTClientObject
    from kubernetes.config import incluster_config, kube_config
    from kubernetes.config.config_exception import ConfigException
    from urllib3.util.ssl_ import create_urllib3_context
except ImportError:
    KUBERNETES_IMPORT_ERROR = traceback.format_exc()

_DEFAULT = os.path.join("~", ".kube", "config")


@dataclass(frozen=True)
class ClusterAddress:
    """What a user says about a cluster; None leaves it to the kubeconfig."""

    kubeconfig: Union[str, Mapping[str, Any], None] = None
    context: Optional[str] = None
    host: Optional[str] = None
    api_key: Optional[str] = None
    validate_certs: Optional[bool] = None
    ca_cert: Optional[str] = None
    client_cert: Optional[str] = None
    client_key: Optional[str] = None
    proxy: Optional[str] = None
    no_proxy: Optional[str] = None
    impersonate_user: Optional[str] = None


class Access:
    """A pool of connections to one API server, and the headers that say who we are."""

    def __init__(self, configuration: Any, address: ClusterAddress, source: str, user: str) -> None:
        self.host: str = str(configuration.host).rstrip("/")
        self.source = source
        self.user = address.impersonate_user or user
        self.client_cert: Optional[str] = configuration.cert_file
        self._configuration = configuration
        self._address = address
        self._lock = threading.Lock()
        try:
            # The client's own transport: TLS, client certificates and proxies are as kubectl and kubernetes.core have them.
            self.pool = RESTClientObject(configuration).pool_manager
            _share_tls(self.pool.connection_pool_kw)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"cannot prepare a connection to {self.host} ({source}): {error}") from error
        self._headers = self._credentials()
        # Through a proxy the manager has to look at each request; else they all go to one host.
        self._direct = None if self.pool.proxy else self.pool.connection_from_url(self.host)
        self._prefix = urlsplit(self.host).path

    def send(self, method: str, path: str, **details: Any) -> Any:
        """One request over a connection that is kept."""
        if self._direct is None:
            return self.pool.request(method, self.host + path, **details)
        return self._direct.request(method, self._prefix + path, **details)

    def headers(self) -> Mapping[str, str]:
        """The headers with our credentials."""
        return self._headers

    def renew(self, used: Mapping[str, str]) -> bool:
        """Ask for credentials again, as a token may have expired; False when there are no others than those that were used."""
        with self._lock:
            if self._headers == used:
                self._headers = self._credentials()
            return self._headers != used

    def close(self) -> None:
        self.pool.clear()

    def _credentials(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for setting in self._configuration.auth_settings().values():
            if setting.get("in") == "header" and setting.get("value"):
                headers[str(setting["key"])] = str(setting["value"])
        if self._address.impersonate_user:
            headers["Impersonate-User"] = self._address.impersonate_user
        return headers


def _share_tls(settings: dict[str, Any]) -> None:
    """Read certificates once instead of once for each connection."""
    if settings.get("cert_reqs") != ssl.CERT_REQUIRED or "ssl_context" in settings:
        return
    context = create_urllib3_context()
    authorities, data = settings.pop("ca_certs", None), settings.pop("ca_cert_data", None)
    if authorities or data:
        context.load_verify_locations(cafile=authorities, cadata=data)
    else:
        context.load_default_certs()
    if settings.get("cert_file"):
        context.load_cert_chain(settings.pop("cert_file"), settings.pop("key_file", None))
    settings["ssl_context"] = context


def open_access(address: ClusterAddress, connections: int) -> Access:
    """Read what is configured and prepare connections; nothing is sent yet."""
    if KUBERNETES_IMPORT_ERROR is not None:
        raise ConfigurationError(
            "this Python has no kubernetes client; install the package kubernetes for the interpreter that runs the module",
            exception=KUBERNETES_IMPORT_ERROR,
        )
    for option in ("ca_cert", "client_cert", "client_key"):
        path = getattr(address, option)
        if path and not os.path.isfile(path):
            raise ConfigurationError(
                f"{option} is {path!r}, and there is no such file; give the path of a PEM file", option=option
            )
    configuration = Configuration()
    configuration.connection_pool_maxsize = connections
    source, user = _load(configuration, address)
    _override(configuration, address)
    for field, option in (("cert_file", "client_cert"), ("key_file", "client_key"), ("ssl_ca_cert", "ca_cert")):
        path = getattr(configuration, field, None)
        if path and not os.path.isfile(path):
            raise ConfigurationError(
                f"{source} names the file {path!r}, which is not there; correct it or give {option}"
            )
    return Access(configuration, address, source, user)


def _override(configuration: Any, address: ClusterAddress) -> None:
    """What is given as an option wins over the kubeconfig."""
    if address.host:
        configuration.host = address.host
    if address.api_key:
        configuration.api_key = {"authorization": f"Bearer {address.api_key}"}
        configuration.refresh_api_key_hook = None
        # In newer releases of the client the other name would win.
        configuration.api_key["BearerToken"] = configuration.api_key["authorization"]
        if not address.client_cert:
            # An API server that gets both believes the certificate.
            configuration.cert_file = configuration.key_file = None
    elif address.client_cert:
        configuration.api_key = {}
        configuration.refresh_api_key_hook = None
    if address.validate_certs is not None:
        configuration.verify_ssl = address.validate_certs
    if address.ca_cert:
        configuration.ssl_ca_cert = address.ca_cert
    if address.client_cert:
        configuration.cert_file = address.client_cert
    if address.client_key:
        configuration.key_file = address.client_key
    if address.proxy:
        configuration.proxy = address.proxy
    if address.no_proxy:
        configuration.no_proxy = address.no_proxy
    if not configuration.verify_ssl:
        configuration.assert_hostname = False


def _load(configuration: Any, address: ClusterAddress) -> tuple[str, str]:
    """Fill the configuration; where it came from and which user that is, for messages."""
    if isinstance(address.kubeconfig, Mapping):
        return _load_kubeconfig(configuration, dict(address.kubeconfig), None, address.context)
    named = address.kubeconfig
    if named is not None and not isinstance(named, str):
        raise ConfigurationError(
            f"kubeconfig is {named!r}; give the path of a kubeconfig file or its content as a mapping",
            option="kubeconfig",
        )
    if named:
        paths = os.path.expanduser(os.path.expandvars(named))
        if not any(os.path.isfile(path) for path in paths.split(os.pathsep)):
            raise ConfigurationError(
                f"kubeconfig is {named!r}, and there is no such file; give the path of a kubeconfig, or make a cluster first",
                option="kubeconfig",
                value=named,
            )
        return _load_kubeconfig(configuration, None, paths, address.context)
    if address.host and not address.context:
        return "the option host", "the given credentials"
    paths = os.environ.get("KUBECONFIG") or os.path.expanduser(_DEFAULT)
    if any(os.path.isfile(path) for path in paths.split(os.pathsep)):
        return _load_kubeconfig(configuration, None, paths, address.context)
    if address.context is None:
        try:
            incluster_config.load_incluster_config(client_configuration=configuration)
        except ConfigException:
            pass
        else:
            return "the service account of this pod", "the service account of this pod"
    raise ConfigurationError(
        f"no kubeconfig found: kubeconfig and host are unset, and there is no {paths}; give kubeconfig, or set K8S_AUTH_KUBECONFIG",
        option="kubeconfig",
    )


def _load_kubeconfig(
    configuration: Any, content: dict[str, Any] | None, paths: str | None, context: str | None
) -> tuple[str, str]:
    where = f"kubeconfig {paths}" if paths else "kubeconfig (given as a mapping)"
    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        if content is None:
            content = kube_config.KubeConfigMerger(paths).config.value
        name = context or content.get("current-context")
        users = _users(content)
        if not name or name not in users:
            given = f"context is {context!r}" if context else f"current-context is {name!r}"
            raise ConfigurationError(
                f"{where}: {given}, but it has the contexts {', '.join(sorted(users)) or '(none)'}; give one of them as context",
                option="context",
            )
        loader: dict[str, Any] = {"context": name, "client_configuration": configuration}
        if paths is None:
            kube_config.load_kube_config_from_dict(content, persist_config=False, **loader)
        else:
            kube_config.load_kube_config(config_file=paths, persist_config=False, **loader)
    except ConfigurationError:
        raise
    except (ConfigException, OSError, ValueError, AttributeError, TypeError, KeyError, IndexError) as error:
        # The client reads a damaged file with whatever exception comes first.
        raise ConfigurationError(
            f"{where} cannot be used: {type(error).__name__}: {error}", option="kubeconfig"
        ) from error
    except Exception as error:
        # PyYAML's exceptions, which are not imported here; anything else is not about the file.
        if not type(error).__module__.startswith("yaml."):
            raise
        raise ConfigurationError(f"{where} is not YAML: {' '.join(str(error).split())}", option="kubeconfig") from error
    finally:
        logging.getLogger().removeHandler(complaints)
    if complaints.lines and not configuration.api_key and not configuration.cert_file:
        # The client only logs it when a credential plugin fails, and would go on as nobody.
        raise ConfigurationError(f"{where}: no credentials for the context {name}: {'; '.join(complaints.lines)}")
    return where, users[name]


def _users(content: Mapping[str, Any]) -> dict[str, str]:
    """The user of each context."""
    # A file that was merged from several has its entries wrapped.
    entries = [getattr(entry, "value", entry) for entry in content.get("contexts") or ()]
    return {str(entry.get("name")): str((entry.get("context") or {}).get("user") or "") for entry in entries}


class _Complaints(logging.Handler):
    """Keeps what the kubernetes client logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
