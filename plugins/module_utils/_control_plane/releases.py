# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which releases a control plane can be made of, and where their programs are published. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# The patch release that a minor version stands for, and the etcd in its go.mod. All of their modules are served by Go's public proxy.
KUBERNETES: Mapping[str, tuple[str, str]] = {
    "1.32": ("1.32.5", "3.5.16"),
    "1.33": ("1.33.5", "3.5.21"),
    "1.34": ("1.34.4", "3.6.4"),
    "1.35": ("1.35.4", "3.6.5"),
    "1.36": ("1.36.3", "3.6.8"),
    "1.37": ("1.37.2", "3.7.0"),
}
NEWEST = "1.37"
KWOK = "0.8.0"

KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd", "etcdctl")
KWOK_PROGRAMS = ("kwok", "kwokctl")

# Where the projects publish their releases; placeholders are filled in, and users may name mirrors.
# A checksum's address may hold a digest alone, lines of digests and names, or the description of a GitHub release.
DOWNLOAD_URLS: Mapping[str, str] = {
    "kubernetes": "https://dl.k8s.io/v{version}/bin/linux/{arch}/{file}",
    "kubernetes_checksum": "https://dl.k8s.io/v{version}/bin/linux/{arch}/{file}.sha256",
    "etcd": "https://github.com/etcd-io/etcd/releases/download/v{version}/etcd-v{version}-linux-{arch}.tar.gz",
    "etcd_checksum": "https://github.com/etcd-io/etcd/releases/download/v{version}/SHA256SUMS",
    "kwok": "https://github.com/kubernetes-sigs/kwok/releases/download/v{version}/{file}-linux-{arch}",
    "kwok_checksum": "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v{version}",
}

# What `uname -m` calls a processor, and what Go and the projects call it.
ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}

_VERSION = re.compile(r"^v?(?P<minor>1\.[0-9]+)(?P<patch>\.[0-9]+)?$")
_FULL = re.compile(r"^v?([0-9]+\.[0-9]+\.[0-9]+)$")


@dataclass(frozen=True)
class Wanted:
    """A Kubernetes release, as asked for; `exact` when a patch release was named."""

    version: str
    minor: str
    exact: bool

    @property
    def etcd(self) -> str:
        return KUBERNETES[self.minor][1]

    def accepts(self, version: str) -> bool:
        """Whether programs of that version, which the user has installed, will do."""
        return version == self.version if self.exact else minor_of(version) == self.minor


def wanted(version: str) -> Wanted:
    """The release that a version stands for: 1.36 is the patch release that is known to be complete, 1.36.1 is itself."""
    match = _VERSION.match(str(version))
    if match is None or match["minor"] not in KUBERNETES:
        raise FleetError(
            f"kubernetes_version is {version!r}; name one of {', '.join(KUBERNETES)} or a patch release of these, such as "
            f"{KUBERNETES[NEWEST][0]!r}, quoted",
            kubernetes_version=version,
        )
    minor = match["minor"]
    if match["patch"] is None:
        return Wanted(KUBERNETES[minor][0], minor, False)
    return Wanted(minor + match["patch"], minor, True)


def kwok_version(version: str) -> str:
    match = _FULL.match(str(version))
    if match is None:
        raise FleetError(f"kwok_version is {version!r}; name a release such as {KWOK!r}", kwok_version=version)
    return match[1]


def minor_of(version: str) -> str:
    """1.36 of 1.36.3 or v1.36.3-gke.1; an empty string when it is no version."""
    match = re.match(r"^v?([0-9]+\.[0-9]+)", version)
    return match[1] if match else ""


def minor_number(version: str) -> int:
    return int(minor_of(version).split(".")[1])


def architecture(machine: str) -> str:
    try:
        return ARCHITECTURES[machine]
    except KeyError:
        raise FleetError(
            f"this computer is a {machine}; there are releases for {', '.join(ARCHITECTURES)} only, use control_plane_source modules"
        ) from None


@dataclass(frozen=True)
class Download:
    """One file to fetch: `member` is the program's path in it when it is an archive."""

    name: str
    url: str
    checksum_url: str
    member: Optional[str] = None

    def to_dict(self) -> dict[str, Optional[str]]:
        return {"name": self.name, "url": self.url, "checksum_url": self.checksum_url, "member": self.member}


def check_urls(urls: Mapping[str, str]) -> None:
    """Addresses that users give in place of ours."""
    for key, url in urls.items():
        if key not in DOWNLOAD_URLS:
            raise FleetError(f"download_urls has the key {key!r}; there are {', '.join(DOWNLOAD_URLS)}")
        if not re.match(r"^https?://", str(url)):
            raise FleetError(f"download_urls.{key} is {url!r}; it must begin with https:// or http://")
        try:
            url.format(version="", arch="", file="")
        except (KeyError, IndexError, ValueError) as error:
            raise FleetError(
                f"download_urls.{key} is {url!r}; only {{version}}, {{arch}} and {{file}} are filled in: {error}"
            ) from error


def kubernetes_downloads(release: Wanted, arch: str, urls: Mapping[str, str]) -> list[Download]:
    addresses = {**DOWNLOAD_URLS, **urls}
    found = []
    for program in KUBERNETES_PROGRAMS:
        if program.startswith("etcd"):
            facts = {"version": release.etcd, "arch": arch, "file": program}
            member = f"etcd-v{release.etcd}-linux-{arch}/{program}"
            found.append(Download(program, *_filled(addresses, "etcd", facts), member))
        else:
            facts = {"version": release.version, "arch": arch, "file": program}
            found.append(Download(program, *_filled(addresses, "kubernetes", facts)))
    return found


def kwok_downloads(version: str, arch: str, urls: Mapping[str, str]) -> list[Download]:
    addresses = {**DOWNLOAD_URLS, **urls}
    return [
        Download(program, *_filled(addresses, "kwok", {"version": version, "arch": arch, "file": program}))
        for program in KWOK_PROGRAMS
    ]


def _filled(addresses: Mapping[str, str], what: str, facts: Mapping[str, str]) -> tuple[str, str]:
    return addresses[what].format(**facts), addresses[f"{what}_checksum"].format(**facts)
