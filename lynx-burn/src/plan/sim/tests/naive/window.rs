//! Recompute ahead, one nanosecond after the other.

use super::super::super::window::Window;
use super::{Name, World, name};
use crate::plan::schedule::Action;

impl World<'_> {
    /// The backward that comes next in the list, or its first part.
    pub(super) fn next_backward(&self, s: usize) -> Option<Name> {
        let mut list = self.schedule.stages[s].iter();
        list.find_map(|a| match a {
            Action::Backward(_) | Action::BackwardInput(_) => {
                Some(name(*a)).filter(|name| !self.stages[s].backwards.contains(name))
            }
            _ => None,
        })
    }

    /// What recompute may be done for now, and its whole work.
    fn target(&self, s: usize) -> Option<(Name, u64)> {
        let backward = self.next_backward(s)?;
        let ready = self.stages[s].forwards.contains(&backward);
        ready.then(|| {
            let work = self.backward_costs(s, backward).1.work.0;
            (backward, self.size(work, backward.0))
        })
    }

    /// One nanosecond in a window of stage `s`, in which at most `most` is hidden
    /// and whose first room is for what is `busy` there.
    pub(super) fn host(&mut self, s: usize, window: Window, most: u64, busy: u64) {
        let Some((name, work)) = self.target(s) else {
            return;
        };
        let most = if most == u64::MAX {
            most
        } else {
            self.size(most, name.0)
        };
        if self.stages[s].open.is_some_and(|(open, ..)| open != window) {
            self.close_window(s);
        }
        let bytes = self.size(self.backward_costs(s, name).1.bytes.0, name.0);
        let before = self.stages[s].ahead.unwrap_or(work);
        let (_, ticks, before) = self.stages[s].open.unwrap_or((window, 0, before));
        let ticks = ticks + 1;
        let room = self.room(window, ticks).saturating_sub(busy);
        let done = room.min(most).min(before);
        let stage = &mut self.stages[s];
        stage.open = Some((window, ticks, before));
        if done > 0 {
            if stage.ahead.is_none() {
                stage.take(name, bytes);
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
