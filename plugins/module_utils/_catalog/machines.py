# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of the catalog: real ones as public sources show them, and small ones for labs; private to the collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ansible_collections.gpulab.fleet.plugins.module_utils._catalog import sources
from ansible_collections.gpulab.fleet.plugins.module_utils._catalog.boards import BOARDS
from ansible_collections.gpulab.fleet.plugins.module_utils._machine.model import (
    Device,
    Machine,
    NetworkFacts,
    NvidiaDriver,
    PcieRoot,
)

_GIB_IN_MB = 1024
_H100 = "nvidia-h100-sxm5-80gb"
_A100 = "nvidia-a100-sxm4-40gb"
_B200 = "nvidia-b200"

# A lab machine is a virtual GPU host: its size is what QEMU gets, large enough for LXD and a guest in it.
_LAB_CPUS = 2
_LAB_MEMORY_MB = 12288

# Root, NUMA node and the devices below it as (name, address, board).
_Rows = Sequence[tuple[str, str, str]]


def _root(name: str, numa_node: int, rows: _Rows) -> PcieRoot:
    return PcieRoot(
        name=name,
        numa_node=numa_node,
        devices=tuple(Device(name=device, address=address, board=BOARDS[board]) for device, address, board in rows),
    )


def _dgx_a100() -> Machine:
    switches = [(f"nvswitch{n}", f"0000:c{4 + n}:00.0", "nvidia-nvswitch-a100") for n in range(6)]
    nic = "nvidia-connectx-6"
    return Machine(
        name="dgx-a100",
        description="NVIDIA DGX A100 with eight A100 of 40 GB",
        cpus=256,
        memory_mb=1024 * _GIB_IN_MB,
        numa_nodes=8,
        roots=(
            _root("pci0000:00", 3, [
                ("gpu0", "0000:07:00.0", _A100), ("nic6", "0000:0c:00.0", nic),
                ("gpu1", "0000:0f:00.0", _A100), ("nic7", "0000:12:00.0", nic),
            ]),
            _root("pci0000:40", 1, [
                ("gpu2", "0000:47:00.0", _A100), ("nic0", "0000:4b:00.0", nic),
                ("gpu3", "0000:4e:00.0", _A100), ("nic1", "0000:54:00.0", nic),
            ]),
            _root("pci0000:80", 7, [
                ("gpu4", "0000:87:00.0", _A100), ("nic8", "0000:8d:00.0", nic),
                ("gpu5", "0000:90:00.0", _A100), ("nic9", "0000:94:00.0", nic),
            ]),
            _root("pci0000:b0", 5, [
                ("gpu6", "0000:b7:00.0", _A100), ("nic2", "0000:ba:00.0", nic),
                ("gpu7", "0000:bd:00.0", _A100), *switches, ("nic3", "0000:cc:00.0", nic),
            ]),
        ),
        sources={
            "cpus": sources.DGX_A100_HARDWARE + ", two threads a core",
            "memory_mb": sources.DGX_A100_HARDWARE,
            "numa_nodes": sources.DGX_A100_NUMA,
            "roots": sources.DGX_A100_LSPCI,
            "roots.numa_node": sources.DGX_A100_NUMA,
        },
        unknown=("numa_node of the storage adapters, which are left out", "phys_bits"),
    )  # fmt: skip


# Root bus, GPU and ConnectX-7 of the eight trees of a DGX H100 and a DGX B200; the first four are on NUMA node 0.
_DGX_TREES = (
    ("15", "1b", "18"), ("3d", "43", "40"), ("4c", "52", "4f"), ("5b", "61", "5e"),
    ("97", "9d", "9a"), ("bd", "c3", "c0"), ("cb", "d1", "ce"), ("d9", "df", "dc"),
)  # fmt: skip


def _dgx_trees(board: str) -> tuple[PcieRoot, ...]:
    return tuple(
        _root(f"pci0000:{bus}", 0 if number < 4 else 1, [
            (f"nic{number}", f"0000:{nic}:00.0", "nvidia-connectx-7"), (f"gpu{number}", f"0000:{gpu}:00.0", board),
        ])
        for number, (bus, gpu, nic) in enumerate(_DGX_TREES)
    )  # fmt: skip


