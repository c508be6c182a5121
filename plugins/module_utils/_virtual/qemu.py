# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns a machine and the files of a virtual host into QEMU's arguments; a pure function. Private to the collection."""

from __future__ import annotations

import base64
import json
import re
import uuid
from dataclasses import dataclass
from typing import Iterator, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._common.ports import LOOPBACK
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import Machine
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.devices import (
    SERVED_BY_QEMU,
    DeviceSpec,
    device_specs,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.topology import (
    MAIN_BUS,
    Placement,
    Topology,
    plan_topology,
)

# Disk, network, random numbers and the balloon.
OWN_MAIN_SLOTS = 4
# 2 MiB, so that every NUMA node can be backed by huge pages.
MEMORY_STEP_MB = 2
KERNEL_ARGUMENTS = (
    "console=ttyS0 root=/dev/vda rw intel_iommu=on iommu=nopt "
    # Without these two an emulated machine falls back to the hpet, which is far slower.
    "tsc=reliable clocksource=tsc no_timer_check net.ifnames=0 mitigations=off"
)
# Under emulation an exit of a nested guest costs a fraction of a millisecond, and the firmware's timer handler makes ten: at its 100 ticks
# a second nothing else gets done. KVM slows periodic timers down to this; Linux guests use others. Polling for wake-ups steals from the guest.
# Large pages for the guests' memory: the emulated IOMMU is told page by page, and each page is a message to each device server.
EMULATED_ARGUMENTS = (
    "kvm.min_timer_period_us=100000 kvm.halt_poll_ns=0 transparent_hugepage=always transparent_hugepage_shmem=always"
)
_HOST_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?$")


class QemuError(FleetError):
    """The machine cannot be written down as QEMU arguments."""


@dataclass(frozen=True)
class QemuInputs:
    """Everything outside the machine's description that the command line needs."""

    name: str
    cpus: int
    memory_mb: int
    kernel: str
    initrd: str
    disk: str
    console: str
    qmp_socket: str
    monitor_socket: str
    ssh_port: int
    sockets: Mapping[str, str]
    """The vfio-user socket of each device specification by name, but for those that name a socket of the user's."""
    accel: str = "tcg"
    public_key: str = ""
    kernel_arguments: str = ""
    plugin_arguments: tuple[str, ...] = ()
    extra_arguments: tuple[str, ...] = ()
    disk_format: str = "qcow2"
    shared_memory: bool = False
    """Memory that vfio-user programs can map; ours ask QEMU for it instead."""


def command_line(machine: Machine, inputs: QemuInputs, topology: Optional[Topology] = None) -> list[str]:
    """The arguments after QEMU's own command (which may be a loader with a program, see `hypervisor`)."""
    topology = topology if topology is not None else plan_topology(machine, OWN_MAIN_SLOTS)
    slots = iter(topology.free_main_slots)
    arguments = [
        "-name",
        _quoted(inputs.name),
        "-nodefaults",
        "-no-user-config",
        "-vga",
        "none",
        "-display",
        "none",
        "-no-reboot",
    ]
    # No disks, keyboard or sensors of a PC: drivers that look for them cost an emulated host seconds.
    chipset = "q35,kernel-irqchip=split,sata=off,smbus=off,i8042=off,vmport=off"
    arguments += ["-machine", chipset, *_cpu(machine, inputs), *_memory(machine, inputs)]
    # Before every other device: it takes over the buses that exist and those to come.
    arguments += ["-device", "intel-iommu,intremap=on,aw-bits=48,caching-mode=on"]
    arguments += inputs.plugin_arguments
    arguments += ["-kernel", inputs.kernel, "-initrd", inputs.initrd, "-append", _kernel_arguments(inputs)]
    # The same host is the same computer at each start.
    arguments += ["-uuid", str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{inputs.name}.virtual-host.gpulab.fleet"))]
    arguments += [*_own_devices(inputs, slots), *_buses(machine, topology)]
    places = {placement.device.name: placement for placement in topology.placements}
    for spec in device_specs(machine):
        arguments += _device(spec, places[spec.device], inputs)
    arguments += ["-serial", f"file:{inputs.console}"]
    arguments += ["-qmp", f"unix:{_quoted(inputs.qmp_socket)},server=on,wait=off"]
    arguments += ["-monitor", f"unix:{_quoted(inputs.monitor_socket)},server=on,wait=off"]
    arguments += ["-msg", "timestamp=on"]
    return arguments + list(inputs.extra_arguments)


def _cpu(machine: Machine, inputs: QemuInputs) -> list[str]:
    if inputs.accel == "kvm":
        # The guest cannot have more address bits than the processor, and should not have more than the machine described.
        model = f"host,host-phys-bits=on,host-phys-bits-limit={machine.phys_bits}"
        return ["-accel", "kvm", "-cpu", model, "-smp", str(inputs.cpus)]
    return ["-accel", "tcg,thread=multi", "-cpu", f"max,phys-bits={machine.phys_bits}", "-smp", str(inputs.cpus)]


def _memory(machine: Machine, inputs: QemuInputs) -> list[str]:
    nodes = max(1, machine.numa_nodes)
    share_mb = inputs.memory_mb // nodes // MEMORY_STEP_MB * MEMORY_STEP_MB
    if share_mb < MEMORY_STEP_MB:
        raise QemuError(
            f"memory_mb is {inputs.memory_mb}: too little for {nodes} NUMA nodes of machine {machine.name!r}"
        )
    sizes = [inputs.memory_mb - share_mb * (nodes - 1)] + [share_mb] * (nodes - 1)
    backend = "memory-backend-memfd,share=on" if inputs.shared_memory else "memory-backend-ram"
    arguments = ["-m", f"{inputs.memory_mb}M"]
    for node, (size_mb, cpus) in enumerate(zip(sizes, _shares(inputs.cpus, nodes))):
        arguments += ["-object", f"{backend},id=ram{node},size={size_mb}M"]
        arguments += ["-numa", ",".join([f"node,nodeid={node}", *(f"cpus={cpu}" for cpu in cpus), f"memdev=ram{node}"])]
    return arguments


def _shares(cpus: int, nodes: int) -> list[list[int]]:
    """Processors by node in equal blocks; a node may stay without one."""
    bounds = (
        [cpus * node // nodes for node in range(nodes + 1)]
        if cpus >= nodes
        else [min(node, cpus) for node in range(nodes + 1)]
    )
    return [list(range(first, last)) for first, last in zip(bounds, bounds[1:])]


def _kernel_arguments(inputs: QemuInputs) -> str:
    words = [KERNEL_ARGUMENTS]
    if inputs.accel == "tcg":
        words.append(EMULATED_ARGUMENTS)
    if _HOST_NAME.match(inputs.name):
        words.append(f"systemd.hostname={inputs.name}")
    if inputs.public_key:
        # The one ssh key that may log in, as a credential that systemd hands to the ssh server (systemd.system-credentials(7)).
        encoded = base64.b64encode(inputs.public_key.strip().encode() + b"\n").decode()
        words.append(f"systemd.set_credential_binary=ssh.authorized_keys.root:{encoded}")
    if inputs.kernel_arguments:
        words.append(inputs.kernel_arguments)
    return " ".join(words)


def _own_devices(inputs: QemuInputs, slots: Iterator[int]) -> list[str]:
    """What the host needs for itself, on slots of the main bus that the machine does not use."""
    forward = f"hostfwd=tcp:{LOOPBACK}:{inputs.ssh_port}-:22"
    models = (
        # The overlay is thrown away after a crash, so nothing is gained by waiting for the disk.
        "virtio-blk-pci,drive=disk0",
        "virtio-net-pci,netdev=net0,romfile=",
        "virtio-rng-pci",
        # Gives memory that the host has freed back to the machine below.
        "virtio-balloon-pci,free-page-reporting=on",
    )
    arguments = [
        "-drive",
        f"if=none,id=disk0,file={_quoted(inputs.disk)},format={inputs.disk_format},cache=unsafe,discard=unmap",
    ]
    # restrict=on: the host reaches nothing but the one port that is forwarded to it from loopback.
    arguments += ["-netdev", f"user,id=net0,restrict=on,{forward}"]
    for model in models:
        arguments += ["-device", f"{model},bus={MAIN_BUS},addr={next(slots):#04x}"]
    return arguments


def _buses(machine: Machine, topology: Topology) -> list[str]:
    arguments: list[str] = []
    for expander in topology.expanders:
        properties = [
            f"pxb-pcie,id={expander.id},bus_nr={expander.bus:#04x},bus={MAIN_BUS},addr={expander.main_slot:#04x}"
        ]
        # QEMU accepts only nodes that `-numa` has defined.
        if expander.numa_node is not None and 0 <= expander.numa_node < max(1, machine.numa_nodes):
            properties.append(f"numa_node={expander.numa_node}")
        arguments += ["-device", ",".join(properties)]
    for port in topology.ports:
        properties = [
            f"pcie-root-port,id={port.id},bus={port.parent},addr={port.slot:#04x},chassis={port.chassis},hotplug=off"
        ]
        # I/O space is 64 KiB for the whole machine; a port that reserves none leaves it to the others.
        properties.append("io-reserve=0")
        if port.reserve:
            properties.append(f"bus-reserve={port.reserve}")
        arguments += ["-device", ",".join(properties)]
    return arguments


def _device(spec: DeviceSpec, placement: Placement, inputs: QemuInputs) -> list[str]:
    if spec.served == SERVED_BY_QEMU:
        # iommu_platform: without it virtio bypasses the emulated IOMMU and cannot be passed through.
        properties = f"id=dev-{spec.name},bus={placement.parent},addr={placement.slot:#04x},iommu_platform=on"
        return ["-device", f"{spec.qemu_device},{properties}"]
    socket = spec.socket or inputs.sockets.get(spec.name)
    if socket is None:
        raise QemuError(f"device {spec.name!r} has no vfio-user socket", device=spec.name)
    device: dict[str, object] = {
        "driver": "vfio-user-pci",
        "id": f"dev-{spec.name}",
        "bus": placement.parent,
        "addr": f"{placement.slot:02x}.{spec.function}",
        "socket": {"type": "unix", "path": socket},
    }
    if spec.multifunction and spec.function == 0:
        device["multifunction"] = True
    return ["-device", json.dumps(device)]


def _quoted(value: str) -> str:
    """QEMU's option parser ends a value at a comma; a doubled one is a comma."""
    return value.replace(",", ",,")
