//! What the machines can do.
//!
//! A [`Cluster`] is one kind of [`Device`], the [`Link`]s between devices of one node and between
//! nodes, and what of each waiting time a device can really use for recomputation
//! ([`Contention`]). It turns work into time. It does not know what a model computes, and it has
//! no topology beyond "same node or not".
//!
//! [`PRESETS`] holds the names of ready-made clusters, read with [`str::parse`]; one's own is a
//! JSON file, see [`Cluster::read`].

mod collective;
mod contention;
mod device;
mod error;
mod json;
mod link;
mod presets;

use serde::{Deserialize, Serialize};

pub use collective::{Collective, CollectiveKind};
pub use contention::{Contention, Window};
pub use device::{Device, Efficiency, ParsePrecisionError, Precision, Tflops};
pub use error::ClusterError;
pub use json::{FileError, JsonError};
pub(in crate::plan) use json::{from_text, read, to_text, write};
pub use link::{Link, LinkKind};
pub use presets::{PRESETS, UnknownCluster};

use crate::units::{Bytes, Nanos};

/// Machines of one kind, joined by two kinds of link.
///
/// Devices are numbered node by node. A tensor-parallel group of `t` ranks holds `t` consecutive
/// devices, and stage `s` of a pipeline is group `s`, as in Megatron-LM: what talks most lies
/// closest together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// What it is called in tables and files.
    pub name: String,
    /// Every device.
    pub device: Device,
    /// Between two devices of one node.
    pub intra_node: Link,
    /// Between two devices of different nodes.
    pub inter_node: Link,
    /// How many devices share a node.
    pub devices_per_node: usize,
    /// What recomputation can use of each kind of window.
    pub contention: Contention,
}

impl Cluster {
    /// The same devices joined by other links: the ranks of a stage by one, stages by the other.
    /// Whoever waits for them has nothing else to do, so windows are whole.
    #[must_use]
    pub fn with_links(self, ranks: usize, collective: Link, pipeline: Link) -> Self {
        Self {
            name: format!("{}, other links", self.name),
            intra_node: collective,
            inter_node: pipeline,
            devices_per_node: ranks.max(1),
            contention: Contention::NONE,
            ..self
        }
    }

    /// The link that carries the collectives of a tensor-parallel group of this many ranks: the
    /// slowest that any of them needs.
    ///
    /// A group is said to lie in one node when nodes can be dealt whole groups. One that does not
    /// divide its node is on the slow link, because some group straddles two nodes.
    pub fn collective_link(&self, ranks: usize) -> &Link {
        if ranks <= 1 || self.devices_per_node.is_multiple_of(ranks) {
            &self.intra_node
        } else {
            &self.inter_node
        }
    }

    /// The link between two stages whose tensor-parallel groups have this many ranks each. Rank
    /// `r` of one stage talks to rank `r` of the other, and the slowest pair counts.
    pub fn pipeline_link(&self, from: usize, to: usize, ranks: usize) -> &Link {
        let (first, last) = (from.min(to), from.max(to));
        let ranks = ranks.max(1);
        let node = |device: Option<usize>| device?.checked_div(self.devices_per_node);
        // All pairs share a node exactly when the outermost two devices do: the pairs' spans
        // overlap, so a border between these two lies inside some pair's span.
        let begin = node(first.checked_mul(ranks));
        let end = node(
            last.checked_mul(ranks)
                .and_then(|device| device.checked_add(ranks - 1)),
        );
        match (begin, end) {
            (Some(begin), Some(end)) if begin == end => &self.intra_node,
            _ => &self.inter_node,
        }
    }

    /// How long a message takes from one stage to another, see [`Cluster::pipeline_link`].
    pub fn transfer_time(&self, bytes: Bytes, from: usize, to: usize, ranks: usize) -> Nanos {
        if from == to {
            return Nanos::ZERO;
        }
        self.pipeline_link(from, to, ranks).transfer_time(bytes)
    }

    /// How long a collective takes among this many tensor-parallel ranks.
    pub fn collective_time(&self, collective: &Collective, ranks: usize) -> Nanos {
        self.collective_link(ranks)
            .collective_time(collective, ranks)
    }

    /// How long collectives take one after the other.
    pub fn collectives_time(&self, collectives: &[Collective], ranks: usize) -> Nanos {
        let times = collectives
            .iter()
            .map(|one| self.collective_time(one, ranks));
        times.sum()
    }
}

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod tests;
