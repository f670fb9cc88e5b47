//! Recompute ahead, one nanosecond after the other.

use super::super::super::window::Window;
use super::World;
use crate::plan::schedule::Action;

impl World<'_> {
    /// The micro-batch whose recompute may be done now, and its whole work.
    fn target(&self, s: usize) -> Option<(usize, u64)> {
        let mut rest = self.schedule.stages[s].iter();
        let backward = rest.find_map(|a| match a {
            Action::Backward(mb) if !self.stages[s].backwards.contains(&mb.0) => Some(mb.0),
            _ => None,
        })?;
        let ready = self.stages[s].forwards.contains(&backward);
        ready.then(|| {
            let work = self.backward_costs(s).1.work.0;
            (backward, self.size(work, backward))
        })
    }

    /// One nanosecond in a window of stage `s`, in which at most `most` is hidden
    /// and whose first room is for what is `busy` there.
    pub(super) fn host(&mut self, s: usize, window: Window, most: u64, busy: u64) {
        let Some((mb, work)) = self.target(s) else {
            return;
        };
        let most = if most == u64::MAX {
            most
        } else {
            self.size(most, mb)
        };
        if self.stages[s].open.is_some_and(|(open, ..)| open != window) {
            self.close_window(s);
        }
        let bytes = self.size(self.backward_costs(s).1.bytes.0, mb);
        let before = self.stages[s].ahead.unwrap_or(work);
        let (_, ticks, before) = self.stages[s].open.unwrap_or((window, 0, before));
        let ticks = ticks + 1;
        let room = self.room(window, ticks).saturating_sub(busy);
        let done = room.min(most).min(before);
        let stage = &mut self.stages[s];
        stage.open = Some((window, ticks, before));
        if done > 0 {
            if stage.ahead.is_none() {
                stage.take(mb, bytes);
            }
            let hidden = stage.figures.hidden.entry(window).or_default();
            *hidden += stage.ahead.unwrap_or(work) - (before - done);
            stage.ahead = Some(before - done);
        }
    }

    pub(super) fn close_window(&mut self, s: usize) {
        self.stages[s].open = None;
    }
}