def _dgx_h100() -> Machine:
    return Machine(
        name="dgx-h100",
        description="NVIDIA DGX H100: eight H100 of 80 GB with a ConnectX-7 each",
        cpus=224,
        memory_mb=2048 * _GIB_IN_MB,
        numa_nodes=2,
        roots=_dgx_trees(_H100),
        sources={
            "cpus": sources.DGX_H100_TOPOLOGY,
            "memory_mb": sources.DGX_H100_HARDWARE,
            "numa_nodes": sources.DGX_H100_TOPOLOGY,
            "roots": "GPUs: "
            + sources.DGX_H100_TOPOLOGY
            + "; roots and adapters: as on the DGX B200, whose GPUs have the same addresses",
            "roots.numa_node": sources.DGX_H100_TOPOLOGY,
        },
        unknown=(
            "addresses of the four NVSwitches, which are left out",
            "phys_bits",
            "roots (seen on a DGX B200 only)",
        ),
    )


def _dgx_b200() -> Machine:
    return Machine(
        name="dgx-b200",
        description="NVIDIA DGX B200: eight B200 with a ConnectX-7 each",
        cpus=224,
        memory_mb=2048 * _GIB_IN_MB,
        numa_nodes=2,
        roots=_dgx_trees(_B200),
        sources={
            "cpus": sources.DGX_B200_HARDWARE + ", two threads a core",
            "memory_mb": sources.DGX_B200_HARDWARE,
            "numa_nodes": "two sockets: " + sources.DGX_B200_HARDWARE,
            "roots": sources.DGX_B200_TREE,
            "roots.numa_node": "as on the DGX H100: " + sources.DGX_H100_TOPOLOGY,
        },
        unknown=("phys_bits", "the ConnectX-7 at 0000:05:00 that manages the NVSwitches, which is left out"),
    )


def _driver(version: str, cuda_version: str = "13.0") -> NvidiaDriver:
    return NvidiaDriver(version=version, cuda_version=cuda_version, addressing_mode="HMM")


def _aws_p4d() -> Machine:
    def tree(bus: str, numa_node: int, first: int, nic: int, interface: str = "") -> PcieRoot:
        root = _root(f"pci0000:{bus}", numa_node, [
            (f"efa{nic}", f"0000:{bus}:1b.0", "amazon-efa-v1"),
            (f"gpu{first}", f"0000:{bus}:1c.0", _A100),
            (f"gpu{first + 1}", f"0000:{bus}:1d.0", _A100),
        ])  # fmt: skip
        if not interface:
            return root
        network = NetworkFacts(interface=interface, mtu=9001)
        ena = Device(name=f"ena{nic}", address=f"0000:{bus}:01.0", board=BOARDS["amazon-ena"], network=network)
        return replace(root, devices=(ena, *root.devices))

    return Machine(
        name="aws-p4d",
        description="AWS p4d.24xlarge: eight A100 of 40 GB, four EFA and three ENA",
        nvidia_driver=_driver("580.126.09"),
        cpus=96,
        memory_mb=1152 * _GIB_IN_MB,
        numa_nodes=2,
        roots=(
            tree("10", 0, 0, 0),
            tree("20", 0, 2, 1, "ens65"),
            tree("90", 1, 4, 2, "ens129"),
            tree("a0", 1, 6, 3, "ens161"),
        ),
        sources={
            "cpus": sources.TORCHX_AWS,
            "memory_mb": sources.TORCHX_AWS,
            "numa_nodes": "aws/aws-ofi-nccl:topology/p4d-24xl-topo.xml@35d97d28",
            "roots": f"{sources.KARPENTER_DRA}; {sources.LSPCI_P4D}; ENA: {sources.DRANET_P4D}",
            "roots.numa_node": "aws/aws-ofi-nccl:topology/p4d-24xl-topo.xml@35d97d28",
            "nvidia_driver": sources.DRANET_P4D,
        },
        unknown=(
            "addresses of the NVSwitches below bus 80, which are left out",
            "the ENA of the default route, which is left out",
            "phys_bits",
        ),
    )


