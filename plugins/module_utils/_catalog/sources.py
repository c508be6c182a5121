# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the catalog's figures come from, one text for each public place; private to the collection."""

from __future__ import annotations

PCI_IDS = "pciutils/pciids:pci.ids@c1c12547"
NVIDIA_NAMES = "NVIDIA/open-gpu-kernel-modules:src/nvidia/generated/g_nv_name_released.h@df1c9a3d"
CAPABILITY_LIST = "https://michaelbommarito.com/wiki/programming/tools/gpu-compute-capability (by architecture)"
ROCM_GPU_SPECS = "https://rocm.docs.amd.com/en/7.13.0-preview/reference/gpu-specs.html"
MODAL_MEMORY = "nvidia-smi totals in https://thundergolfer.com/blog/nvidia-gpu-memory-capacity"

_HARDWARE = "NVIDIA/k8s-test-infra:tests/e2e/go/assertions/nvidiasmi/testdata/hardware"

_PROFILES = "NVIDIA/k8s-test-infra:deployments/nvml-mock/helm/nvml-mock/profiles"


def nvidia_smi(board: str) -> str:
    """The stored output of nvidia-smi -q -x from a real board."""
    return f"{_HARDWARE}/qx-{board}.xml@3b2b865d"


def nvml_profile(board: str) -> str:
    """NVIDIA's own answers of a mocked NVML; only the compute capability is taken from them."""
    return f"{_PROFILES}/{board}.yaml@3b2b865d"


