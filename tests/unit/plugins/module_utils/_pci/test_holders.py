# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a function: files and maps of processes in a fake /proc, and one real process with a real open file."""

from __future__ import annotations

import os

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.holders import (
    find_holders,
    kernel_users,
    parse_cgroup,
    parse_maps_line,
    scan_holders,
)

GPU = "0000:41:00.0"
OTHER = "0000:42:00.0"


@pytest.fixture
def host(tree):
    """Two NVIDIA GPUs with minors 0 and 1; the first is in group 17 and has DRM nodes, and is on NVIDIA's driver."""
    tree.add_function(GPU, driver="nvidia", group=17)
    tree.add_function(OTHER, driver="nvidia", group=18)
    for minor, address in enumerate((GPU, OTHER)):
        tree.write(
            f"proc/driver/nvidia/gpus/{address}/information", f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\n"
        )
    for name in ("card1", "renderD128", "card1-DP-1"):
        (tree.folder(GPU) / "drm" / name).mkdir(parents=True)
    (tree.folder(GPU) / "vfio-dev" / "vfio3").mkdir(parents=True)
    tree.add_process(1, "systemd", files=["/dev/null", "/dev/nvidiactl"])
    return tree


def found(tree, *addresses):
    return find_holders(addresses or (GPU,), tree.procfs, tree.sysfs)


RESOURCE = "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/resource1"


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("/dev/nvidia0", "open"),
        ("/dev/nvidia0", "map"),
        ("/dev/dri/card1", "open"),
        ("/dev/dri/renderD128", "open"),
        ("/dev/vfio/17", "open"),
        ("/dev/vfio/noiommu-17", "open"),
        ("/dev/vfio/devices/vfio3", "open"),
        (RESOURCE, "map"),
        (RESOURCE + "_wc", "open"),
    ],
)
def test_ways_to_hold(host, path, how):
    host.add_process(77, "burn", **{"files" if how == "open" else "maps": [path]})
    assert [(h.pid, h.command, h.path, h.how, h.addresses) for h in found(host)] == [(77, "burn", path, how, (GPU,))]


@pytest.mark.parametrize(
    "path",
    [
        "/dev/nvidia1",
        "/dev/nvidia00",
        "/dev/nvidiactl",
        "/dev/vfio/18",
        "/dev/vfio/vfio",
        "/dev/dri/card1-DP-1",
        "/dev/dri/card0",
        RESOURCE.replace("0000:41", "0000:42"),
        os.path.dirname(RESOURCE) + "/config",
        "/tmp/0000:41:00.0/resource1",
        "socket:[4242]",
    ],
)
def test_what_holds_something_else(host, path):
    host.add_process(77, "burn", files=[path], maps=[path])
    assert found(host) == []


def test_a_deleted_node_is_still_held(host):
    host.add_process(77, "burn", files=["/dev/nvidia0 (deleted)"], maps=["/dev/dri/card1 (deleted)"])
    assert [(h.path, h.how) for h in found(host)] == [("/dev/nvidia0", "open"), ("/dev/dri/card1", "map")]


def test_one_line_for_a_file_however_often_it_is_open(host):
    host.add_process(77, "burn", files=["/dev/nvidia0"] * 3, maps=["/dev/nvidia0"] * 3)
    assert [h.how for h in found(host)] == ["open", "map"]


def test_several_functions_at_once(host):
    host.add_process(78, "b", files=["/dev/nvidia1"])
    host.add_process(77, "a", files=["/dev/nvidia0"])
    assert [(h.pid, h.addresses) for h in found(host, GPU, OTHER)] == [(77, (GPU,)), (78, (OTHER,))]


def test_amds_compute_node_stands_for_every_gpu_of_its_driver(tree):
    tree.add_function(GPU, driver="amdgpu")
    tree.add_function(OTHER, driver="vfio-pci")
    tree.add_process(77, "rocm", files=["/dev/kfd"])
    assert [h.addresses for h in found(tree, GPU, OTHER)] == [(GPU,)]
    assert found(tree, OTHER) == []


CONTAINER = "9c5b2d7f" * 8


@pytest.mark.parametrize(
    ("text", "container", "unit"),
    [
        ("0::/lxc.payload.c1/system.slice/nvidia-persistenced.service", "c1", "nvidia-persistenced.service"),
        ("0::/lxc.monitor.c1", "c1", None),
        ("12:devices:/lxc.payload.project_c1\n1:name=systemd:/lxc.payload.project_c1", "project_c1", None),
        ("0::/system.slice/nvidia-dcgm.service", None, "nvidia-dcgm.service"),
        (f"0::/system.slice/docker-{CONTAINER}.scope", CONTAINER[:12], f"docker-{CONTAINER}.scope"),
        (f"0::/docker/{CONTAINER}", CONTAINER[:12], None),
        (
            f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{CONTAINER}.scope",
            CONTAINER[:12],
            f"cri-containerd-{CONTAINER}.scope",
        ),
        ("0::/user.slice/user-0.slice/session-3.scope", None, "session-3.scope"),
        ("0::/", None, None),
        ("", None, None),
    ],
)
def test_container_and_unit(text, container, unit):
    assert parse_cgroup(text) == (container, unit)


