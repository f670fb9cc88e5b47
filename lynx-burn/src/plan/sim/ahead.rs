//! Recompute that is done before its backward begins.
//!
//! Only one backward at a time is worked for: the next in the stage's list, and
//! only once its own forward is over. Which windows are used is for the worker.

use super::order::Done;
use crate::ids::MicroBatchId;
use crate::plan::schedule::Action;

/// What is left of it on one stage.
#[derive(Default)]
pub(super) struct Pool {
    /// Where the next backward stands in the list, or a place before it.
    upcoming: usize,
    /// What is left for it; `None` before anything was done.
    left: Option<u64>,
}

impl Pool {
    /// The micro-batch that recompute can be done for now.
    pub(super) fn target(&mut self, actions: &[Action], done: &Done) -> Option<MicroBatchId> {
        // The place only moves forward, so this costs one look at each action.
        loop {
            match actions.get(self.upcoming)? {
                Action::Backward(mb) if !done.has(Action::Backward(*mb)) => {
                    return done.has(Action::Forward(*mb)).then_some(*mb);
                }
                _ => self.upcoming += 1,
            }
        }
    }

    /// Does at most `most` of the target's `work`; returns how much, and whether
    /// that was its beginning.
    pub(super) fn draw(&mut self, work: u64, most: u64) -> (u64, bool) {
        let left = self.left.unwrap_or(work);
        let drawn = most.min(left);
        let begins = drawn > 0 && self.left.is_none();
        if drawn > 0 {
            self.left = Some(left - drawn);
        }
        (drawn, begins)
    }

    /// Ends the work ahead of a backward that begins; returns what is left of
    /// `work`, and whether any was done.
    pub(super) fn close(&mut self, work: u64) -> (u64, bool) {
        let begun = self.left.is_some();
        (self.left.take().unwrap_or(work), begun)
    }
}
