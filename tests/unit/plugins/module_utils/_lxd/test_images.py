# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images from the store, from files and from URLs, against a server that speaks LXD's import."""

from __future__ import annotations

import hashlib
import http.server
import threading

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.download import DownloadError, download
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.image_spec import ImageError, parse_image
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.images import check_image, make_ready, plain_metadata

VM, CONTAINER = "virtual-machine", "container"
QCOW2 = b"QFI\xfb" + b"disk" * 1000
TARBALL = b"unified tarball" * 1000


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def ready(lxd, value, kind, tmp_path):
    request = parse_image(value)
    check_image(lxd, request, kind)
    return make_ready(lxd, request, kind, str(tmp_path / "work"), Deadline(30), lambda text: None)


@pytest.fixture
def web(tmp_path):
    """A web server on loopback with a list of faults for its next answers."""
    files, faults, served = {}, [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            served.append(self.path)
            fault = faults.pop(0) if faults else None
            if isinstance(fault, int) or self.path not in files:
                self.send_error(fault or 404)
                return
            data = files[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if fault == "cut" else data)

        def log_message(self, *_arguments):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    httpd.files, httpd.faults, httpd.served = files, faults, served
    httpd.base = f"http://127.0.0.1:{httpd.server_address[1]}"
    yield httpd
    httpd.shutdown()
    httpd.server_close()


def test_local_images_by_alias_and_fingerprint(server, lxd, tmp_path):
    fingerprint = server.add_image("debian/13", VM)
    for value in ("debian/13", fingerprint, fingerprint[:12], {"fingerprint": fingerprint[:12]}):
        assert ready(lxd, value, VM, tmp_path).source == {"type": "image", "fingerprint": fingerprint}


@pytest.mark.parametrize(
    ("value", "words"), [("nonesuch", ["'nonesuch'", "lxc image list"]), ("bb", ["container", "virtual-machine"])]
)
def test_local_images_that_are_not_to_be_had(server, lxd, tmp_path, value, words):
    server.add_image("bb", CONTAINER)
    with pytest.raises(ImageError) as error:
        check_image(lxd, parse_image(value), VM)
    assert [word for word in words if word not in error.value.message] == []


def test_remote_images_are_lxds_own_business(lxd, tmp_path):
    assert ready(lxd, "images:debian/13", VM, tmp_path).source == {
        "type": "image",
        "mode": "pull",
        "server": "https://images.lxd.canonical.com",
        "protocol": "simplestreams",
        "alias": "debian/13",
    }


def test_a_disk_is_imported_once_with_metadata_made_for_it(server, lxd, tmp_path):
    disk = tmp_path / "vm.qcow2"
    disk.write_bytes(QCOW2)
    first = ready(lxd, str(disk), VM, tmp_path)
    again = ready(lxd, str(disk), VM, tmp_path)
    assert (first.imported, again.imported) == (True, False)
    assert first.source == again.source
    image = server.images[first.source["fingerprint"]]
    assert image["type"] == VM
    assert len([path for method, path, _body in server.requests if (method, path) == ("POST", "/1.0/images")]) == 1
    disk.write_bytes(QCOW2 + b"changed")
    assert ready(lxd, str(disk), VM, tmp_path).imported


def test_the_fingerprint_is_the_one_that_lxd_computes(server, lxd, tmp_path):
    disk, metadata = tmp_path / "vm.qcow2", tmp_path / "metadata.tar"
    disk.write_bytes(QCOW2)
    metadata.write_bytes(plain_metadata("x86_64", "x"))
    value = {"file": str(disk), "metadata": str(metadata)}
    assert ready(lxd, value, VM, tmp_path).source["fingerprint"] == sha256(metadata.read_bytes() + QCOW2)
    assert plain_metadata("x86_64", "x") == metadata.read_bytes()


def test_an_image_that_somebody_imported_by_hand_is_used(server, lxd, tmp_path):
    tarball = tmp_path / "image.tar"
    tarball.write_bytes(TARBALL)
    server.images[sha256(TARBALL)] = {"fingerprint": sha256(TARBALL), "type": CONTAINER, "properties": {}}
    used = ready(lxd, str(tarball), CONTAINER, tmp_path)
    assert (used.source["fingerprint"], used.imported) == (sha256(TARBALL), False)
    # It is theirs: also when it turns out to be of no use here.
    with pytest.raises(ImageError, match="for a container"):
        ready(lxd, str(tarball), VM, tmp_path)
    assert list(server.images) == [sha256(TARBALL)]


def test_an_image_of_the_wrong_kind_is_not_kept(server, lxd, tmp_path):
    tarball = tmp_path / "image.tar"
    tarball.write_bytes(TARBALL)
    with pytest.raises(ImageError, match="for a container and not for a virtual-machine"):
        ready(lxd, str(tarball), VM, tmp_path)
    assert server.images == {}


@pytest.mark.parametrize("value", ["/nonesuch.qcow2", {"file": "/nonesuch.qcow2"}])
def test_a_file_that_is_not_there(lxd, value):
    with pytest.raises(ImageError, match=r"/nonesuch\.qcow2.*copy it there"):
        check_image(lxd, parse_image(value), VM)


def test_a_file_with_another_checksum(lxd, tmp_path):
    disk = tmp_path / "vm.qcow2"
    disk.write_bytes(QCOW2)
    with pytest.raises(ImageError, match=sha256(QCOW2)):
        ready(lxd, {"file": str(disk), "checksum": "0" * 64}, VM, tmp_path)


def test_what_lxd_refuses_is_told_with_the_image(server, lxd, tmp_path):
    tarball = tmp_path / "image.tar"
    tarball.write_bytes(TARBALL)
    server.fail["import"] = "Metadata tarball is missing metadata.yaml"
    with pytest.raises(ImageError, match=r"image\.tar.*missing metadata\.yaml"):
        ready(lxd, str(tarball), CONTAINER, tmp_path)


def test_a_url_is_downloaded_once(server, lxd, web, tmp_path):
    web.files["/vm.qcow2"] = QCOW2
    web.faults += [503, "cut"]
    value = f"{web.base}/vm.qcow2#sha256:{sha256(QCOW2)}"
    first = ready(lxd, value, VM, tmp_path)
    assert (first.imported, len(web.served)) == (True, 3)
    assert (ready(lxd, value, VM, tmp_path).source, len(web.served)) == (first.source, 3)
    # Nothing of it stays beside LXD's store.
    assert list((tmp_path / "work").iterdir()) == []


def test_a_url_with_another_checksum_is_not_imported(server, lxd, web, tmp_path):
    web.files["/vm.qcow2"] = QCOW2
    with pytest.raises(DownloadError, match="correct the checksum"):
        ready(lxd, f"{web.base}/vm.qcow2#sha256:{'0' * 64}", VM, tmp_path)
    assert server.images == {}


def test_downloads_give_up(web, tmp_path):
    pauses = []

    def attempt(path):
        with pytest.raises(DownloadError, match="could not be downloaded"):
            download(web.base + path, str(tmp_path / "x"), "0" * 64, Deadline(30), lambda text: None, pauses.append)

    attempt("/not-there")
    assert pauses == []
    web.files["/vm"] = QCOW2
    web.faults += [500] * 9
    attempt("/vm")
    assert len(pauses) == 4