# Root bus, GPU bus and first of four EFA buses, with the NUMA node, of a p5.48xlarge.
_P5_TREES = (
    ("44", "53", 0x4F, 0), ("55", "64", 0x60, 0), ("66", "75", 0x71, 0), ("77", "86", 0x82, 0),
    ("88", "97", 0x93, 1), ("99", "a8", 0xA4, 1), ("aa", "b9", 0xB5, 1), ("bb", "ca", 0xC6, 1),
)  # fmt: skip


def _aws_p5() -> Machine:
    roots = []
    for number, (bus, gpu, first_efa, numa_node) in enumerate(_P5_TREES):
        nics = [(f"efa{number * 4 + n}", f"0000:{first_efa + n:02x}:00.0", "amazon-efa-v2") for n in range(4)]
        roots.append(_root(f"pci0000:{bus}", numa_node, [*nics, (f"gpu{number}", f"0000:{gpu}:00.0", _H100)]))
    return Machine(
        name="aws-p5",
        description="AWS p5.48xlarge: eight H100 of 80 GB and 32 EFA",
        nvidia_driver=_driver("580.105.08"),
        cpus=192,
        memory_mb=2048 * _GIB_IN_MB,
        numa_nodes=2,
        roots=tuple(roots),
        sources={
            "cpus": sources.TORCHX_AWS,
            "memory_mb": sources.TORCHX_AWS,
            "numa_nodes": sources.KARPENTER_DRA,
            "roots": f"GPUs: {sources.KARPENTER_DRA}; EFA: {sources.KARPENTER_EFA}",
            "roots.numa_node": sources.KARPENTER_DRA,
            "nvidia_driver": sources.AICR_P5,
        },
        unknown=("phys_bits", "root of the NVSwitches at 0000:cf to 0000:d2, which are left out"),
    )


def _aws_g4dn() -> Machine:
    gpu = Device(name="gpu0", address="0000:00:1e.0", board=BOARDS["nvidia-t4"])
    return Machine(
        name="aws-g4dn",
        description="AWS g4dn.xlarge: one T4",
        cpus=4,
        memory_mb=16 * _GIB_IN_MB,
        nvidia_driver=NvidiaDriver(version="580.95.05", cuda_version="13.0", addressing_mode="HMM"),
        roots=(PcieRoot(name="pci0000:00", numa_node=None, devices=(gpu,)),),
        sources={
            "cpus": sources.AWS_G4DN,
            "memory_mb": sources.AWS_G4DN,
            "numa_nodes": "no slice of it tells a NUMA node: " + sources.EKS_T4,
            "roots": sources.EKS_T4,
            "roots.numa_node": sources.EKS_T4,
            "nvidia_driver": sources.EKS_T4,
        },
        unknown=("address of the ENA, which is left out", "phys_bits"),
    )


def _oci_gb200() -> Machine:
    def tray(domain: str, number: int, name: str, board: str, bus: str) -> PcieRoot:
        return _root(f"pci{domain}:00", number, [(name, f"{domain}:{bus}:00.0", board)])

    gpus = (("0008", 0), ("0009", 0), ("0018", 1), ("0019", 1))
    nics = (("0000", 0), ("0002", 0), ("0010", 1), ("0012", 1))
    return Machine(
        name="oci-gb200",
        description="OCI BM.GPU.GB200-v3.4: four GB200 and four ConnectX-8 of two ports, each below its own PCIe root",
        cpus=144,
        memory_mb=2 * 480 * 10**9 >> 20,
        numa_nodes=2,
        nvidia_driver=NvidiaDriver(version="580.126.20", cuda_version="13.0", addressing_mode="ATS"),
        roots=(
            *(tray(domain, numa, f"nic{n}", "nvidia-connectx-8", "03") for n, (domain, numa) in enumerate(nics[:2])),
            *(tray(domain, numa, f"gpu{n}", "nvidia-gb200", "06") for n, (domain, numa) in enumerate(gpus[:2])),
            *(
                tray(domain, numa, f"nic{n + 2}", "nvidia-connectx-8", "03")
                for n, (domain, numa) in enumerate(nics[2:])
            ),
            *(tray(domain, numa, f"gpu{n + 2}", "nvidia-gb200", "06") for n, (domain, numa) in enumerate(gpus[2:])),
        ),
        sources={
            "cpus": sources.GB200_NVL72,
            "memory_mb": sources.GB200_NVL72,
            "numa_nodes": sources.DRANET_GB200,
            "roots": sources.DRANET_GB200,
            "roots.numa_node": f"adapters: {sources.DRANET_GB200}; GPUs: by their PCI domains, as that source infers them",
            "nvidia_driver": sources.DRANET_GB200,
        },
        unknown=("interfaces of the adapters", "management adapters, which are left out", "phys_bits"),
    )


