#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane
short_description: Run a real Kubernetes control plane as plain processes
version_added: 0.1.0
description:
  - Starts, stops and removes Kubernetes control planes on this computer. Each is an etcd, a kube-apiserver, a kube-controller-manager and a
    kube-scheduler, unmodified, and KWOK, which plays the kubelets of fake nodes. They are plain processes under kwokctl, and need no containers, no
    systemd and no root.
  - Everything listens on loopback and speaks TLS, etcd included; RBAC is on. The kubeconfig is for its owner only.
  - Given a cluster of your own by O(kubeconfig) or O(context), nothing is started. It is only looked at.
  - The control planes outlive the play. One with a component that crashed is noticed, reported with the component's last log lines, and the
    component is started again. Data are kept until O(state=absent), also when settings or the version change, for which it is started anew.
  - KWOK manages the nodes with the annotation C(kwok.x-k8s.io/node=fake) only, so nodes with a real kubelet can join.
extends_documentation_fragment:
  - gpulab.fleet.attributes
  - gpulab.fleet.attributes.group
attributes:
  check_mode:
    support: full
    details:
      - Nothing is built or downloaded in check mode. As long as programs have to be made, differences of settings are not told.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - With O(state=restarted) the control plane is started anew each time.
requirements:
  - For O(source=modules), Go as new as that Kubernetes asks for (1.26 for Kubernetes 1.36 and 1.37), 6 GB of disk, and access to a Go module proxy.
  - For O(source=cluster), the Python package kubernetes.
