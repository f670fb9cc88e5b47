//! What can go wrong inside a stage, apart from a panic in the user's model.

use crate::ids::MicroBatchId;
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
}
