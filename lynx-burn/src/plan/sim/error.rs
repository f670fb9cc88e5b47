//! Why a schedule could not be timed.

use super::window::Window;
use crate::ids::{ChunkId, StageId};
use crate::plan::schedule::{Action, ScheduleError};

/// Costs that do not fit the schedule, or a schedule that cannot run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimError {
    /// The schedule is unsound; deadlocks are among these.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The costs are of another pipeline.
    #[error("costs of {costs} stages are given, but the schedule has {stages}")]
    StageCount {
        /// The stages that have costs.
        costs: usize,
        /// The stages of the schedule, each counted once for every chunk.
        stages: usize,
    },
    /// There is not one link between each two neighbours.
    #[error("{links} links are given, but {stages} stages have {expected}")]
    LinkCount {
        /// The links that have costs.
        links: usize,
        /// The links of the schedule's stages.
        expected: usize,
        /// The stages of the schedule.
        stages: usize,
    },
    /// The sizes are of another step.
    #[error("sizes of {sizes} micro-batches are given, but the schedule has {micro_batches}")]
    SizeCount {
        /// The micro-batches that have a size.
        sizes: usize,
        /// The micro-batches of the schedule.
        micro_batches: usize,
    },
    /// A collective opens a window that its pass does not have.
    #[error(
        "a collective in the {pass} of {} opens window {window}",
        holder(stage, chunk)
    )]
    WrongWindow {
        /// Whose costs are wrong.
        stage: StageId,
        /// On which chunk of it.
        chunk: ChunkId,
        /// Forward or backward.
        pass: &'static str,
        /// The window at fault.
        window: Window,
    },
    /// A forward recomputes.
    #[error("the forward of {} has recompute in it", holder(stage, chunk))]
    RecomputeInForward {
        /// Whose costs are wrong.
        stage: StageId,
        /// On which chunk of it.
        chunk: ChunkId,
    },
    /// Bytes that nobody has taken are freed.
    #[error(
        "the {pass} of {} frees more bytes than its micro-batch holds",
        holder(stage, chunk)
    )]
    FreesMore {
        /// Whose costs are wrong.
        stage: StageId,
        /// On which chunk of it.
        chunk: ChunkId,
        /// Forward or backward.
        pass: &'static str,
    },
    /// The second part of a backward recomputes.
    #[error("the weights' part of {} has recompute in it", holder(stage, chunk))]
    RecomputeInWeight {
        /// Whose costs are wrong.
        stage: StageId,
        /// On which chunk of it.
        chunk: ChunkId,
    },
    /// The schedule splits a backward that has costs only as a whole.
    #[error("{stage} does {action}, but its backward has no costs in two parts")]
    NotSplit {
        /// Whose costs are missing.
        stage: StageId,
        /// The part of a backward.
        action: Action,
    },
    /// A share that is none.
    #[error("recompute can use {factor} of a window {window}: a share is between 0 and 1")]
    Contention {
        /// The window at fault.
        window: Window,
        /// Its factor.
        factor: f64,
    },
    /// The sum of all times of the step leaves no room for exact arithmetic.
    #[error("all times of the step add up to {nanos} ns, more than {}", u64::MAX)]
    TooLong {
        /// The sum, as far as it can be told.
        nanos: u128,
    },
    /// The bytes of a stage leave no room for exact arithmetic.
    #[error("all bytes of {stage} add up to {bytes}, more than {}", i64::MAX)]
    TooLarge {
        /// The stage at fault.
        stage: StageId,
        /// The sum, as far as it can be told.
        bytes: u128,
    },
}

/// A stage, with the chunk where it is not the first.
fn holder(stage: &StageId, chunk: &ChunkId) -> String {
    match chunk {
        ChunkId(0) => stage.to_string(),
        chunk => format!("{stage}, {chunk}"),
    }
}
