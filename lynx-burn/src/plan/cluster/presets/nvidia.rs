//! Nodes of NVIDIA's GPUs.

use super::{GPU_CONTENTION, network};
use crate::plan::cluster::{Cluster, Device, Efficiency, Link, LinkKind, Tflops};
use crate::units::{Bytes, Nanos};

/// The A100's rates for matrix products, dense: 312 in 16 bits, 19.5 in `f32` (NVIDIA A100 data
/// sheet, 2021).
const A100: Tflops = Tflops {
    bf16: 312.0,
    f16: 312.0,
    f32: 19.5,
};

/// Of which products of bf16 matrices reached 267.9, 0.859 (S. Bekman, "Machine Learning
/// Engineering", table of maximum achievable matmul FLOPS). Half-point: 7.5 µs, our estimate.
const A100_EFFICIENCY: Efficiency = Efficiency {
    best: 0.859,
    half_gflop: 2.0,
};

/// The H100's rates (SXM5), dense: 989.4 in 16 bits, 66.9 in `f32` (NVIDIA H100 Tensor Core GPU
/// architecture white paper).
const H100: Tflops = Tflops {
    bf16: 989.4,
    f16: 989.4,
    f32: 66.9,
};

/// Of which products of bf16 matrices reached 792.1, 0.80 (Bekman, as for the A100). Half-point:
/// 7.5 µs, our estimate.
const H100_EFFICIENCY: Efficiency = Efficiency {
    best: 0.80,
    half_gflop: 6.0,
};

/// Third-generation NVLink: 300 GB/s each way by the data sheet. All-reduces reached 220 as bus
/// bandwidth (nccl-tests issue 228), and NCCL's own model allows 235 at most.
const NVLINK_3: Link = Link {
    kind: LinkKind::NvLink,
    gb_s: 220.0,
    latency: Nanos(3_400),
};

/// Fourth-generation NVLink: 450 GB/s each way by the data sheet, of which NCCL reaches 370 with
/// rings (its developers in nccl-tests issue 212). Reduction inside the switch (NVLink SHARP),
/// which makes all-reduces up to 1.3 times as fast, is not modelled.
const NVLINK_4: Link = Link {
    kind: LinkKind::NvLink,
    gb_s: 370.0,
    latency: Nanos(3_400),
};

/// Eight A100 SXM4 with 40 GB and NVSwitch a node, such as the DGX A100.
///
/// Memory: 42 405 855 232 bytes as the device reports them (documentation of the Paderborn
/// supercomputer's A100 nodes); 1555 GB/s by the data sheet. Network: a 200 Gb/s adapter for every
/// device (DGX A100 data sheet), of which 96 % were reached (nccl-tests issue 119).
pub(super) fn a100_40_nvlink() -> Cluster {
    Cluster {
        name: "a100-40-nvlink".to_owned(),
        device: Device {
            name: "NVIDIA A100 SXM4 40 GB".to_owned(),
            memory: Bytes(42_405_855_232),
            tflops: A100,
            efficiency: A100_EFFICIENCY,
            memory_gb_s: 1555.0,
            memory_efficiency: 0.85,
        },
        intra_node: NVLINK_3,
        inter_node: network(24.0),
        devices_per_node: 8,
        contention: GPU_CONTENTION,
    }
}

/// Eight A100 SXM4 with 80 GB and NVSwitch a node.
///
/// As [`a100_40_nvlink`], but 80 GiB (of which the driver keeps less than 1 %) at 2039 GB/s (data
/// sheet).
pub(super) fn a100_80_nvlink() -> Cluster {
    let smaller = a100_40_nvlink();
    Cluster {
        name: "a100-80-nvlink".to_owned(),
        device: Device {
            name: "NVIDIA A100 SXM4 80 GB".to_owned(),
            memory: Bytes(80 << 30),
            memory_gb_s: 2039.0,
            ..smaller.device
        },
        ..smaller
    }
}

/// Eight A100 cards with 40 GB in the PCI Express slots of a node, without NVLink bridges.
///
/// The data sheet's rates are those of the SXM4 module, but the card may draw 250 W only: bf16
/// products reached 256.4, 0.822 (Bekman). PCIe 4.0 x16 carries 32 GB/s each way; an all-reduce
/// across the host reached 20 as bus bandwidth (nccl-tests issue 178). Network: one 200 Gb/s
/// adapter for the eight devices; our estimate.
pub(super) fn a100_40_pcie() -> Cluster {
    let module = a100_40_nvlink();
    Cluster {
        name: "a100-40-pcie".to_owned(),
        device: Device {
            name: "NVIDIA A100 PCIe 40 GB".to_owned(),
            efficiency: Efficiency {
                best: 0.822,
                ..A100_EFFICIENCY
            },
            ..module.device
        },
        intra_node: Link {
            kind: LinkKind::Pcie,
            gb_s: 20.0,
            latency: Nanos(5_700),
        },
        inter_node: network(3.0),
        ..module
    }
}

/// Eight H100 SXM5 with NVSwitch a node, such as the DGX H100.
///
/// Memory: 81 559 MiB as `nvidia-smi` shows them (nccl issue 1264); 3350 GB/s by the data sheet.
/// Network: a 400 Gb/s adapter for every device (DGX H100 data sheet), at the A100's 96 %.
pub(super) fn h100_nvlink() -> Cluster {
    Cluster {
        name: "h100-nvlink".to_owned(),
        device: Device {
            name: "NVIDIA H100 SXM5 80 GB".to_owned(),
            memory: Bytes(81_559 << 20),
            tflops: H100,
            efficiency: H100_EFFICIENCY,
            memory_gb_s: 3350.0,
            memory_efficiency: 0.85,
        },
        intra_node: NVLINK_4,
        inter_node: network(48.0),
        devices_per_node: 8,
        contention: GPU_CONTENTION,
    }
}

/// Eight H200 SXM with NVSwitch a node.
///
/// As [`h100_nvlink`], but 143 771 MiB as `nvidia-smi` shows them, at 4800 GB/s (NVIDIA H200 data
/// sheet, 2024).
pub(super) fn h200() -> Cluster {
    let smaller = h100_nvlink();
    Cluster {
        name: "h200".to_owned(),
        device: Device {
            name: "NVIDIA H200 SXM 141 GB".to_owned(),
            memory: Bytes(143_771 << 20),
            memory_gb_s: 4800.0,
            ..smaller.device
        },
        ..smaller
    }
}
