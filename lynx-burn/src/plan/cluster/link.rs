//! What connects two devices, and what messages and collectives cost on it.
//!
//! A message of `S` bytes takes `a + S / B`: latency and bandwidth, the model of Hockney (Parallel
//! Computing 20(3), 1994). The collectives are sums of such messages. `n` is the number of ranks:
//!
//! | collective | algorithm | time | source |
//! |---|---|---|---|
//! | all-reduce | ring | `2 (n-1) (a + S / (n B))` | Patarasuk and Yuan, JPDC 69(2), 2009 |
//! | all-reduce | double tree | `2 ceil(log2 n) a + 2 S / B` | Sanders, Speck and Träff, Parallel Computing 35(12), 2009 |
//! | all-gather, reduce-scatter | ring | `(n-1) (a + S / (n B))` | Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005 |
//!
//! The ring moves the fewest bytes, the tree takes the fewest steps. NCCL's own cost model counts
//! steps and bytes in the same way and takes the algorithm that it predicts to be faster
//! (`src/graph/tuning.cc`), as [`Link::all_reduce_time`] does; the bandwidth that its tests report
//! as `busbw` is the `B` of these formulas (`doc/PERFORMANCE.md` of nccl-tests).

use serde::{Deserialize, Serialize};

use super::collective::{Collective, CollectiveKind};
use crate::units::{Bytes, Nanos};

/// The technology of a link. It decides nothing; tables show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// NVIDIA's NVLink, through a switch.
    NvLink,
    /// Huawei's HCCS.
    Hccs,
    /// PCI Express, through the host.
    Pcie,
    /// InfiniBand or Ethernet.
    Network,
    /// Memory of one process: stages are threads.
    InProcess,
}

/// A link that carries one message at a time in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What it is made of.
    pub kind: LinkKind,
    /// What one device can send through it, in 10^9 bytes a second, while all others send too:
    /// what is reached, not what the data sheet says.
    pub gb_s: f64,
    /// The time of an empty message.
    #[serde(rename = "latency_ns")]
    pub latency: Nanos,
}

impl Link {
    /// A message from one device to another.
    pub fn transfer_time(&self, bytes: Bytes) -> Nanos {
        self.steps(1.0, bytes.0 as f64)
    }

    /// An all-reduce in a ring. One rank has nothing to do.
    pub fn ring_all_reduce_time(&self, bytes: Bytes, ranks: usize) -> Nanos {
        self.ring(2.0, bytes, ranks)
    }

    /// An all-reduce along two binary trees. One rank has nothing to do.
    pub fn tree_all_reduce_time(&self, bytes: Bytes, ranks: usize) -> Nanos {
        if ranks <= 1 {
            return Nanos::ZERO;
        }
        let depth = (usize::BITS - (ranks - 1).leading_zeros()) as f64;
        self.steps(2.0 * depth, 2.0 * bytes.0 as f64)
    }

    /// An all-reduce by the faster of the two algorithms.
    pub fn all_reduce_time(&self, bytes: Bytes, ranks: usize) -> Nanos {
        self.ring_all_reduce_time(bytes, ranks)
            .min(self.tree_all_reduce_time(bytes, ranks))
    }

    /// An all-gather in a ring, of a whole tensor of this size.
    pub fn all_gather_time(&self, bytes: Bytes, ranks: usize) -> Nanos {
        self.ring(1.0, bytes, ranks)
    }

    /// A reduce-scatter in a ring, of a whole tensor of this size.
    pub fn reduce_scatter_time(&self, bytes: Bytes, ranks: usize) -> Nanos {
        self.ring(1.0, bytes, ranks)
    }

    /// Any collective among this many ranks.
    pub fn collective_time(&self, collective: &Collective, ranks: usize) -> Nanos {
        match collective.kind {
            CollectiveKind::AllReduce => self.all_reduce_time(collective.size, ranks),
            CollectiveKind::ReduceScatter => self.reduce_scatter_time(collective.size, ranks),
            CollectiveKind::AllGather => self.all_gather_time(collective.size, ranks),
        }
    }

    /// So many times round the ring, with one part of the tensor in every message.
    fn ring(&self, rounds: f64, bytes: Bytes, ranks: usize) -> Nanos {
        if ranks <= 1 {
            return Nanos::ZERO;
        }
        let steps = rounds * (ranks - 1) as f64;
        self.steps(steps, steps / ranks as f64 * bytes.0 as f64)
    }

    /// So many messages one after the other, with so many bytes in total.
    fn steps(&self, steps: f64, bytes: f64) -> Nanos {
        let moving = Nanos::from_seconds(bytes / (self.gb_s * 1e9));
        self.latency.scaled(steps).saturating_add(moving)
    }
}
