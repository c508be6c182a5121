# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option `image` in all its forms, as one typed request; touches nothing. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# The remotes that LXD's own client brings along (lxc/config/default.go).
REMOTES = {
    "images": "https://images.lxd.canonical.com",
    "ubuntu": "https://cloud-images.ubuntu.com/releases/",
    "ubuntu-daily": "https://cloud-images.ubuntu.com/daily/",
    "ubuntu-minimal": "https://cloud-images.ubuntu.com/minimal/releases/",
    "ubuntu-minimal-daily": "https://cloud-images.ubuntu.com/minimal/daily/",
}
_CHECKSUM = re.compile(r"^(?:sha256:)?([0-9a-fA-F]{64})$")
_FINGERPRINT = re.compile(r"^[0-9a-f]{12,64}$")
_FORMS = (
    "an alias or fingerprint of the local image store (debian13), remote:alias (images:debian/13), a path on the host"
    " (/srv/vm.qcow2), a URL with its checksum (https://host/vm.qcow2#sha256:…), or a dictionary"
)
_KEYS = frozenset(
    {"alias", "fingerprint", "server", "protocol", "url", "checksum", "file", "metadata", "metadata_checksum"}
)


class ImageError(FleetError):
    """An image that is described wrongly, or that is not there."""


@dataclass(frozen=True)
class LocalImage:
    """In the image store of this LXD, by alias or fingerprint."""

    reference: str


@dataclass(frozen=True)
class RemoteImage:
    """On an image server, from which LXD itself downloads it."""

    server: str
    protocol: str
    alias: Optional[str] = None
    fingerprint: Optional[str] = None


@dataclass(frozen=True)
class FileImage:
    """Files to import: a unified tarball or a disk, with its metadata tarball where it has one. Paths on the host or URLs."""

    path: str
    checksum: Optional[str] = None
    metadata: Optional[str] = None
    metadata_checksum: Optional[str] = None


ImageRequest = Union[LocalImage, RemoteImage, FileImage]


def is_url(text: str) -> bool:
    return text.startswith(("https://", "http://"))


def parse_image(value: object, option: str = "image") -> Optional[ImageRequest]:
    """The request that a string or a dictionary stands for; ImageError names what is wrong with it."""
    if value is None:
        return None
    if isinstance(value, str):
        return _from_string(value.strip(), option)
    if isinstance(value, Mapping):
        return _from_mapping({key: text for key, text in value.items() if text is not None}, option)
    raise ImageError(f"{option} is a {type(value).__name__}; give {_FORMS}", option=option, value=value)


def describe(request: ImageRequest) -> str:
    """The request in a few words, for messages."""
    if isinstance(request, LocalImage):
        return request.reference
    if isinstance(request, RemoteImage):
        return f"{request.alias or request.fingerprint} from {request.server}"
    return request.path


def _from_string(text: str, option: str) -> ImageRequest:
    if not text:
        raise ImageError(f"{option} is empty; give {_FORMS}", option=option, value=text)
    if is_url(text):
        url, _hash, checksum = text.partition("#")
        return _file({"url": url, "checksum": checksum.replace("sha256=", "sha256:")}, option)
    if text.startswith("/"):
        return FileImage(text)
    remote, colon, alias = text.partition(":")
    if not colon or remote == "local":
        return LocalImage(alias if colon else text)
    if remote not in REMOTES:
        raise ImageError(
            f"{option} is {text!r}, but {remote!r} is no remote known here ({', '.join(REMOTES)}); for another server give a"
            " dictionary with server, protocol and alias",
            option=option,
            value=text,
        )
    if not alias:
        raise ImageError(f"{option} is {text!r} without an image after the colon", option=option, value=text)
    return RemoteImage(REMOTES[remote], "simplestreams", alias=alias)


def _from_mapping(value: Mapping[str, Any], option: str) -> ImageRequest:
    unknown = sorted(set(value) - _KEYS)
    if unknown:
        raise ImageError(
            f"{option} has the unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}",
            option=option,
            value=dict(value),
        )
    if "url" in value or "file" in value:
        return _file(value, option)
    names = [key for key in ("alias", "fingerprint") if key in value]
    if len(names) != 1:
        raise ImageError(
            f"{option} must have exactly one of alias, fingerprint, url and file, but has {names or 'none'}",
            option=option,
            value=dict(value),
        )
    name = str(value[names[0]])
    if names[0] == "fingerprint" and not _FINGERPRINT.fullmatch(name):
        raise ImageError(
            f"{option}.fingerprint is {name!r}; give 12 to 64 lower-case hexadecimal digits",
            option=f"{option}.fingerprint",
            value=name,
        )
    if "server" in value:
        protocol = str(value.get("protocol", "simplestreams"))
        if protocol not in ("simplestreams", "lxd"):
            raise ImageError(
                f"{option}.protocol is {protocol!r}; LXD has simplestreams and lxd",
                option=f"{option}.protocol",
                value=protocol,
            )
        return RemoteImage(str(value["server"]), protocol, **{names[0]: name})
    if names[0] == "alias" and ":" in name:
        return _from_string(name, option)
    return LocalImage(name)


def _file(value: Mapping[str, Any], option: str) -> FileImage:
    if "url" in value and "file" in value:
        raise ImageError(f"{option} has both url and file; remove one of them", option=option, value=dict(value))
    path = str(value.get("url") or value.get("file"))
    metadata = value.get("metadata")
    if "file" in value and not path.startswith("/"):
        raise ImageError(
            f"{option}.file is {path!r}; give an absolute path on the host", option=f"{option}.file", value=path
        )
    if "url" in value and not is_url(path):
        raise ImageError(
            f"{option}.url is {path!r}; it must start with https:// or http://", option=f"{option}.url", value=path
        )
    return FileImage(
        path,
        _checksum(value.get("checksum"), f"{option}.checksum", path),
        None if metadata is None else str(metadata),
        None
        if metadata is None
        else _checksum(value.get("metadata_checksum"), f"{option}.metadata_checksum", str(metadata)),
    )


def _checksum(value: object, option: str, path: str) -> Optional[str]:
    """64 hexadecimal digits in lower case. What comes over a network must have one; a file of the host need not."""
    if value is None or value == "":
        if is_url(path):
            raise ImageError(
                f"{option} is missing; a URL needs one: sha256: and 64 hexadecimal digits", option=option, value=None
            )
        return None
    match = _CHECKSUM.fullmatch(str(value))
    if match is None:
        raise ImageError(f"{option} is {value!r}; write sha256: and 64 hexadecimal digits", option=option, value=value)
    return match.group(1).lower()
