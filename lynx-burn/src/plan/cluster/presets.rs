//! Ready-made clusters.
//!
//! Every function says where its figures are from. What stands in a data sheet or was measured in
//! public is cited; the rest is called *our estimate*. Four kinds of figures are estimates
//! throughout, for want of better ones:
//!
//! - the half-point of the efficiency curve: 7.5 µs times the best rate, the launch of a product
//!   and its first and last, partly filled waves;
//! - the share of the memory bandwidth that kernels reach, 0.85;
//! - what recomputation can use of a window, see [`GPU_CONTENTION`];
//! - a network card for every device (SXM nodes) or for every node (PCIe).
//!
//! Latencies are those of NCCL's own cost model, ring algorithm, "simple" protocol: 3.4 µs a step
//! for NVLink, 5.7 µs for PCIe, 9.6 µs for a network (NVIDIA/nccl at commit 01afd20,
//! `src/graph/tuning.cc`, `hwLat`).
//!
//! Rates are those of dense products. `f32` means IEEE single precision, not TF32, which would
//! change results.

use std::str::FromStr;

use super::{Cluster, Contention, Device, Efficiency, Link, LinkKind, Tflops};
use crate::units::{Bytes, Nanos};

/// The names of the ready-made clusters, to be read with [`str::parse`].
pub const PRESETS: [&str; 7] = [
    "a100-40-nvlink",
    "a100-80-nvlink",
    "a100-40-pcie",
    "h100-nvlink",
    "h200",
    "ascend-910b",
    "cpu-2-core",
];

/// A name that no ready-made cluster has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no cluster is named {name:?}; the known ones are {}", PRESETS.join(", "))]
pub struct UnknownCluster {
    name: String,
}

impl FromStr for Cluster {
    type Err = UnknownCluster;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "a100-40-nvlink" => Ok(a100_40_nvlink()),
            "a100-80-nvlink" => Ok(a100_80_nvlink()),
            "a100-40-pcie" => Ok(a100_40_pcie()),
            "h100-nvlink" => Ok(h100_nvlink()),
            "h200" => Ok(h200()),
            "ascend-910b" => Ok(ascend_910b()),
            "cpu-2-core" => Ok(cpu_2_core()),
            _ => Err(UnknownCluster {
                name: name.to_owned(),
            }),
        }
    }
}

/// What recomputation can use of the windows of a GPU; our estimate.
///
/// A collective through NVLink or PCIe runs kernels on the same multiprocessors. On an H100, an
/// all-gather took 24 of the 132, and a product beside it fell from about 80 % of the peak to 47 %
/// (forums.developer.nvidia.com, thread 337991): 0.6 of the speed for an unlucky shape; by the
/// multiprocessors alone it would be 0.8. We take the middle. A device that only waits for another
/// has its multiprocessors to itself but still moves bytes, and nothing runs in a bubble.
const GPU_CONTENTION: Contention = Contention::uniform(0.7, 0.9, 1.0);

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
fn a100_40_nvlink() -> Cluster {
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
fn a100_80_nvlink() -> Cluster {
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
fn a100_40_pcie() -> Cluster {
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
fn h100_nvlink() -> Cluster {
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
fn h200() -> Cluster {
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

/// Eight Ascend 910B a node, such as the Atlas 800T A2.
///
/// Huawei publishes no data sheet with rates, and others' figures differ (280 to 400 TFLOPS in
/// `f16`, by variant). We take 320, as most reports do, 64 GiB of memory at 1600 GB/s, and call all
/// of them estimates, as are `f32` (a quarter) and the shares (0.75 of products, 0.8 of memory).
/// HCCS: seven links of 56 GB/s for both directions, 392 in total (Atlas 800T A2 technical
/// specifications); a group of four drives three of its links, 84 GB/s each way, of which we take
/// 0.9. A single pair has one link, so transfers between stages are dealt with too kindly. Latency
/// as for PCIe and contention as for a GPU, our estimates. Network: 200 Gb/s for every device.
fn ascend_910b() -> Cluster {
    Cluster {
        name: "ascend-910b".to_owned(),
        device: Device {
            name: "Huawei Ascend 910B".to_owned(),
            memory: Bytes(64 << 30),
            tflops: Tflops {
                bf16: 320.0,
                f16: 320.0,
                f32: 80.0,
            },
            efficiency: Efficiency {
                best: 0.75,
                half_gflop: 1.8,
            },
            memory_gb_s: 1600.0,
            memory_efficiency: 0.8,
        },
        intra_node: Link {
            kind: LinkKind::Hccs,
            gb_s: 75.0,
            latency: Nanos(5_700),
        },
        inter_node: network(24.0),
        devices_per_node: 8,
        contention: GPU_CONTENTION,
    }
}

/// One computer with two cores; every device is one of them, because two stages are two threads.
///
/// Burn's Flex backend multiplied `f32` matrices at 80 GFLOP/s with both cores where this was
/// written, so 40 each. All else is our estimate: the same rate in 16 bits, which has no
/// instructions of its own there, 8 GB/s of memory bandwidth and 8 GiB of memory a core, copies
/// between threads at 4 GB/s. Threads that wait use no core, so windows are whole except for the
/// copies; a second computer would hang on gigabit Ethernet.
fn cpu_2_core() -> Cluster {
    Cluster {
        name: "cpu-2-core".to_owned(),
        device: Device {
            name: "CPU core".to_owned(),
            memory: Bytes(8 << 30),
            tflops: Tflops {
                bf16: 0.04,
                f16: 0.04,
                f32: 0.04,
            },
            efficiency: Efficiency {
                best: 1.0,
                half_gflop: 0.001,
            },
            memory_gb_s: 8.0,
            memory_efficiency: 1.0,
        },
        intra_node: Link {
            kind: LinkKind::InProcess,
            gb_s: 4.0,
            latency: Nanos(5_000),
        },
        inter_node: Link {
            kind: LinkKind::Network,
            gb_s: 0.11,
            latency: Nanos(100_000),
        },
        devices_per_node: 2,
        contention: Contention::uniform(0.9, 0.9, 1.0),
    }
}

/// A network on which every device can send at this rate.
fn network(gb_s: f64) -> Link {
    Link {
        kind: LinkKind::Network,
        gb_s,
        latency: Nanos(9_600),
    }
}
