//! Why a chain has no profile.

use crate::ids::SegmentId;
use crate::plan::layout::LayoutError;
use crate::plan::profile::ProfileError;
use crate::runtime::exec::error::Cause;
use crate::runtime::exec::position::Place;
use crate::runtime::shard::ShardingError;

/// A chain that could not be measured.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MeasureError {
    /// An option out of range.
    #[error("{option} is {value}, but must lie within {least} and {most}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Its value.
        value: usize,
        /// The least that is accepted.
        least: usize,
        /// The most that is accepted.
        most: usize,
    },
    /// The chain's segments make no sense.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A profile has segments outside layers only at its ends.
    #[error(
        "{segment} ({name}) lies between layers {before} and {after} and belongs to neither: \
         a profile has segments outside layers only before the first and after the last"
    )]
    BetweenLayers {
        /// The segment.
        segment: SegmentId,
        /// Its name.
        name: String,
        /// The layer before it.
        before: usize,
        /// The layer after it.
        after: usize,
    },
    /// The parameters cannot be dealt to the ranks.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// There is no backward to measure.
    #[error("no parameter of the model is trainable")]
    NothingTrainable,
    /// A segment failed.
    #[error(transparent)]
    Segment(Box<SegmentFailure>),
    /// The device did not finish its work.
    #[error("the device failed: {0}")]
    Device(String),
    /// What was measured is no profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// A segment that failed: a panic of the model or of Burn, or a segment that is no function of its
/// input.
#[derive(Debug, Clone, thiserror::Error)]
#[error("measuring {name} failed at {place}: {cause}")]
pub struct SegmentFailure {
    /// The segment's name.
    pub name: String,
    /// Which segment, and what was done to it.
    pub place: Place,
    /// What happened.
    #[source]
    pub cause: Cause,
}
