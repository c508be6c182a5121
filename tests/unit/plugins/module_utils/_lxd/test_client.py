# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client over real HTTP on a unix socket, faults included."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd import client
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.client import (
    LxdBusy,
    LxdError,
    LxdEtagMismatch,
    LxdNotFound,
    LxdTimeout,
    LxdUnreachable,
    connect,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd.transport import SOCKET_PATHS, find_socket

BODY = {
    "name": "v1",
    "type": "virtual-machine",
    "config": {"limits.cpu": "2"},
    "devices": {},
    "source": {"type": "none"},
}


def test_a_life(server, lxd):
    assert (lxd.server_version, lxd.has("cloud_init"), lxd.has("nonsense")) == ("5.0.2", True, False)
    assert lxd.get_instance("v1") is None
    assert lxd.get_state("v1") is None
    lxd.create(BODY, Deadline(10))
    made = lxd.get_instance("v1")
    assert (made.name, made.kind, made.status, made.running) == ("v1", "virtual-machine", "Stopped", False)
    assert made.expanded_devices["root"]["type"] == "disk"
    lxd.set_state("v1", "start", False, Deadline(10))
    assert lxd.get_instance("v1").running
    assert [instance.name for instance in lxd.list_instances()] == ["v1"]
    lxd.set_state("v1", "stop", True, Deadline(10))
    lxd.delete("v1", Deadline(10))
    assert server.actions("v1") == ["create", "start", "stop", "delete"]


def test_update_is_guarded_by_the_etag(server, lxd):
    lxd.create(BODY, Deadline(10))
    seen = lxd.get_instance("v1")
    body = {"config": {"user.x": "1"}, "devices": {}, "profiles": ["default"]}
    server.etag_races = 1
    with pytest.raises(LxdEtagMismatch):
        lxd.update("v1", body, seen.etag, Deadline(10))
    lxd.update("v1", body, lxd.get_instance("v1").etag, Deadline(10))
    assert lxd.get_instance("v1").config["user.x"] == "1"


@pytest.mark.parametrize(("times", "ends_well"), [(1, True), (2, True), (3, False)])
def test_a_database_that_is_too_slow_is_asked_again_but_not_for_ever(server, lxd, monkeypatch, times, ends_well):
    monkeypatch.setattr(client, "_BUSY_PAUSE_S", 0.01)
    lxd.create(BODY, Deadline(10))
    server.busy = {"start": times}
    if ends_well:
        lxd.set_state("v1", "start", False, Deadline(10))
        assert lxd.get_instance("v1").running
    else:
        with pytest.raises(LxdBusy, match="context deadline exceeded"):
            lxd.set_state("v1", "start", False, Deadline(10))
        assert not lxd.get_instance("v1").running
    server.busy = {"delete": times}
    if ends_well:
        lxd.set_state("v1", "stop", True, Deadline(10))
        lxd.delete("v1", Deadline(10))
        assert lxd.get_instance("v1") is None


def test_a_failed_operation_carries_lxds_words(server, lxd):
    server.fail["create"] = "Failed creating instance: no space left on device"
    with pytest.raises(LxdError, match="no space left") as error:
        lxd.create(BODY, Deadline(10))
    assert error.value.status == 400


def test_an_operation_that_never_ends_ends_at_the_deadline(server, lxd):
    server.hang.add("create")
    began, said = time.monotonic(), []
    with pytest.raises(LxdTimeout, match="creating v1 did not end within 1 s"):
        lxd.create(BODY, Deadline(0.9), said.append)
    assert said[0].startswith("creating v1: 0 s")
    assert time.monotonic() - began < 5


def test_a_restart_under_an_operation_is_noticed(server, lxd):
    server.hang.add("create")
    threading.Timer(0.3, server.restart, kwargs={"away_s": 0.8}).start()
    with pytest.raises(LxdNotFound, match="restarted meanwhile"):
        lxd.create(BODY, Deadline(20))


def test_an_lxd_that_stays_away_ends_at_the_deadline(server, lxd):
    server.hang.add("create")
    threading.Timer(0.2, server.restart, kwargs={"away_s": 60}).start()
    with pytest.raises(LxdUnreachable, match="has not answered before the deadline"):
        lxd.create(BODY, Deadline(1.5))


def test_logs(server, lxd):
    server.logs["v1"] = {"qemu.log": "0123456789" * 10}
    lxd.create(BODY, Deadline(10))
    assert lxd.log("v1", "qemu.log", limit_bytes=12) == "890123456789"
    assert lxd.log("v1", "nothing.log") is None


def test_no_socket_says_what_to_do(tmp_path):
    with pytest.raises(LxdUnreachable, match="lxd_socket") as error:
        connect(str(tmp_path / "unix.socket"))
    assert str(tmp_path) in error.value.message


def test_a_socket_that_nobody_listens_at(server):
    server.down_until = time.monotonic() + 60
    with pytest.raises(LxdUnreachable, match="does not answer"):
        connect(str(server.socket), patience_s=0.2)


def test_an_lxd_that_is_just_restarting_is_waited_for(server):
    server.down_until = time.monotonic() + 1
    assert connect(str(server.socket)).server_version == "5.0.2"


def test_the_socket_is_found_as_lxc_finds_it(tmp_path):
    assert find_socket({"LXD_DIR": "/x"}) == "/x/unix.socket"
    assert find_socket({}) in SOCKET_PATHS


@pytest.mark.parametrize(
    ("project", "folder"),
    [(None, "logs/v1"), ("default", "logs/v1"), ("lab", "logs/lab_v1")],
)
def test_log_folders_have_the_projects_name(server, project, folder):
    server.extensions = (*server.extensions, "projects")
    (found,) = connect(str(server.socket), project).log_folders("v1")
    assert found == str(server.folder / folder)