LSPCI_T4 = "lspci in https://github.com/cloud-hypervisor/cloud-hypervisor/issues/434"
LSPCI_A10 = (
    "lspci and nvcc -arch=sm_86 in https://stevescargall.com/blog/2024/08/"
    "benchmarking-gpus-measuring-throughput-between-cpu-and-gpu"
)
LSPCI_A30 = "lspci in https://github.com/harvester/harvester/issues/5619"
DMESG_A100_SXM_40 = "kernel log in https://github.com/triton-inference-server/server/issues/4154"
DMESG_A100_PCIE_40 = "kernel log and lspci in https://github.com/kata-containers/kata-containers/pull/4358"
LSPCI_A100_SXM_80 = (
    "lspci and kernel log in https://lore.kernel.org/linux-pci/"
    "CALdZjm7v3WaaS_ispa20PkjUnLq1t1Zdr29wKw_rZkQYExK-3w@mail.gmail.com"
)
LSPCI_A100_PCIE_80 = "lspci in https://github.com/cloud-hypervisor/cloud-hypervisor/pull/5953"
LSHW_L4 = (
    "sizes: lshw of an L4 in public notes on GPU set-up (memory of 16 MiB, 32 GiB and 32 MiB); "
    "registers: as on the L40S of the same family"
)
LSPCI_L4 = "lspci (3D controller, rev a1, subsystem 16ee) in public notes on GPU set-up of Google Cloud VMs"
LSPCI_L40S = "lspci in cloud-hypervisor/cloud-hypervisor:docs/vfio.md@169a6bb8"
LSPCI_L40S_CLASS = "lspci in https://github.com/akash-network/provider-configs/pull/99"
DMESG_H100_SXM = (
    "kernel log of a guest on a DGX H100 in https://lore.kernel.org/kvm/"
    "CAHTA-uZD5_TAZQkxdJRt48T=aPNAKg+x1tgpadv8aDbX5f14vA@mail.gmail.com"
)
CONFIG_H100_SXM = "config space of an H100 in https://topofmind.dev/notes/sysadmin/gpu"
LSPCI_H100_NVL = "lspci of four H100 NVL in https://github.com/fastfetch-cli/fastfetch/issues/1658"
PASSTHROUGH_H200 = "chutesai/sek8s:host-tools/scripts/chutes/guest/gpu/profiles.py (from lspci -vvvnn of an H200 host)"
PASSTHROUGH_B300 = "chutesai/sek8s:host-tools/scripts/chutes/guest/gpu/profiles.py (Region 2 in lspci of a B300 host)"
LSPCI_B200 = "lspci in https://www.ubicloud.com/blog/virtualizing-nvidia-hgx-b200-gpus-with-open-source"
LSPCI_B200_CLASS = "lspci in NVIDIA/gpu-admin-tools:pci/cx7.py@82422cc1"
NVSWITCH_H100 = "chutesai/sek8s:host-tools/scripts/chutes/guest/gpu/profiles.py (class and BAR from lspci -vvvnn)"
NVSWITCH_LISTINGS = "lspci listings of HGX hosts (Bridge [0680], rev a1), such as leptonai/gpud:pkg/nvidia/pci"
LSPCI_P4D = "lspci in https://github.com/aws/aws-ofi-nccl/issues/64"
DMESG_MI210 = "kernel log in https://lore.kernel.org/amd-gfx/87seo3ga1t.fsf@tarshish"
LSPCI_MI300X = "lspci -nnk in ROCm/gpu-operator's guide on GPU virtualization"
DMESG_MI300X = "kernel log in https://github.com/ROCm/legacy-rocm-build/issues/4454 (1002:74A1, revision 00)"
MEMORY_MI300X = "rocm-smi in https://github.com/ROCm/legacy-rocm-build/issues/4750"
LSPCI_MI325X = "lspci in https://github.com/apache/cloudstack/issues/11701"
DMESG_CONNECTX6 = "kernel log of a 15b3:101b in a public support record (class 020700, BAR 0 of 32 MiB, 64 bit)"
MLX5_CLASS = "lspci in NVIDIA/gpu-admin-tools:pci/cx7.py@82422cc1"
EFA_DRIVER = "torvalds/linux:drivers/infiniband/hw/efa/efa_main.c (BAR numbers; the driver tells no sizes)"
QEMU_VIRTIO_GPU = "info pci of QEMU 7.2 with virtio-gpu-pci"
DRANET_P4D = "kubernetes-sigs/dranet:examples/aws_eks_examples/gpu-efa (slices of a p4d)@f258477c"
DRANET_GB200 = "kubernetes-sigs/dranet:examples/oci_oke_examples/BM.GPU.GB200-v3.4 (slices of a GB200 tray)@f258477c"
DRANET_GB300 = "kubernetes-sigs/dranet:examples/azure_aks_examples/gb300 (slices of a GB300 node)@f258477c"
GB200_NVL72 = (
    "https://www.nvidia.com/en-us/data-center/gb200-nvl72 (36 Grace CPUs with 2592 cores and 480 GB each, in 18 trays)"
)
AICR_P5 = "NVIDIA/aicr:docs/conformance/cncf/evidence/secure-accelerator-access.md (slices of two p5)@bc05c6be"
EKS_T4 = (
    "kubectl get resourceslice of Amazon EKS nodes with a T4 each (GPU 0000:00:1e.0 below pci0000:00, driver 580.95.05, "
    "CUDA 13.0), in public notes on DRA with driver 25.3 to 25.8"
)
AWS_G4DN = "openshift/openshift-docs:modules/rosa-sdpolicy-am-aws-compute-types.adoc (g4dn.xlarge: 4 vCPU, 16 GiB)"
MLX5_RDMA = "torvalds/linux:drivers/infiniband/hw/mlx5/main.c (devices are named mlx5_%d)"
LGIP_H200 = "nvidia-smi mig -lgip in https://github.com/NVIDIA/mig-parted/issues/120"
MIG_PLACEMENTS = "placements as on the H100, whose profile ids are the same: "
KARPENTER_DRA = "aws/karpenter-provider-aws:pkg/providers/nvidiadra/zz_generated.nvidiadraresourceslices.go@971ab0b0"
KARPENTER_EFA = "aws/karpenter-provider-aws:pkg/providers/efadra"
TORCHX_AWS = "meta-pytorch/torchx:torchx/specs/named_resources_aws.py"
ROSA_AWS = "https://github.com/openshift/openshift-docs/pull/98009"
EFA_GENERATIONS = (
    "public notes on EFA (efa1 is EFA v2, efa2 is EFA v3); machines of each version: "
    "https://github.com/stas00/ml-engineering/pull/102"
)
DGX_A100_LSPCI = "lspci of a DGX A100 in a public support tool; GPUs also in https://github.com/NVIDIA/nccl/issues/1505"
DGX_A100_HARDWARE = (
    "https://www.hardwaretimes.com/nvidias-ampere-based-dgx-a100-servers-leverage-amd-epyc-rome-cpus-instead-of-intel-xeon "
    "(2 x 64 cores, 1 TB)"
)
DGX_A100_NUMA = "https://github.com/NVIDIA/nccl/issues/1505 (four NUMA nodes a socket)"
DGX_H100_HARDWARE = (
    "https://docs.nvidia.com/dgx-basepod/reference-architecture-infrastructure-foundation-enterprise-ai/latest/"
    "core-components.html (112 cores, 2 TB)"
)
DGX_H100_TOPOLOGY = "nvidia-smi topo -m of a DGX H100 in a public report on Talos Linux (CPUs 0 to 223, two NUMA nodes)"
DGX_B200_HARDWARE = "https://docs.nvidia.com/dgx/dgxb200-user-guide/introduction-to-dgxb200.html (2 x 56 cores, 2 TB)"
DGX_B200_TREE = "PCIe tree in NVIDIA/gpu-admin-tools:pci/cx7.py@82422cc1"
