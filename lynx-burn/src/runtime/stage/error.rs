//! What can go wrong inside a stage, apart from a panic in the user's model.

use crate::ids::{MicroBatchId, SegmentId};
use crate::runtime::tape::GradientMismatch;

/// A stage that could not do what it was told.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StageError {
    /// A gradient that does not fit.
    #[error(transparent)]
    Gradient(#[from] GradientMismatch),
    /// A segment that is not a function of its input and context.
    #[error(
        "recomputing gave tensors of shapes {found:?} where the first forward gave {expected:?}: \
         a recomputed segment must be a function of its input and context"
    )]
    RecomputeDiffers {
        /// Shapes of the first forward's output.
        expected: Vec<Vec<usize>>,
        /// Shapes of the recomputed output.
        found: Vec<Vec<usize>>,
    },
    /// A backward without its forward.
    #[error("{micro_batch} has no forward whose backward is due")]
    NothingKept {
        /// The micro-batch.
        micro_batch: MicroBatchId,
    },
    /// The chain says that a collective follows a segment, but the segment hands on nothing for it.
    #[error("{segment} is followed by a collective, but hands on no tensor to be summed")]
    NothingToSum {
        /// The segment.
        segment: SegmentId,
    },
    /// The chain says of no collective behind a segment that hands on something for one.
    #[error("{segment} hands on a tensor to be summed, but no collective follows it")]
    UnannouncedSum {
        /// The segment.
        segment: SegmentId,
    },
    /// The ranks do not run the same model.
    #[error(
        "a rank brings tensors of shapes {found:?} to a sum where the first brings {expected:?}"
    )]
    SumsDiffer {
        /// Of the first rank.
        expected: Vec<Vec<usize>>,
        /// Of this one or another.
        found: Vec<Vec<usize>>,
    },
    /// The other ranks are gone. Reported only if none of them said why.
    #[error("another rank of the stage ended")]
    RankEnded,
    /// A sum over the ranks of a stage that has one.
    #[error("{segment} is followed by a sum over ranks, but the stage has one rank")]
    NobodyToSumWith {
        /// The segment.
        segment: SegmentId,
    },
}
