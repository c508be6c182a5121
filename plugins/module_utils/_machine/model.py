# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine is: boards at bus addresses under PCIe roots, as frozen dataclasses; private to the collection.

Nothing here validates or reads files: ``load`` turns a description into these types and ``check`` says what is wrong
with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Optional

# Kinds of boards. "gpu" covers class 03xx and 12xx alike; "display" is a display adapter that computes nothing.
KINDS = ("gpu", "nvswitch", "nic", "display")

# Who plays the device in a virtual GPU host: a vfio-user program, or a device model that QEMU has itself.
SERVED = ("vfio-user", "qemu")

# Four-level page tables, which all firmware handles; a description may say otherwise.
DEFAULT_PHYS_BITS = 46

MAX_FUNCTIONS = 8
BAR_REGISTERS = 6


@dataclass(frozen=True)
class Bar:
    """A base address register; ``index`` is the first register that it takes."""

    index: int
    size_bytes: int
    prefetchable: bool
    is_64bit: bool = True
    is_io: bool = False
    resizable_bytes: tuple[int, ...] = ()

    @property
    def registers(self) -> tuple[int, ...]:
        """The register numbers that the BAR takes: two when it is 64 bits wide."""
        return (self.index, self.index + 1) if self.is_64bit and not self.is_io else (self.index,)


@dataclass(frozen=True)
class Function:
    """A PCI function of a board; number 0 is the main one."""

    number: int
    name: str
    vendor_id: int
    device_id: int
    class_code: int
    subsystem_vendor_id: int = 0
    subsystem_id: int = 0
    revision: int = 0
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True)
class MigProfile:
    """A kind of GPU instance that a board can be divided into, with what one instance has.

    ``memory_slices`` is how many of the board's memory slices it takes, ``placements`` are the slices at which it can start.
    """

    name: str
    profile_id: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    instances: int
    memory_slices: int
    placements: tuple[int, ...]


@dataclass(frozen=True)
class MigInstance:
    """A GPU instance that a GPU has been divided into; without ``start``, it lies where there is room."""

    profile: str
    start: Optional[int] = None
    uuid: Optional[str] = None


@dataclass(frozen=True)
class GpuFacts:
    """What vendor software says of a GPU; a field is None when no source tells it."""

    product_name: str
    architecture: Optional[str] = None
    memory_mib: Optional[int] = None
    bar1_mib: Optional[int] = None
    cuda_compute_capability: Optional[str] = None
    brand: Optional[str] = None
    mig_capable: Optional[bool] = None
    gfx_target: Optional[str] = None
    mig_profiles: Optional[tuple[MigProfile, ...]] = None


@dataclass(frozen=True)
class NicFacts:
    """What a network adapter is to Linux; ``rdma_prefix`` is how its driver names RDMA devices (mlx5 for mlx5_0)."""

    rdma: Optional[bool] = None
    rdma_prefix: Optional[str] = None


@dataclass(frozen=True)
class NetworkFacts:
    """How one network adapter is set up in its machine.

    ``interface`` is None for an adapter without a network interface; ``uplink`` is the adapter of the default route.
    """

    interface: Optional[str] = None
    mtu: Optional[int] = None
    rdma_device: Optional[str] = None
    uplink: bool = False


@dataclass(frozen=True)
class NvidiaDriver:
    """The NVIDIA driver of a machine, as NVML tells it; without ``addressing_mode``, it has none to tell."""

    version: str
    cuda_version: str
    addressing_mode: Optional[str] = None


@dataclass(frozen=True)
class DeviceServer:
    """A vfio-user program of the user's own: a command that we run, or a socket that is already served."""

    command: tuple[str, ...] = ()
    socket: Optional[str] = None


@dataclass(frozen=True)
class Board:
    """A model of a device.

    ``sources`` maps a field (such as ``bars`` or ``gpu.memory_mib``) to the text that says where its value comes from;
    ``unknown`` lists the fields for which there is no source.
    """

    name: str
    kind: str
    vendor: str
    product: str
    functions: tuple[Function, ...]
    served: str = "vfio-user"
    qemu_device: Optional[str] = None
    gpu: Optional[GpuFacts] = None
    nic: Optional[NicFacts] = None
    server: Optional[DeviceServer] = None
    behaviour: Mapping[str, object] = field(default_factory=dict, hash=False)
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    unknown: tuple[str, ...] = ()

    @property
    def main(self) -> Function:
        """Function 0."""
        return self.functions[0]


@dataclass(frozen=True)
class Device:
    """A board at a bus address.

    ``server`` and ``behaviour`` are what holds for this device, those of the board included. ``mig`` is None when MIG mode
    is off, and empty when it is on without an instance.
    """

    name: str
    address: str
    board: Board
    server: Optional[DeviceServer] = None
    behaviour: Mapping[str, object] = field(default_factory=dict, hash=False)
    identity: Mapping[str, str] = field(default_factory=dict, hash=False)
    network: Optional[NetworkFacts] = None
    mig: Optional[tuple[MigInstance, ...]] = None


@dataclass(frozen=True)
class PcieRoot:
    """A PCIe root complex, named as sysfs names it (``pci0000:40``), with the devices below it."""

    name: str
    numa_node: Optional[int]
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class Machine:
    """One computer."""

    name: str
    cpus: int
    memory_mb: int
    numa_nodes: int = 1
    phys_bits: int = DEFAULT_PHYS_BITS
    roots: tuple[PcieRoot, ...] = ()
    description: str = ""
    nvidia_driver: Optional[NvidiaDriver] = None
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    unknown: tuple[str, ...] = ()

    def devices(self) -> Iterator[tuple[PcieRoot, Device]]:
        """Each device with its root, in the order of the bus addresses."""
        for root in self.roots:
            for device in root.devices:
                yield root, device

    def boards(self) -> tuple[Board, ...]:
        """The boards in use, each once, sorted by name."""
        return tuple(
            sorted({device.board.name: device.board for _root, device in self.devices()}.values(), key=lambda b: b.name)
        )
