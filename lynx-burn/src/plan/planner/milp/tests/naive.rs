//! A second reading of the rules, object by object and instant by instant: a plan's peak, its
//! exposed time and whether its windows hold, without any of the sums that planners use.

use std::collections::BTreeMap;

use super::super::super::choice::{SegmentChoice, StagePlan};
use super::super::super::problem::StageProblem;
use crate::plan::cluster::Window;

/// What a plan comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Naive {
    pub(super) peak: u64,
    pub(super) exposed_step: u64,
    pub(super) windows_hold: bool,
}

/// The instants of a layer's backward, counted from its beginning.
const SECOND: i64 = 4;
const B1: i64 = 8;
const FIRST: i64 = 12;
const B2: i64 = 16;
const LAYER: i64 = 20;

struct Stage<'a> {
    problem: &'a StageProblem,
    choices: Vec<&'a [SegmentChoice]>,
    cool_down: bool,
}

impl Stage<'_> {
    /// When the backward of a layer begins; that of the last layer at zero.
    fn begin(&self, layer: usize) -> i64 {
        LAYER * (self.choices.len() - 1 - layer) as i64
    }

    /// When a segment's tape is no longer needed.
    fn end(&self, layer: usize, segment: usize) -> i64 {
        let second = segment >= self.problem.split;
        self.begin(layer) + if second { SECOND } else { FIRST }
    }

    /// When it is made anew.
    fn remade(&self, layer: usize, segment: usize) -> Option<i64> {
        let begin = self.begin(layer);
        let second = segment >= self.problem.split;
        let exposed = self.end(layer, segment) - 1;
        Some(match self.choices[layer][segment] {
            SegmentChoice::Retain => return None,
            SegmentChoice::Exposed => exposed,
            SegmentChoice::InWindow(Window::F1) => -905,
            SegmentChoice::InWindow(Window::F2) => -904,
            SegmentChoice::InWindow(Window::Send) => -903,
            SegmentChoice::InWindow(Window::Recv) => -902,
            SegmentChoice::InWindow(Window::Bubble) if self.cool_down => -901,
            SegmentChoice::InWindow(Window::Bubble) => exposed,
            SegmentChoice::InWindow(Window::B1) if second => begin - LAYER + B1,
            SegmentChoice::InWindow(Window::B1) => begin + B1,
            SegmentChoice::InWindow(Window::B2) => begin - LAYER + B2,
        })
    }

    /// Whether the segment before makes its input anew, in time.
    fn is_fed(&self, layer: usize, segment: usize) -> bool {
        let in_time = |cool_down: bool| {
            let choices = self.choices.clone();
            let stage = Stage {
                problem: self.problem,
                choices,
                cool_down,
            };
            match (
                stage.remade(layer, segment - 1),
                stage.remade(layer, segment),
            ) {
                (Some(before), Some(own)) => before <= own,
                _ => false,
            }
        };
        segment > 0
            && self.problem.segments[segment - 1].collective.is_none()
            && in_time(false)
            && in_time(true)
    }

    /// What one segment holds at an instant; long before the backward, as other micro-batches do.
    fn holds(&self, layer: usize, segment: usize, now: i64) -> u64 {
        let cost = &self.problem.segments[segment];
        let (tape, notes) = (cost.tape.0, cost.notes.0);
        let input = cost.kept_input.0 + notes;
        if now > self.end(layer, segment) {
            return 0;
        }
        let Some(remade) = self.remade(layer, segment) else {
            return tape;
        };
        let from = if self.is_fed(layer, segment) {
            self.remade(layer, segment - 1)
        } else {
            Some(i64::MIN)
        };
        let there = from.is_some_and(|from| from <= now);
        if now < remade {
            return if there { input } else { notes };
        }
        // An input that came earlier is a part of the tape, or stays beside a smaller one.
        if from == Some(remade) {
            tape.max(notes)
        } else {
            tape.max(input)
        }
    }

    fn all(&self, now: i64) -> u64 {
        let segments = self.problem.segments.len();
        let places = (0..self.choices.len()).flat_map(|l| (0..segments).map(move |s| (l, s)));
        places
            .map(|(layer, segment)| self.holds(layer, segment, now))
            .sum()
    }

    fn peak(&self, in_flight: u64) -> u64 {
        let problem = self.problem;
        let (before, after) = (problem.before, problem.after);
        let workspace = problem
            .segments
            .iter()
            .map(|s| s.workspace.0)
            .max()
            .unwrap_or(0);
        let waiting = self.all(-2000) + before.tape.0 + after.tape.0;
        let base = problem.fixed.0 + (in_flight - 1) * waiting + before.tape.0;
        let mut peak = base + before.workspace.0;
        // At the head's backward what windows before the backward have made is there.
        peak = peak.max(base + after.tape.0 + after.workspace.0 + self.all(-900));
        for layer in 0..self.choices.len() {
            for moment in [SECOND, FIRST] {
                peak = peak.max(base + workspace + self.all(self.begin(layer) + moment));
            }
        }
        peak
    }

    /// Exposed time of a backward, and whether the windows hold.
    fn times(&self) -> (u64, bool) {
        let (windows, last) = (self.problem.windows, self.choices.len() - 1);
        let mut loads: BTreeMap<(Window, usize), u64> = BTreeMap::new();
        let (mut exposed, mut entry, mut gap) = (0, 0, 0);
        for (layer, choices) in self.choices.iter().enumerate() {
            for (segment, choice) in choices.iter().enumerate() {
                let second = segment >= self.problem.split;
                let time = self.problem.segments[segment].recompute.0;
                let window = match choice {
                    SegmentChoice::Retain => continue,
                    SegmentChoice::Exposed => {
                        exposed += time;
                        continue;
                    }
                    SegmentChoice::InWindow(window) => *window,
                };
                let host = match window {
                    Window::Send | Window::Recv => 0,
                    Window::B2 => layer + 1,
                    Window::B1 if second => layer + 1,
                    _ => layer,
                };
                match window {
                    Window::Bubble if self.cool_down => gap += time,
                    Window::Bubble => exposed += time,
                    _ if host > last => entry += time,
                    _ => *loads.entry((window, host)).or_default() += time,
                }
                if self.cool_down && matches!(window, Window::F1 | Window::F2) {
                    gap += time;
                }
            }
        }
        exposed += u64::saturating_sub(entry, windows.entry.0);
        exposed += u64::saturating_sub(gap, windows.bubble.unwrap_or_default().0);
        let holds = |(&(window, _), &load): (&(Window, usize), &u64)| {
            load <= windows.capacity(window).unwrap_or_default().0
        };
        (exposed, loads.iter().all(holds))
    }
}

/// Reads a plan whose segments are recomputed one by one.
pub(super) fn read(problem: &StageProblem, plan: &StagePlan) -> Naive {
    let stage = |cool_down| Stage {
        problem,
        choices: plan
            .by_layer()
            .map(|group| group.choices.as_slice())
            .collect(),
        cool_down,
    };
    let mut naive = Naive {
        peak: 0,
        exposed_step: 0,
        windows_hold: true,
    };
    let most = problem.in_flight;
    let parts = [
        (false, problem.steady, most),
        (true, problem.cool_down, most.min(problem.cool_down)),
    ];
    for (cool_down, times, in_flight) in parts {
        if times > 0 {
            let stage = stage(cool_down);
            naive.peak = naive.peak.max(stage.peak(in_flight));
            let (exposed, hold) = stage.times();
            naive.exposed_step += exposed * times;
            naive.windows_hold &= hold;
        }
    }
    naive
}
