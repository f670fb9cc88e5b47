//! What a stage reports of a step.

use crate::ids::{RankId, ReplicaId, SegmentId, StageId};
use crate::plan::sim::PerWindow;
use crate::units::{Bytes, Nanos};

/// How long a stage recomputed and waited.
///
/// By the clock of the stage's thread: on a device that computes beside the host, the time in
/// which work was queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Recompute that nothing hid: in a backward, or beyond the end of a wait.
    pub exposed: Nanos,
    /// Recompute inside waits, by what they were for.
    pub hidden: PerWindow<Nanos>,
    /// Standing still: RECV while the message was on its way, BUBBLE while it was not sent yet, or
    /// while a mailbox was full; F1, F2, B1 and B2 while ranks summed, or waited for each other to.
    /// Time in which recompute was hidden is counted here too.
    pub waiting: PerWindow<Nanos>,
    /// Summing gradients over replicas, with the wait for the slowest of them.
    pub reduction: Nanos,
}

/// What a stage reports of a step.
#[derive(Clone, Debug)]
pub struct StageReport {
    /// Of which replica of the pipeline.
    pub replica: ReplicaId,
    /// Which stage.
    pub stage: StageId,
    /// Which of its ranks.
    pub rank: RankId,
    /// The most bytes of boundaries and tapes that were kept at one time.
    pub retained_peak: Bytes,
    /// Bytes kept now: zero between steps.
    pub retained: Bytes,
    /// Whether tapes could be seen. If not, the bytes are those of kept boundaries alone: install
    /// [`TrackingAllocator`](crate::memory::TrackingAllocator) to see them on a CPU.
    pub tapes_measured: bool,
    /// How often each segment was recomputed, from the stage's first segment on.
    pub recomputed: Vec<(SegmentId, u64)>,
    /// How long it recomputed and waited.
    pub times: StageTimes,
}

impl StageTimes {
    /// All hidden recompute.
    pub fn hidden(&self) -> Nanos {
        self.hidden.iter().map(|(_, time)| time).sum()
    }

    /// All waiting.
    pub fn waiting(&self) -> Nanos {
        self.waiting.iter().map(|(_, time)| time).sum()
    }
}
