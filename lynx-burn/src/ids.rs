//! Indices that must not be confused with each other.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub usize);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A stage of the pipeline, counted from the input.
    StageId,
    "stage"
);
id!(
    /// A data-parallel replica of the whole pipeline.
    ReplicaId,
    "replica"
);
id!(
    /// A tensor-parallel rank of a stage.
    RankId,
    "rank"
);
id!(
    /// A micro-batch of one step.
    MicroBatchId,
    "micro-batch"
);
id!(
    /// One of the chunks of the model that a stage holds, counted from the input.
    ///
    /// Only the stages of an interleaved pipeline hold more than chunk 0.
    ChunkId,
    "chunk"
);
id!(
    /// A segment of the whole chain, counted from the input, whatever stage it is on.
    SegmentId,
    "segment"
);
