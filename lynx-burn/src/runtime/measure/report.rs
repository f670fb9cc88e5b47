//! What measuring yields.

use burn::prelude::*;

use super::Spread;
use crate::plan::profile::{ModelProfile, SegmentProfile};
use crate::runtime::memory::Meter;

/// A chain's profile and how sure its figures are. Prints as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// What a planner is told; its times are the medians.
    pub profile: ModelProfile,
    /// Every segment that the profile describes, in its order: embedding, kinds, head.
    pub segments: Vec<MeasuredSegment>,
    /// How tapes, kept inputs and workspace were found.
    pub bytes_from: BytesFrom,
    /// Rounds that count.
    pub repeats: usize,
}

/// One segment of a measured chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredSegment {
    /// Where the profile has it: `embedding`, the name of a kind of layer, or `head`.
    pub part: String,
    /// Its costs, as in the profile.
    pub costs: SegmentProfile,
    /// The forward of a retained segment.
    pub forward: Spread,
    /// The forward that makes a recomputed segment's tape.
    pub recompute: Spread,
    /// The whole backward, with the addition of the parameters' gradients to their sums.
    pub backward: Spread,
}

/// Where bytes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesFrom {
    /// At [`TrackingAllocator`](crate::memory::TrackingAllocator): tapes and kept inputs count
    /// tensors of [`TENSOR_BYTES`](crate::memory::TENSOR_BYTES) and more; the workspace is a peak.
    Allocator,
    /// At the device's memory pool. It tells no peak: the workspace is unknown and stands as 0.
    Pool,
    /// Nowhere. A tape stands as what the segment gets and yields, a kept input as what it gets,
    /// the workspace as 0: guesses, to be replaced before anything is planned with them.
    BoundarySizes,
}

impl BytesFrom {
    pub(super) fn of(device: &Device) -> Self {
        match Meter::of(device) {
            Meter::Thread => Self::Allocator,
            Meter::Pool(_) => Self::Pool,
            Meter::None => Self::BoundarySizes,
        }
    }

    /// Whether tapes and kept inputs were measured.
    pub fn tapes_measured(self) -> bool {
        self != Self::BoundarySizes
    }

    /// Whether the workspace was measured; if not, it is 0 in the profile.
    pub fn workspace_measured(self) -> bool {
        self == Self::Allocator
    }
}
