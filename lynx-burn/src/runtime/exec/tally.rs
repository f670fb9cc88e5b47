//! What a wait hid and what it did not.
//!
//! How long a wait was is known when it is over: the message says when it set out and when it
//! arrived. Recompute that was under way when it arrived is hidden up to that instant and exposed
//! from there on, for it delays what comes next.

use std::ops::Range;
use std::time::Instant;

use crate::plan::cluster::Window;
use crate::runtime::stage::{Rebuilding, StageTimes};
use crate::units::Nanos;

/// The parts of one wait, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited(Vec<(Window, Range<Instant>)>);

/// Recompute, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its place among the rebuildings.
    pub(super) of: usize,
    /// What hides it.
    pub(super) window: Option<Window>,
    pub(super) time: Range<Instant>,
}

impl Waited {
    /// A wait that began at `begin`; each part lasts until an instant, and those that were over
    /// before are none.
    pub(super) fn new(begin: Instant, until: &[(Window, Instant)]) -> Self {
        let mut at = begin;
        let mut parts = Vec::new();
        for &(window, until) in until {
            if until > at {
                parts.push((window, at..until));
                at = until;
            }
        }
        Self(parts)
    }

    /// Ends the wait with its action. A thread wakes up a little after it could: unless it
    /// recomputed meanwhile, it stood still until then.
    pub(super) fn close(mut self, end: Instant, rebuildings: &[Rebuilding]) -> Self {
        if let Some((_, last)) = self.0.last_mut() {
            let overrun = rebuildings.iter().any(|one| one.end > last.end);
            if !overrun {
                last.end = last.end.max(end);
            }
        }
        self
    }

    /// The parts, each of one kind.
    pub(super) fn parts(&self) -> impl Iterator<Item = &(Window, Range<Instant>)> {
        self.0.iter()
    }

    /// Cuts recompute where the wait changes or ends.
    pub(super) fn cut(&self, rebuildings: &[Rebuilding]) -> Vec<Part> {
        let mut parts = Vec::new();
        for (of, one) in rebuildings.iter().enumerate() {
            let mut at = one.begin;
            for (window, wait) in &self.0 {
                let to = one.end.min(wait.end);
                if to > at && at >= wait.start {
                    let (window, time) = (Some(*window), at..to);
                    parts.push(Part { of, window, time });
                    at = to;
                }
            }
            if one.end > at {
                let (window, time) = (None, at..one.end);
                parts.push(Part { of, window, time });
            }
        }
        parts
    }
}

/// Adds a wait, and the recompute of the action that it was a part of.
pub(super) fn add(times: &mut StageTimes, waited: &Waited, parts: &[Part]) {
    let length = |time: &Range<Instant>| Nanos::from(time.end.duration_since(time.start));
    for (window, time) in waited.parts() {
        let waiting = &mut times.waiting[*window];
        *waiting = waiting.saturating_add(length(time));
    }
    for part in parts {
        let sum = match part.window {
            Some(window) => &mut times.hidden[window],
            None => &mut times.exposed,
        };
        *sum = sum.saturating_add(length(&part.time));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::MicroBatchId;
    use crate::units::Bytes;

    fn rebuilding(time: Range<Instant>) -> Rebuilding {
        Rebuilding {
            micro_batch: MicroBatchId(0),
            segments: 0..1,
            begin: time.start,
            end: time.end,
            retained: Bytes(0),
        }
    }

    /// The parts as window, begin and end in microseconds.
    fn cut(
        until: &[(Window, u64)],
        end: u64,
        work: &[Range<u64>],
    ) -> (Vec<(Option<Window>, u64, u64)>, StageTimes) {
        let zero = Instant::now();
        let at = |micros: u64| zero + Duration::from_micros(micros);
        let micros = |instant: Instant| instant.duration_since(zero).as_micros() as u64;
        let until: Vec<_> = until.iter().map(|&(w, t)| (w, at(t))).collect();
        let work: Vec<_> = work
            .iter()
            .map(|time| rebuilding(at(time.start)..at(time.end)))
            .collect();
        let waited = Waited::new(at(10), &until).close(at(end), &work);
        let parts = waited.cut(&work);
        let mut times = StageTimes::default();
        add(&mut times, &waited, &parts);
        let parts = parts
            .iter()
            .map(|part| (part.window, micros(part.time.start), micros(part.time.end)));
        (parts.collect(), times)
    }

    #[test]
    fn recompute_is_hidden_up_to_the_instant_at_which_its_message_arrives() {
        // Sent at 30, readable at 50; recompute from 10 to 25, from 25 to 40, from 40 to 65.
        let until = [(Window::Bubble, 30), (Window::Recv, 50)];
        let (parts, times) = cut(&until, 66, &[10..25, 25..40, 40..65]);
        assert_eq!(
            parts,
            [
                (Some(Window::Bubble), 10, 25),
                (Some(Window::Bubble), 25, 30),
                (Some(Window::Recv), 30, 40),
                (Some(Window::Recv), 40, 50),
                (None, 50, 65),
            ]
        );
        assert_eq!(times.exposed, Nanos(15_000));
        assert_eq!(times.hidden.bubble, Nanos(20_000));
        assert_eq!(times.hidden.recv, Nanos(20_000));
        assert_eq!(times.waiting.bubble, Nanos(20_000));
        assert_eq!(times.waiting.recv, Nanos(20_000));
    }

    #[test]
    fn a_late_awakening_is_waiting_and_a_message_that_was_there_is_not() {
        let (parts, times) = cut(&[(Window::Bubble, 5), (Window::Recv, 50)], 53, &[]);
        assert!(parts.is_empty());
        assert_eq!(times.waiting.recv, Nanos(43_000));
        assert_eq!(times.waiting.bubble, Nanos::ZERO);
        let (_, times) = cut(&[(Window::Bubble, 5), (Window::Recv, 9)], 53, &[]);
        assert_eq!(times, StageTimes::default());
    }

    #[test]
    fn recompute_outside_any_wait_is_exposed() {
        let (parts, times) = cut(&[], 40, &[12..20, 20..39]);
        assert_eq!(parts, [(None, 12, 20), (None, 20, 39)]);
        assert_eq!(times.exposed, Nanos(27_000));
        assert_eq!(times.hidden(), Nanos::ZERO);
    }
}
