//! Nodes of other makers, and a computer without accelerator.

use super::{GPU_CONTENTION, network};
use crate::plan::cluster::{Cluster, Contention, Device, Efficiency, Link, LinkKind, Tflops};
use crate::units::{Bytes, Nanos};

/// Eight Ascend 910B a node, such as the Atlas 800T A2.
///
/// Huawei publishes no data sheet with rates, and others' figures differ (280 to 400 TFLOPS in
/// `f16`, by variant). We take 320, as most reports do, 64 GiB of memory at 1600 GB/s, and call all
/// of them estimates, as are `f32` (a quarter) and the shares (0.75 of products, 0.8 of memory).
/// HCCS: seven links of 56 GB/s for both directions, 392 in total (Atlas 800T A2 technical
/// specifications); a group of four drives three of its links, 84 GB/s each way, of which we take
/// 0.9. A single pair has one link, so transfers between stages are dealt with too kindly. Latency
/// as for PCIe and contention as for a GPU, our estimates. Network: 200 Gb/s for every device.
pub(super) fn ascend_910b() -> Cluster {
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
pub(super) fn cpu_2_core() -> Cluster {
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
