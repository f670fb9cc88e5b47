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

mod nvidia;
mod others;

use std::str::FromStr;

use super::{Cluster, Contention, Link, LinkKind};
use crate::units::Nanos;

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
            "a100-40-nvlink" => Ok(nvidia::a100_40_nvlink()),
            "a100-80-nvlink" => Ok(nvidia::a100_80_nvlink()),
            "a100-40-pcie" => Ok(nvidia::a100_40_pcie()),
            "h100-nvlink" => Ok(nvidia::h100_nvlink()),
            "h200" => Ok(nvidia::h200()),
            "ascend-910b" => Ok(others::ascend_910b()),
            "cpu-2-core" => Ok(others::cpu_2_core()),
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

/// A network on which every device can send at this rate.
fn network(gb_s: f64) -> Link {
    Link {
        kind: LinkKind::Network,
        gb_s,
        latency: Nanos(9_600),
    }
}
