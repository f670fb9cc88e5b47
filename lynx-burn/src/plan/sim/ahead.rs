//! Recompute that is done before its backward begins.
//!
//! Only one backward at a time is worked for: the next in the stage's list, and
//! only once its own forward is over. Which windows are used is for the worker.

use super::order::Done;
use crate::plan::schedule::{Action, Unit};

/// What is left of it on one stage.
#[derive(Default)]
pub(super) struct Pool {
    /// Where the next backward stands in the list, or a place before it.
    upcoming: usize,
    /// What is left for it; `None` before anything was done.
    left: Option<u64>,
}

impl Pool {
    /// What the next backward in the list works on; of a split one, its first
    /// part.
    pub(super) fn next(&mut self, actions: &[Action], done: &Done) -> Option<Unit> {
        // The place only moves forward, so this costs one look at each action.
        loop {
            let action = *actions.get(self.upcoming)?;
            if action.makes_gradient() && !done.has(action) {
                return Some(action.unit());
            }
            self.upcoming += 1;
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