def test_a_holder_names_container_unit_and_vm(host):
    host.add_process(70, "burn", files=["/dev/nvidia0"], cgroup="0::/lxc.payload.c1/system.slice/burn.service")
    host.add_process(71, "dcgm", files=["/dev/nvidia0"], cgroup="0::/system.slice/nvidia-dcgm.service")
    host.add_process(
        72,
        "qemu-system-x86",
        files=["/dev/vfio/17"],
        arguments=["/snap/lxd/1/bin/qemu-system-x86_64", "-S", "-name", "v1", "-uuid", "u"],
    )
    host.add_process(
        73,
        "qemu-system-x86",
        files=["/dev/vfio/17"],
        arguments=["/usr/bin/qemu-system-x86_64", "-name", "guest=v2,debug-threads=on"],
    )
    host.add_process(74, "qemu-system-x86", files=["/dev/vfio/17"], arguments=["/usr/bin/qemu-system-x86_64", "-name"])
    assert [str(h) for h in found(host)] == [
        "burn (pid 70, container c1) has open /dev/nvidia0",
        "dcgm (pid 71, nvidia-dcgm.service) has open /dev/nvidia0",
        "qemu-system-x86 (pid 72, VM v1) has open /dev/vfio/17",
        "qemu-system-x86 (pid 73, VM v2) has open /dev/vfio/17",
        "qemu-system-x86 (pid 74) has open /dev/vfio/17",
    ]
    assert [(h.container, h.unit, h.vm) for h in found(host)][:3] == [
        ("c1", "burn.service", None),
        (None, "nvidia-dcgm.service", None),
        (None, None, "v1"),
    ]


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("7f00-7f01 rw-s 00000000 00:06 412   /dev/nvidia0\n", "/dev/nvidia0"),
        ("7f00-7f01 rw-s 00000000 00:06 412   /dev/with a blank\n", "/dev/with a blank"),
        ("7f00-7f01 rw-p 00000000 00:00 0    [heap]\n", None),
        ("7f00-7f01 rw-p 00000000 00:00 0\n", None),
        ("7f00-7f01 rw-s 00000000 00:0e 9    anon_inode:[vfio-device]\n", None),
        ("", None),
    ],
)
def test_maps_line(line, path):
    assert parse_maps_line(line) == path


def test_the_search_ends_with_its_deadline_and_says_so(host):
    host.add_process(77, "burn", files=["/dev/nvidia0"])
    scan = scan_holders([GPU], host.procfs, host.sysfs, Deadline(0))
    assert (scan.holders, scan.complete) == ((), False)
    assert scan_holders([GPU], host.procfs, host.sysfs).complete


def test_a_process_that_ends_meanwhile(host):
    (host.path / "proc/99").mkdir()
    host.add_process(100, "burn", files=["/dev/nvidia0"])
    assert [h.pid for h in found(host)] == [100]


def test_no_address_no_search():
    assert find_holders([]) == []


def test_the_real_proc_of_this_machine(tree):
    """Kernel threads, processes of others and those that end meanwhile: none of them breaks the search."""
    tree.add_function(GPU, group=987654)
    scan = scan_holders([GPU], "/proc", tree.sysfs, Deadline(60))
    assert scan.holders == ()
    assert scan.complete is (scan.unreadable == 0)


def test_users_inside_the_kernel(host):
    host.write("sys/module/nvidia/refcnt", "3\n")
    for name in ("nvidia_uvm", "nvidia_modeset"):
        (host.path / "sys/module/nvidia/holders" / name).mkdir(parents=True)
    (host.folder(GPU) / "graphics" / "fb0").mkdir(parents=True)
    users = kernel_users([GPU], host.sysfs)
    assert [str(user) for user in users] == [
        "module nvidia (count 3, used by nvidia_modeset, nvidia_uvm)",
        "framebuffer fb0 (count 1)",
    ]


def test_no_users_inside_the_kernel(tree):
    tree.add_function(GPU, driver="vfio-pci")
    tree.write("sys/module/vfio_pci/refcnt", "0\n")
    tree.add_function(OTHER)
    assert kernel_users([GPU, OTHER], tree.sysfs) == []