options:
  name:
    description:
      - The control plane's name; several can run side by side.
      - Its context is called C(gpulab-) and the name.
    type: str
    default: gpulab
  all:
    description:
      - Act on every control plane of this user on this computer.
      - Goes with O(state=stopped) and O(state=absent) only.
    type: bool
    default: false
  state:
    description:
      - V(started) makes sure that all components run as described and answer.
      - V(present) makes the programs that V(started) would need, and starts nothing.
      - V(stopped) ends the components and keeps the data.
      - V(restarted) ends them if they run, and starts them.
      - V(absent) ends them and removes data, keys, logs and state. The programs stay in the cache.
      - With a cluster of your own, V(started), V(present) and V(restarted) look at it, and V(stopped) and V(absent) do nothing.
    type: str
    choices: [present, started, stopped, restarted, absent]
    default: started
  source:
    description:
      - Where the programs come from.
      - V(auto) takes a cluster of your own if O(kubeconfig) or O(context) names one, then what is in the cache, then programs on C(PATH) of the right
        version, then published releases, then Go modules.
      - V(cluster) is a cluster of your own; without O(kubeconfig), the one that C(kubectl) would use.
      - V(cache) takes what an earlier run has made, by either way.
      - V(path) takes C(kube-apiserver), C(kube-controller-manager), C(kube-scheduler), C(kubectl), C(etcd), C(kwok) and C(kwokctl) from C(PATH).
      - V(download) takes the projects' own releases and checks them against the published checksums.
      - V(modules) builds all of them from Go modules, once; about 10 minutes on two processors.
    type: str
    choices: [auto, cluster, cache, path, download, modules]
    default: auto
  kubeconfig:
    description:
      - The kubeconfig of a cluster of your own.
      - It is not looked at with O(state=stopped) or O(state=absent) unless O(source=cluster).
      - The environment variable E(K8S_AUTH_KUBECONFIG) sets it too.
    type: path
  context:
    description:
      - The context in it.
      - The environment variable E(K8S_AUTH_CONTEXT) sets it too.
    type: str
  kubernetes_version:
    description:
      - The Kubernetes release, from 1.32 to 1.37, as a minor version (then a patch release that is known to be complete) or a patch release. Quote it.
      - An older minor version than the one that has written the data is refused.
    type: str
    default: '1.37'
  kwok_version:
    description: The release of KWOK.
    type: str
    default: 0.8.0
  features:
    description:
      - Features of dynamic resource allocation by name, which switches on their gates and the API versions of their objects.
      - One that the Kubernetes release does not have is an error, and so is an API server that does not report a gate as asked for, as it would drop
        the fields behind that gate silently.
      - V(partitionable-devices), V(partition-types), V(compatibility-groups), V(device-taints), V(consumable-capacity), V(binding-conditions),
        V(device-status), V(extended-resource), V(list-attributes), V(derived-attributes), V(prioritized-list), V(admin-access),
        V(optional-node-operations), V(node-allocatable), V(pool-status), V(workload-claims).
    type: list
    elements: str
    default: []
  feature_gates:
    description: Feature gates of Kubernetes and whether they are on. They win over O(features).
    type: dict
    default: {}
  runtime_config:
    description: API versions and whether they are served, such as C(resource.k8s.io/v1beta1). They win over O(features).
    type: dict
    default: {}
  extra_args:
    description:
      - Further arguments by component (C(etcd), C(kube-apiserver), C(kube-controller-manager), C(kube-scheduler), C(kwok-controller)), as flags without
        dashes and their values.
    type: dict
    default: {}
  qps_limits:
    description:
      - Whether clients and components are held to the request rates of a production cluster. Without, thousands of nodes are there in seconds.
    type: bool
    default: false
  sources:
    description:
      - Folder with the build scripts, which the role P(gpulab.fleet.control_plane#role) brings.
      - Required unless the programs come from C(PATH) or the cluster is yours.
    type: path
  download_urls:
    description:
      - Addresses in place of the projects' own, for O(source=download), with the keys C(kubernetes), C(kubernetes_checksum), C(etcd),
        C(etcd_checksum), C(kwok) and C(kwok_checksum).
      - C({version}), C({arch}) and C({file}) in them are filled in. A checksum's address holds a SHA-256 alone, lines of checksums and names, or the
        description of a release by GitHub's API.
    type: dict
    default: {}
  timeout_s:
    description: Seconds that a start may take, without the builds; for a cluster of your own, seconds that it may take to answer.
    type: int
    default: 300
  build_timeout_s:
    description: Seconds that downloads and builds together may take.
    type: int
    default: 7200
  state_dir:
    description: Where state, data and logs are. Unset, it is C($XDG_STATE_HOME/gpulab-fleet), or C(~/.local/state/gpulab-fleet).
    type: path
  cache_dir:
    description: Where programs are. Unset, it is C($XDG_CACHE_HOME/gpulab-fleet), or C(~/.cache/gpulab-fleet).
    type: path
  progress_path:
    description:
      - File to which lines of progress are appended. Unset, it is one in C(progress) below the state folder, where the
        callback P(gpulab.fleet.progress#callback) looks for them.
    type: path
seealso:
  - module: gpulab.fleet.control_plane_info
author:
  - The gpulab.fleet authors (@gpulab)
"""

EXAMPLES = r"""
- name: Start a control plane
  gpulab.fleet.control_plane:
    sources: "{{ role_path }}/files"
  register: lab

- name: Look at it
  ansible.builtin.command: "{{ lab.clusters[0].kubectl }} --kubeconfig {{ lab.clusters[0].kubeconfig }} get nodes"
  changed_when: false

- name: An older one beside it, with features that it does not have switched on by itself
  gpulab.fleet.control_plane:
    name: old
    kubernetes_version: '1.34'
    features: [partitionable-devices, device-taints]
    sources: "{{ role_path }}/files"

- name: End all of them
  gpulab.fleet.control_plane:
    all: true
    state: absent
"""

RETURN = r"""
clusters:
  description: The control planes that were acted on.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
      returned: always
    status:
      description: What it is now (or would be, in check mode), as C(running), C(stopped), C(crashed), C(stale) or C(absent).
      type: str
      returned: always
    found:
      description: What it was, with the reason and the last lines of logs if a component had crashed.
      type: dict
      returned: always
      sample: {status: crashed, reason: "etcd (pid 4711) is gone.", logs: {etcd: ["..."]}}
    actions:
      description: What was done, in order.
      type: list
      elements: str
      returned: always
      sample: [build kubernetes, build kwok, start]
    built:
      description: What was built or downloaded anew.
      type: list
      elements: str
      returned: always
    seconds:
      description: How long the steps took.
      type: dict
      returned: always
      sample: {kubernetes: 612.1, kwok: 95.0, start: 4.8}
    source:
      description: Where its programs came from, as V(path), V(download) or V(modules), or V(cluster).
      type: str
      returned: when it has a state
    kubeconfig:
      description: The file to reach it with.
      type: str
      returned: when it has a state
    context:
      description: The context in it; an empty string stands for the current one.
      type: str
      returned: when it has a state
    server:
      description: The address of its API server.
      type: str
      returned: when it has a state
      sample: https://127.0.0.1:39957
    kubernetes_version:
      description: The version that it runs.
      type: str
      returned: when it has a state
      sample: 1.37.2
    kwok_version:
      description: The version of its KWOK; an empty string for a cluster of your own.
      type: str
      returned: when it has a state
    feature_gates:
      description: The gates of dynamic resource allocation, and those asked for, as the API server reports them; empty when it does not tell.
      type: dict
      returned: when it has a state
      sample: {DRAPartitionableDevices: true, DRAListTypeAttributes: false}
    kubectl:
      description: A kubectl of the same version; an empty string for a cluster of your own.
      type: str
      returned: when it has a state
    components:
      description: The process and the log of each component.
      type: dict
      returned: when it has a state
      sample: {etcd: {pid: 4711, log: /root/.local/state/gpulab-fleet/control-planes/gpulab/kwok/clusters/gpulab/logs/etcd.log}}
    folder:
      description: Where its data, keys and logs are; an empty string for a cluster of your own.
      type: str
      returned: when it has a state
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._control_plane.options import run, warnings

ARGUMENT_SPEC: dict[str, Any] = {
    "name": {"type": "str", "default": "gpulab"},
    "all": {"type": "bool", "default": False},
    "state": {
        "type": "str",
        "choices": ["present", "started", "stopped", "restarted", "absent"],
        "default": "started",
    },
    "source": {
        "type": "str",
        "choices": ["auto", "cluster", "cache", "path", "download", "modules"],
        "default": "auto",
    },
    "kubeconfig": {"type": "path", "fallback": (env_fallback, ["K8S_AUTH_KUBECONFIG"])},
    "context": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_CONTEXT"])},
    "kubernetes_version": {"type": "str", "default": "1.37"},
    "kwok_version": {"type": "str", "default": "0.8.0"},
    "features": {"type": "list", "elements": "str", "default": []},
    "feature_gates": {"type": "dict", "default": {}},
    "runtime_config": {"type": "dict", "default": {}},
    "extra_args": {"type": "dict", "default": {}},
    "qps_limits": {"type": "bool", "default": False},
    "sources": {"type": "path"},
    "download_urls": {"type": "dict", "default": {}},
    "timeout_s": {"type": "int", "default": 300},
    "build_timeout_s": {"type": "int", "default": 7200},
    "state_dir": {"type": "path"},
    "cache_dir": {"type": "path"},
    "progress_path": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result = run(module.params, module.check_mode)
    except FleetError as error:
        module.fail_json(msg=error.message, **error.details)
    except OSError as error:
        # A full disk, or a folder that belongs to somebody else.
        module.fail_json(msg=f"{error}; state_dir and cache_dir must be writable, with room for some hundred MB")
    for warning in warnings(result["clusters"]):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