def _aws_p6_b200() -> Machine:
    trees = (("44", "51", "52", 0), ("55", "62", "63", 0), ("66", "75", "76", 1), ("79", "86", "87", 1))
    return Machine(
        name="aws-p6-b200",
        description="AWS p6-b200.48xlarge: eight B200 on four PCIe roots",
        cpus=192,
        memory_mb=2048 * _GIB_IN_MB,
        numa_nodes=2,
        roots=tuple(
            _root(f"pci0000:{bus}", numa_node, [
                (f"gpu{number * 2}", f"0000:{first}:00.0", _B200),
                (f"gpu{number * 2 + 1}", f"0000:{second}:00.0", _B200),
            ])
            for number, (bus, first, second, numa_node) in enumerate(trees)
        ),
        sources={
            "cpus": sources.ROSA_AWS,
            "memory_mb": sources.ROSA_AWS,
            "numa_nodes": sources.KARPENTER_DRA,
            "roots": sources.KARPENTER_DRA,
            "roots.numa_node": sources.KARPENTER_DRA,
        },
        unknown=("addresses of the EFA adapters, which are left out", "phys_bits"),
    )  # fmt: skip


def _lab(name: str, description: str, roots: Iterable[PcieRoot]) -> Machine:
    parts = tuple(roots)
    return Machine(
        name=name,
        description=description,
        cpus=_LAB_CPUS,
        memory_mb=_LAB_MEMORY_MB,
        numa_nodes=max((root.numa_node or 0) for root in parts) + 1,
        roots=parts,
        sources={"roots": "made up for labs; the boards are real ones"},
    )


def _labs() -> tuple[Machine, ...]:
    return (
        _lab("lab-t4", "a lab machine with one T4", [_root("pci0000:40", 0, [("gpu0", "0000:41:00.0", "nvidia-t4")])]),
        _lab("lab-h100", "a lab machine with one H100", [_root("pci0000:40", 0, [("gpu0", "0000:41:00.0", _H100)])]),
        _lab("lab-b200", "a lab machine with one B200", [_root("pci0000:40", 0, [("gpu0", "0000:41:00.0", _B200)])]),
        _lab("lab-h100-pair", "a lab machine with two H100 on two PCIe roots", [
            _root("pci0000:40", 0, [("gpu0", "0000:41:00.0", _H100)]),
            _root("pci0000:80", 1, [("gpu1", "0000:81:00.0", _H100)]),
        ]),
        _lab("lab-mixed", "a lab machine with an A100, a T4 and a display adapter with a DRM driver", [
            _root("pci0000:40", 0, [("gpu0", "0000:41:00.0", _A100)]),
            _root("pci0000:80", 0, [("gpu1", "0000:81:00.0", "nvidia-t4")]),
            _root("pci0000:c0", 0, [("display0", "0000:c1:00.0", "virtio-gpu")]),
        ]),
    )  # fmt: skip


_ALL = (
    _dgx_a100(),
    _dgx_h100(),
    _dgx_b200(),
    _aws_p4d(),
    _aws_g4dn(),
    _aws_p5(),
    _aws_p6_b200(),
    _oci_gb200(),
    *_labs(),
)

MACHINES: Mapping[str, Machine] = {machine.name: machine for machine in _ALL}
