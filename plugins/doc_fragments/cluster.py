# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options by which modules reach a Kubernetes cluster."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - The kubeconfig, as the path of a file (several, separated by colons, are merged), or its content as a mapping.
      - Unset, and without O(host), the file is that of E(KUBECONFIG), else C(~/.kube/config), else the service account of the pod
        that this runs in.
      - If unset, the environment variable E(K8S_AUTH_KUBECONFIG) is used.
    type: raw
  context:
    description:
      - The context of the kubeconfig. Unset, it is the file's current one.
      - If unset, the environment variable E(K8S_AUTH_CONTEXT) is used.
    type: str
  host:
    description:
      - The URL of the API server. It wins over the kubeconfig, which is then not needed.
      - If unset, the environment variable E(K8S_AUTH_HOST) is used.
    type: str
  api_key:
    description:
      - A bearer token.
      - If unset, the environment variable E(K8S_AUTH_API_KEY) is used.
    type: str
    aliases: [token]
  validate_certs:
    description:
      - Whether the API server's certificate is verified. Unset, the kubeconfig says so; without it, V(true).
      - If unset, the environment variable E(K8S_AUTH_VERIFY_SSL) is used.
    type: bool
    aliases: [verify_ssl]
  ca_cert:
    description:
      - A file with the certificates of authorities that the API server's certificate may come from.
      - If unset, the environment variable E(K8S_AUTH_SSL_CA_CERT) is used.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description:
      - A file with the client certificate to log in with.
      - If unset, the environment variable E(K8S_AUTH_CERT_FILE) is used.
    type: path
    aliases: [cert_file]
  client_key:
    description:
      - The file with its key.
      - If unset, the environment variable E(K8S_AUTH_KEY_FILE) is used.
    type: path
    aliases: [key_file]
  proxy:
    description:
      - The URL of an HTTP proxy to reach the API server through. Unset, the kubeconfig and E(HTTPS_PROXY) say so.
      - If unset, the environment variable E(K8S_AUTH_PROXY) is used.
    type: str
  no_proxy:
    description:
      - Hosts, domains and networks that are reached without the proxy, separated by commas.
      - If unset, the environment variable E(K8S_AUTH_NO_PROXY) is used.
    type: str
  impersonate_user:
    description:
      - The user to act as, which RBAC must allow.
      - If unset, the environment variable E(K8S_AUTH_IMPERSONATE_USER) is used.
    type: str
  concurrency:
    description:
      - How many requests are under way at once, each over a connection that is kept. From 1 to 256.
    type: int
    default: 16
requirements:
  - kubernetes >= 28.1 for the Python interpreter that runs the module
notes:
  - Runs where the kubeconfig is, usually on the controller with C(delegate_to=localhost) or in a play of C(hosts=localhost).
  - Requests that meet a busy server (429, 5xx) or a cut connection are repeated, after the time that the server asks for and a random part on top.
"""
