//! How many bytes a stage has, action by action.
//!
//! Only what the costs name is counted; when a backend really frees and how its
//! allocator rounds is not known here.

use super::recorder::Recorder;
use crate::ids::StageId;

/// The bytes of one stage, now and at most.
pub(super) struct Meter {
    stage: StageId,
    bytes: u64,
    peak: u64,
}

impl Meter {
    pub(super) fn new<R: Recorder>(stage: StageId, bytes: u64, recorder: &mut R) -> Self {
        recorder.memory(stage, 0, bytes);
        Self {
            stage,
            bytes,
            peak: bytes,
        }
    }

    /// Takes bytes or gives them back. That the sum fits was checked before.
    pub(super) fn change<R: Recorder>(&mut self, bytes: i64, at: u64, recorder: &mut R) {
        if bytes != 0 {
            self.bytes = self.bytes.saturating_add_signed(bytes);
            self.peak = self.peak.max(self.bytes);
            recorder.memory(self.stage, at, self.bytes);
        }
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak
    }
}
