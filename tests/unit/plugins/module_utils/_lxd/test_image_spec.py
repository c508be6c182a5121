# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.image_spec import (
    FileImage,
    ImageError,
    LocalImage,
    RemoteImage,
    parse_image,
)

SUM = "ab" * 32
URL = "https://example.org/vm.qcow2"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("debian13", LocalImage("debian13")),
        ("local:debian13", LocalImage("debian13")),
        ("7b8e2ed0b0bf", LocalImage("7b8e2ed0b0bf")),
        ("images:debian/13", RemoteImage("https://images.lxd.canonical.com", "simplestreams", alias="debian/13")),
        ("ubuntu:24.04", RemoteImage("https://cloud-images.ubuntu.com/releases/", "simplestreams", alias="24.04")),
        ("/srv/vm.qcow2", FileImage("/srv/vm.qcow2")),
        (f"{URL}#sha256:{SUM}", FileImage(URL, SUM)),
        (f"{URL}#sha256={SUM.upper()}", FileImage(URL, SUM)),
        ({"alias": "debian13"}, LocalImage("debian13")),
        (
            {"alias": "images:debian/13"},
            RemoteImage("https://images.lxd.canonical.com", "simplestreams", alias="debian/13"),
        ),
        ({"fingerprint": "7b8e2ed0b0bf"}, LocalImage("7b8e2ed0b0bf")),
        ({"server": "https://s", "alias": "a"}, RemoteImage("https://s", "simplestreams", alias="a")),
        (
            {"server": "https://s", "protocol": "lxd", "fingerprint": SUM},
            RemoteImage("https://s", "lxd", fingerprint=SUM),
        ),
        ({"url": URL, "checksum": f"sha256:{SUM}"}, FileImage(URL, SUM)),
        ({"url": URL, "checksum": SUM, "metadata": "/srv/m.tar", "alias": None}, FileImage(URL, SUM, "/srv/m.tar")),
        ({"file": "/srv/vm.qcow2", "checksum": SUM}, FileImage("/srv/vm.qcow2", SUM)),
    ],
)
def test_forms(value, expected):
    assert parse_image(value) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", ["image is empty", "alias"]),
        (7, ["int", "alias"]),
        ("mine:debian", ["'mine'", "images", "server"]),
        ("images:", ["colon"]),
        (URL, ["checksum", "missing", "sha256"]),
        (f"{URL}#md5:{'a' * 32}", ["checksum", "sha256"]),
        ({"url": URL}, ["checksum", "missing"]),
        ({"url": "ftp://x/y", "checksum": SUM}, ["image.url", "https://"]),
        ({"file": "vm.qcow2"}, ["image.file", "absolute"]),
        ({"file": "/a", "url": URL, "checksum": SUM}, ["both"]),
        ({"file": "/a", "checksum": "abc"}, ["image.checksum", "'abc'", "64"]),
        ({"url": URL, "checksum": SUM, "metadata": "https://example.org/m"}, ["metadata_checksum", "missing"]),
        ({"alias": "a", "fingerprint": "7b8e2ed0b0bf"}, ["exactly one"]),
        ({}, ["exactly one"]),
        ({"aliass": "a"}, ["'aliass'", "alias"]),
        ({"fingerprint": "XYZ"}, ["image.fingerprint", "hexadecimal"]),
        ({"server": "https://s", "alias": "a", "protocol": "http"}, ["image.protocol", "simplestreams"]),
    ],
)
def test_refusals(value, words):
    with pytest.raises(ImageError) as error:
        parse_image(value)
    assert [word for word in words if word not in error.value.message] == []
