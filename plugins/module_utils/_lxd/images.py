# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the image for a new instance, or bring it into LXD's store: once, checked, from a file or URL. Private to the collection."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from dataclasses import dataclass
from typing import Any, Callable, Optional
from urllib.parse import quote, urlencode

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import Lxd, LxdError, LxdNotFound
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.download import download, sha256_of
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.image_spec import (
    FileImage,
    ImageError,
    ImageRequest,
    LocalImage,
    RemoteImage,
    describe,
    is_url,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.options import CONTAINER, VIRTUAL_MACHINE

try:
    from requests_toolbelt import MultipartEncoder
except ImportError:  # comes with pylxd, whose absence the module reports
    MultipartEncoder = None

# A property of the images that this collection imported: what they were made of, so that it is done once.
KEY_PROPERTY = "gpulab.fleet.key"
_QCOW2_MAGIC = b"QFI\xfb"


@dataclass(frozen=True)
class ReadyImage:
    """What goes into the create request, and whether the image was brought in just now."""

    source: dict[str, Any]
    imported: bool


def check_image(lxd: Lxd, request: ImageRequest, kind: str, option: str = "image") -> None:
    """Refuse, before anything is made, an image that is not there or is of the other type."""
    if isinstance(request, LocalImage):
        _find_local(lxd, request, kind, option)
    elif isinstance(request, FileImage):
        for path in (request.path, request.metadata):
            if path is not None and not is_url(path) and not os.access(path, os.R_OK):
                raise ImageError(
                    f"{option} is {path}, which is no file that can be read on this host; copy it there or correct the path",
                    option=option,
                    value=path,
                )


def make_ready(
    lxd: Lxd,
    request: ImageRequest,
    kind: str,
    work_dir: str,
    deadline: Deadline,
    say: Callable[[str], None],
    option: str = "image",
) -> ReadyImage:
    """The `source` of a create request. A file or URL is imported first, unless LXD has it from an earlier run."""
    if isinstance(request, LocalImage):
        return ReadyImage({"type": "image", "fingerprint": _find_local(lxd, request, kind, option)}, False)
    if isinstance(request, RemoteImage):
        source = {"type": "image", "mode": "pull", "server": request.server, "protocol": request.protocol}
        name = {"alias": request.alias} if request.alias else {"fingerprint": request.fingerprint}
        return ReadyImage({**source, **name}, False)
    os.makedirs(work_dir, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="image-", dir=work_dir) as folder:
        fingerprint, imported = _bring_in(lxd, request, kind, folder, deadline, say, option)
    return ReadyImage({"type": "image", "fingerprint": fingerprint}, imported)


def _find_local(lxd: Lxd, request: LocalImage, kind: str, option: str) -> str:
    try:
        alias, _headers = lxd.transport.request("get", f"images/aliases/{quote(request.reference, safe='')}")
        reference = str(alias["target"])
    except LxdNotFound:
        reference = request.reference
    try:
        image, _headers = lxd.transport.request("get", f"images/{quote(reference, safe='')}")
    except LxdNotFound as error:
        raise ImageError(
            f"{option} is {request.reference!r}, but LXD's image store has neither an alias nor a fingerprint of that name;"
            " see lxc image list, or name a remote (images:…), a file or a URL",
            option=option,
            value=request.reference,
        ) from error
    _check_kind(str(image.get("type", CONTAINER)), kind, request, option)
    return str(image["fingerprint"])


def _check_kind(found: str, kind: str, request: ImageRequest, option: str) -> None:
    if found != kind:
        raise ImageError(
            f"{option} is {describe(request)!r}, an image for a {found} and not for a {kind}; choose another image",
            option=option,
            value=describe(request),
        )


def _bring_in(
    lxd: Lxd, request: FileImage, kind: str, folder: str, deadline: Deadline, say: Callable[[str], None], option: str
) -> tuple[str, bool]:
    checksums = []
    for path, checksum in ((request.path, request.checksum), (request.metadata, request.metadata_checksum)):
        if path is None:
            continue
        if not is_url(path):
            actual = sha256_of(path)
            if checksum not in (None, actual):
                raise ImageError(
                    f"{option} is {path}, whose sha256 is {actual} and not {checksum}; correct the checksum or the file",
                    option=option,
                    value=path,
                )
            checksum = actual
        checksums.append(str(checksum))
    key = hashlib.sha256(f"{kind} {' '.join(checksums)}".encode()).hexdigest()
    known = _known(lxd, key)
    if known is not None:
        return known, False
    image = _local_file(request.path, request.checksum, folder, "image", deadline, say)
    metadata = None
    if request.metadata is not None:
        metadata = _local_file(request.metadata, request.metadata_checksum, folder, "metadata", deadline, say)
    elif _is_qcow2(image):
        metadata = os.path.join(folder, "generated-metadata.tar")
        with open(metadata, "wb") as stream:
            stream.write(plain_metadata(os.uname().machine, os.path.basename(request.path)))
    fingerprint = sha256_of(*([metadata, image] if metadata else [image]))
    present = _image(lxd, fingerprint)
    if present is not None:
        # Somebody imported the same content by hand: use it, and leave it alone if it is of the other kind.
        _check_kind(str(present.get("type", CONTAINER)), kind, request, option)
        return fingerprint, False
    say(f"importing {describe(request)} into LXD's image store")
    _import(lxd, image, metadata, kind, key, deadline, request, option)
    imported = _image(lxd, fingerprint) or {}
    found = str(imported.get("type", CONTAINER))
    if found != kind:
        operation, _headers = lxd.transport.request("delete", f"images/{fingerprint}")
        lxd.wait_operation(operation, deadline, f"removing the image {fingerprint[:12]}")
        _check_kind(found, kind, request, option)
    return fingerprint, True


def _image(lxd: Lxd, fingerprint: str) -> Optional[dict[str, Any]]:
    try:
        image, _headers = lxd.transport.request("get", f"images/{fingerprint}")
    except LxdNotFound:
        return None
    return dict(image)


def _known(lxd: Lxd, key: str) -> Optional[str]:
    images, _headers = lxd.transport.request("get", "images", params={"recursion": "1"})
    for image in images or ():
        if (image.get("properties") or {}).get(KEY_PROPERTY) == key:
            return str(image["fingerprint"])
    return None


def _local_file(
    path: str, checksum: Optional[str], folder: str, name: str, deadline: Deadline, say: Callable[[str], None]
) -> str:
    if not is_url(path):
        return path
    target = os.path.join(folder, name)
    download(path, target, str(checksum), deadline, say)
    return target


def _is_qcow2(path: str) -> bool:
    with open(path, "rb") as stream:
        return stream.read(4) == _QCOW2_MAGIC


def plain_metadata(architecture: str, description: str) -> bytes:
    """A metadata tarball for a disk that comes without one; the same input gives the same bytes, and so the same fingerprint.

    LXD takes a creation date of 0 for a missing one.
    """
    text = f'architecture: {architecture}\ncreation_date: 1\nproperties:\n  description: "{description}"\n'.encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("metadata.yaml")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return buffer.getvalue()


def _import(
    lxd: Lxd,
    image: str,
    metadata: Optional[str],
    kind: str,
    key: str,
    deadline: Deadline,
    request: FileImage,
    option: str,
) -> None:
    headers = {"X-LXD-properties": urlencode({KEY_PROPERTY: key}), "X-LXD-public": "false"}
    try:
        with open(image, "rb") as stream:
            if metadata is None:
                headers["Content-Type"] = "application/octet-stream"
                headers["X-LXD-filename"] = os.path.basename(request.path)
                operation = _post(lxd, stream, headers, deadline)
            else:
                with open(metadata, "rb") as metadata_stream:
                    part = "rootfs.img" if kind == VIRTUAL_MACHINE else "rootfs"
                    encoder = MultipartEncoder(
                        [
                            ("metadata", ("metadata", metadata_stream, "application/octet-stream")),
                            (part, (os.path.basename(request.path), stream, "application/octet-stream")),
                        ]
                    )
                    headers["Content-Type"] = encoder.content_type
                    operation = _post(lxd, encoder, headers, deadline)
        lxd.wait_operation(operation, deadline, f"importing {describe(request)}")
    except LxdError as error:
        # Two runs at once: the content is what counts.
        if "same fingerprint already exists" not in error.message:
            raise ImageError(
                f"{option} is {describe(request)}, which LXD refuses: {error.message}; give a unified image tarball, or a qcow2 disk",
                option=option,
                value=describe(request),
            ) from error


def _post(lxd: Lxd, data: object, headers: dict[str, str], deadline: Deadline) -> Any:
    operation, _headers = lxd.transport.request(
        "post", "images", data=data, headers=headers, timeout_s=max(1.0, deadline.remaining_s())
    )
    return operation
