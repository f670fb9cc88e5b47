//! How a program watches a run without the library printing anything.

use std::time::Instant;

use crate::ids::StageId;
use crate::plan::schedule::Action;
use crate::units::Bytes;

/// One action of one stage, from begin to end.
#[derive(Clone, Copy, Debug)]
pub struct ActionSpan {
    /// The optimizer step.
    pub step: u64,
    /// The stage.
    pub stage: StageId,
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

/// Told of every action, on the stage's own thread: it must be quick.
pub trait Observer: Send + Sync {
    /// An action ended.
    fn action(&self, span: &ActionSpan);
}
