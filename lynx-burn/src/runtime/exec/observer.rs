//! How a program watches a run without the library printing anything.

use std::ops::Range;
use std::time::Instant;

use crate::ids::{MicroBatchId, RankId, ReplicaId, SegmentId, StageId};
use crate::plan::cluster::Window;
use crate::plan::schedule::Action;
use crate::plan::sim::Cargo;
use crate::plan::sim::timeline::Awaited;
use crate::runtime::chain::Mode;
use crate::units::Bytes;

/// A run of a schedule over all stages, about to begin.
#[derive(Clone, Copy, Debug)]
pub struct RunStart {
    /// The optimizer step; an evaluation is of the step that comes next.
    pub step: u64,
    /// Training or evaluation.
    pub mode: Mode,
    /// Replicas of the pipeline.
    pub replicas: usize,
    /// Stages of the pipeline.
    pub stages: usize,
    /// Ranks of each stage.
    pub ranks: usize,
    /// Micro-batches of the run, of all replicas together.
    pub micro_batches: usize,
}

/// One action of one stage, from begin to end.
#[derive(Clone, Copy, Debug)]
pub struct ActionSpan {
    /// The optimizer step.
    pub step: u64,
    /// Which replica of the pipeline.
    pub replica: ReplicaId,
    /// The stage.
    pub stage: StageId,
    /// Which of its ranks.
    pub rank: RankId,
    /// What it did.
    pub action: Action,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
    /// Micro-batches between forward and backward on the stage, afterwards.
    pub in_flight: usize,
    /// Bytes of boundaries and tapes that the stage keeps, afterwards.
    pub retained: Bytes,
}

/// Recompute of one run of segments, or the part of it that lies inside one wait or outside all.
#[derive(Clone, Debug)]
pub struct RecomputeSpan {
    /// Which replica of the pipeline.
    pub replica: ReplicaId,
    /// The stage.
    pub stage: StageId,
    /// Which of its ranks.
    pub rank: RankId,
    /// Whose tapes are made.
    pub micro_batch: MicroBatchId,
    /// The segments, of the whole chain.
    pub segments: Range<usize>,
    /// The wait or sum that hides it; nothing if it is exposed.
    pub window: Option<Window>,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
    /// Bytes of boundaries and tapes that the stage keeps when the run's recompute is over.
    pub retained: Bytes,
}

/// A wait of one stage, or the part of it that is of one kind.
#[derive(Clone, Copy, Debug)]
pub struct WaitSpan {
    /// Which replica of the pipeline.
    pub replica: ReplicaId,
    /// The stage.
    pub stage: StageId,
    /// Which of its ranks.
    pub rank: RankId,
    /// Whose message it waits for.
    pub micro_batch: MicroBatchId,
    /// RECV or BUBBLE.
    pub window: Window,
    /// What ends it.
    pub awaited: Awaited,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
}

/// A sum over the ranks of a stage, as one of them sees it.
#[derive(Clone, Copy, Debug)]
pub struct SumSpan {
    /// Which replica of the pipeline.
    pub replica: ReplicaId,
    /// The stage.
    pub stage: StageId,
    /// Which of its ranks.
    pub rank: RankId,
    /// Whose tensors are summed.
    pub micro_batch: MicroBatchId,
    /// The segment whose output it is, or the gradient of whose output.
    pub behind: SegmentId,
    /// F1 or F2 in a forward or a recompute that repeats its sums, B1 or B2 in a backward.
    pub window: Window,
    /// Bytes of the tensors.
    pub bytes: Bytes,
    /// The rank has handed over its part.
    pub begin: Instant,
    /// All ranks have.
    pub complete: Instant,
    /// The sum is there.
    pub end: Instant,
}

/// A message between two stages, told when it is sent.
#[derive(Clone, Copy, Debug)]
pub struct MessageSpan {
    /// Which replica of the pipeline.
    pub replica: ReplicaId,
    /// The stage that sends it.
    pub from: StageId,
    /// The stage that receives it.
    pub to: StageId,
    /// Which of their ranks.
    pub rank: RankId,
    /// What it carries.
    pub cargo: Cargo,
    /// Whose boundary or gradient it is.
    pub micro_batch: MicroBatchId,
    /// Bytes of its tensors.
    pub bytes: Bytes,
    /// It begins to occupy the link.
    pub begin: Instant,
    /// It has left.
    pub left: Instant,
    /// It may be read.
    pub arrive: Instant,
}

/// Told of everything that stages do, on the stage's own thread: it must be quick.
///
/// Micro-batches are counted within their replica, as its schedule counts them.
///
/// Recompute and waits are told when the action that they are a part of is over, before the action
/// itself; recompute before and beside a sum, just before the sum.
pub trait Observer: Send + Sync {
    /// A run begins; no stage has begun yet.
    fn run(&self, _: &RunStart) {}

    /// An action ended.
    fn action(&self, _: &ActionSpan) {}

    /// Segments were recomputed.
    fn recompute(&self, _: &RecomputeSpan) {}

    /// A stage stood still.
    fn wait(&self, _: &WaitSpan) {}

    /// Ranks have summed.
    fn sum(&self, _: &SumSpan) {}

    /// A message was sent.
    fn message(&self, _: &MessageSpan) {}
}
