//! What the simulator is told: the costs of every stage and link.
//!
//! Where these numbers come from is the profile's and the planner's business.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

pub use super::parts::{Ahead, Change, CoolDown, Part, Split, StageCosts};
use crate::plan::cluster::Contention;
use crate::plan::schedule::Shape;
use crate::units::{Bytes, Nanos};

/// The size of an ordinary micro-batch.
pub const ONE: u32 = 1000;

/// One direction of a link. It carries one message at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelCosts {
    /// From the end of sending to the arrival; does not occupy the link.
    pub latency: Nanos,
    /// The bytes of one message.
    pub bytes: Bytes,
    /// Bandwidth; without one, bytes cost no time.
    #[serde(default)]
    pub bytes_per_second: Option<NonZeroU64>,
}

impl ChannelCosts {
    /// How long these bytes occupy the link, rounded up.
    pub(super) fn wire(&self, bytes: u64) -> u64 {
        let Some(bandwidth) = self.bytes_per_second else {
            return 0;
        };
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bandwidth.get()));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Both directions between two neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkCosts {
    /// Boundaries, down the pipeline.
    pub forward: ChannelCosts,
    /// Gradients, up the pipeline.
    pub backward: ChannelCosts,
}

/// All that a schedule is timed with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// One for each stage; where stages hold several chunks, one for each chunk
    /// of each, in the order of the model: first chunk 0 of all stages. The bytes
    /// of a stage's chunks add up.
    pub stages: Vec<StageCosts>,
    /// One for each pair of neighbours: `links[s]` joins stages `s` and `s + 1`.
    /// Where stages hold several chunks, one more joins the last to the first.
    pub links: Vec<LinkCosts>,
    /// How many messages each channel holds from being sent until its receive
    /// ends; 0: a send waits until its receive has begun.
    pub mailbox_capacity: usize,
    /// Whether a stage stands still until its message has left.
    #[serde(default)]
    pub blocking_sends: bool,
    /// How much of each window recompute can use. What a window holds is
    /// [`Contention::capacity`]; the rest takes its time where nothing slows it.
    #[serde(default = "all_of_it")]
    pub contention: Contention,
    /// The size of each micro-batch in thousandths of an ordinary one. It scales
    /// every time but latency, and every byte but static ones. Empty: all 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u32>,
}

fn all_of_it() -> Contention {
    Contention::NONE
}

impl Costs {
    /// These stages with links that cost nothing, mailboxes for one message,
    /// windows that can be used whole, and micro-batches of equal size.
    pub fn with_free_links(stages: Vec<StageCosts>) -> Self {
        Self::in_shape(Shape::plain(stages.len()), stages)
    }

    /// The same for a pipeline whose stages may hold several chunks.
    pub fn in_shape(shape: Shape, stages: Vec<StageCosts>) -> Self {
        Self {
            links: vec![LinkCosts::default(); shape.links()],
            stages,
            mailbox_capacity: 1,
            blocking_sends: false,
            contention: Contention::NONE,
            sizes: Vec::new(),
        }
    }

    /// The size of a micro-batch, in thousandths.
    pub(super) fn size(&self, micro_batch: usize) -> u32 {
        self.sizes.get(micro_batch).copied().unwrap_or(ONE)
    }
}

/// `value` for a micro-batch of this size, rounded down.
pub(super) fn scale(value: u64, size: u32) -> u64 {
    if size == ONE {
        return value;
    }
    let scaled = u128::from(value) * u128::from(size) / u128::from(ONE);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
