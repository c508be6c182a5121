# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket

from ansible_collections.gpulab.fleet.plugins.module_utils._common import ports


def listener() -> socket.socket:
    taken = socket.socket()
    taken.bind((ports.LOOPBACK, 0))
    taken.listen()
    return taken


def test_a_port_with_a_listener_is_not_free():
    with listener() as taken:
        port = taken.getsockname()[1]
        assert not ports.is_free(port)
    assert ports.is_free(port)


def test_the_preferred_port_is_kept_when_it_is_free():
    with listener() as taken:
        port = taken.getsockname()[1]
    assert ports.choose(port) == port


def test_another_port_is_chosen_when_the_preferred_one_is_taken_or_was_tried():
    with listener() as taken:
        port = taken.getsockname()[1]
        assert ports.choose(port) != port
    assert ports.choose(port, taken=[port]) != port


def test_the_chosen_port_can_be_listened_on():
    port = ports.choose()
    with socket.socket() as probe:
        probe.bind((ports.LOOPBACK, port))
