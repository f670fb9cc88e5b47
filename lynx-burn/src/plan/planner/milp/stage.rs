//! The numbers of a stage as rows of a program want them: scaled, and one label of a layer at a
//! time.
//!
//! A label is one list of choices for a layer with its sums; `front` says which are worthwhile.
//! What a stage costs is linear in which layer has which label, and that is all a MILP needs.

use std::time::Instant;

use super::super::front::{Limits, front};
use super::super::problem::StageProblem;
use super::super::space::Space;
use super::super::stage_sum::StageSum;
pub(super) use super::super::sums::{Label, Sum};
use super::solver::{Program, Var};
use crate::plan::cluster::Window;

/// The labels of a stage and the units they are counted in.
pub(super) struct Stage<'a> {
    pub(super) problem: &'a StageProblem,
    /// For every layer but the last.
    pub(super) any: Vec<Label>,
    /// For the last layer, whose B windows of "the layer after" are the head's.
    pub(super) last: Vec<Label>,
    /// Where a step holds most: the steady part, the cool-down.
    pub(super) modes: Vec<Moments>,
    /// Nanoseconds of exposed time a step that cost one.
    pub(super) cost: f64,
}

/// Which sums hold in a part of the step.
pub(super) struct Moments {
    /// Micro-batches in flight besides the current one.
    others: f64,
    pub(super) all: Sum,
    pub(super) first: Sum,
    pub(super) second: Sum,
    /// Bytes that choices may use; below zero where there are none.
    free: f64,
    /// Bytes that count as one.
    unit: f64,
}

/// Variables that say how many layers have a label: `(variable, label)`.
pub(super) type Uses<'a> = Vec<(Var, &'a Label)>;

impl<'a> Stage<'a> {
    /// No label whose own exposed time exceeds `exposed` is looked at. `None` if the labels are not
    /// found in time.
    pub(super) fn new(
        problem: &'a StageProblem,
        exposed: u64,
        until: Option<Instant>,
    ) -> Option<Self> {
        let sum = StageSum::new(problem);
        let of = |alone| {
            let limits = Limits {
                exposed,
                bytes: u64::MAX,
                width: usize::MAX,
                guide: None,
                until,
            };
            front(&Space::new(&sum, alone, true), &limits).map(|front| front.labels)
        };
        let any = if problem.layers > 1 {
            of(false)?
        } else {
            Vec::new()
        };
        let times = problem.segments.iter().map(|segment| segment.recompute.0);
        let longest = times.max().unwrap_or(0).max(1) as f64;
        Some(Self {
            problem,
            any,
            last: of(true)?,
            modes: modes(problem),
            cost: longest * problem.micro_batches() as f64 / 10.0,
        })
    }

    /// Whether there is a best order of the layers before the last, as far as their bytes go: the
    /// steady part and the cool-down might each have one of their own.
    pub(super) fn has_best_order(&self) -> bool {
        self.modes.len() == 1
    }

    /// What the layers expose, and the windows that they share.
    pub(super) fn add_times(&self, program: &mut Program, uses: &Uses<'_>, last: &Uses<'_>) {
        let all = || uses.iter().chain(last);
        for &(var, label) in all() {
            program.charge(var, label.get(Sum::Exposed) as f64 / self.cost);
        }
        let windows = &self.problem.windows;
        for (window, sum) in [(Window::Send, Sum::Send), (Window::Recv, Sum::Recv)] {
            let room = windows.capacity(window).unwrap_or_default().0 as f64;
            let unit = (room / 1000.0).max(1.0);
            program.at_most(terms(all(), sum, unit), room / unit);
        }
        let late = terms(last.iter(), Sum::Entry, 1.0);
        let all_backwards = self.problem.micro_batches();
        self.add_excess(program, late, windows.entry.0, all_backwards);
        if self.problem.usable(Window::Bubble) {
            let gap = windows.bubble.unwrap_or_default();
            let ahead = terms(all(), Sum::Ahead, 1.0);
            self.add_excess(program, ahead, gap.0, self.problem.cool_down);
        }
    }

    /// What does not fit in the room is exposed.
    fn add_excess(&self, program: &mut Program, work: Vec<(Var, f64)>, room: u64, times: u64) {
        if times == 0 || work.is_empty() {
            return;
        }
        let unit = self.cost / times as f64;
        let excess = program.continuous(f64::INFINITY);
        program.charge(excess, 1.0);
        let mut sum: Vec<_> = work.into_iter().map(|(v, time)| (v, time / unit)).collect();
        sum.push((excess, -1.0));
        program.at_most(sum, room as f64 / unit);
    }

    /// What the program costs, in nanoseconds of a step.
    pub(super) fn exposed(&self, cost: f64) -> u64 {
        // What a solver proves it proves to nine digits or so.
        let nanos = cost * self.cost;
        (nanos - nanos.abs() * 1e-8 - 1e-3).ceil().max(0.0) as u64
    }
}

impl Moments {
    /// What micro-batches in flight hold of these layers, besides the current one.
    pub(super) fn held<'a>(
        &self,
        uses: impl Iterator<Item = &'a (Var, &'a Label)>,
    ) -> Vec<(Var, f64)> {
        if self.others == 0.0 {
            return Vec::new();
        }
        terms(uses, Sum::Held, self.unit / self.others)
    }

    /// A sum of labels in bytes.
    pub(super) fn bytes<'a>(
        &self,
        uses: impl Iterator<Item = &'a (Var, &'a Label)>,
        sum: Sum,
    ) -> Vec<(Var, f64)> {
        terms(uses, sum, self.unit)
    }

    /// A number of bytes.
    pub(super) fn scaled(&self, bytes: u64) -> f64 {
        bytes as f64 / self.unit
    }

    /// What a layer may hold at a moment.
    pub(super) fn room(&self, besides: u64) -> f64 {
        (self.free - besides as f64) / self.unit
    }
}

fn modes(problem: &StageProblem) -> Vec<Moments> {
    let bubble = problem.usable(Window::Bubble);
    let ends = problem.before.tape.0 as f64 + problem.after.tape.0 as f64;
    let mode = |in_flight: u64, [all, first, second]: [Sum; 3]| {
        let others = in_flight as f64 - 1.0;
        let there = problem.fixed.0 as f64 + others * ends + problem.before.tape.0 as f64;
        let free = problem.budget.0 as f64 - there;
        Moments {
            others,
            all,
            first,
            second,
            free,
            unit: (problem.budget.0 as f64 / 1000.0).max(1.0),
        }
    };
    let steady = [Sum::Before, Sum::First, Sum::Second];
    let mut modes = Vec::new();
    if problem.steady > 0 {
        modes.push(mode(problem.in_flight, steady));
    }
    // Without a bubble the cool-down holds what the steady part holds, for fewer in flight.
    if problem.cool_down > 0 && (bubble || problem.steady == 0) {
        let cool_down = [Sum::CoolBefore, Sum::CoolFirst, Sum::CoolSecond];
        let in_flight = problem.in_flight.min(problem.cool_down);
        modes.push(mode(in_flight, if bubble { cool_down } else { steady }));
    }
    modes
}

/// The labels' sums, without zeros.
pub(super) fn terms<'a>(
    uses: impl Iterator<Item = &'a (Var, &'a Label)>,
    sum: Sum,
    unit: f64,
) -> Vec<(Var, f64)> {
    uses.filter(|(_, label)| label.get(sum) > 0)
        .map(|(var, label)| (*var, label.get(sum) as f64 / unit))
        .collect()
}
