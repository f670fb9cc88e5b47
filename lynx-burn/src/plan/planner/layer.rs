//! The bytes of one layer under its choices, by when they are there.
//!
//! A segment holds its kept input until it is recomputed and its tape from then on. The rules are
//! those of `evaluate`, whose sums over layers are made of these.

use super::choice::{LayerGroup, Replay, SegmentChoice};
use super::problem::{SegmentCost, StageProblem};
use crate::plan::cluster::Window;
use crate::units::Bytes;

/// Which backwards of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plan) enum Mode {
    /// Those with a forward before them.
    Steady,
    /// Those after the last forward.
    CoolDown,
}

/// Where in time a segment is recomputed; earlier places are less. For a layer whose backward is
/// M, B1, A: what is long-lived comes before the whole backward, `Early` and `Next` before the
/// layer's own M, in windows B1 and B2 of the layer after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::plan) enum Place {
    F1,
    F2,
    Send,
    Recv,
    Bubble,
    Early,
    Next,
    BeforeSecond,
    Own,
    BeforeFirst,
}

/// One layer. *First* and *second* are its halves; *at* the two is what short-lived recompute has
/// made when their backward runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LayerBytes {
    /// What every micro-batch in flight holds.
    pub(super) held_first: u128,
    pub(super) held_second: u128,
    /// What the current one holds in addition before its backward begins.
    pub(super) long_first: u128,
    pub(super) long_second: u128,
    pub(super) at_first: u128,
    pub(super) at_second: u128,
    /// Of that of the second half, what is there when the first half of the layer after runs.
    pub(super) early: u128,
}

impl Place {
    /// `None` for a retained segment.
    pub(in crate::plan) fn of(choice: SegmentChoice, second: bool, mode: Mode) -> Option<Self> {
        let exposed = if second {
            Self::BeforeSecond
        } else {
            Self::BeforeFirst
        };
        Some(match choice {
            SegmentChoice::Retain => return None,
            SegmentChoice::Exposed => exposed,
            SegmentChoice::InWindow(window) => match window {
                Window::F1 => Self::F1,
                Window::F2 => Self::F2,
                Window::Send => Self::Send,
                Window::Recv => Self::Recv,
                Window::Bubble if mode == Mode::Steady => exposed,
                Window::Bubble => Self::Bubble,
                Window::B1 if second => Self::Early,
                Window::B1 => Self::Own,
                Window::B2 => Self::Next,
            },
        })
    }
}

/// Whether a segment, the second of two neighbours, needs no input from the forward.
pub(super) fn is_fed(
    problem: &StageProblem,
    segment: usize,
    choices: (SegmentChoice, SegmentChoice),
) -> bool {
    let (before, own) = choices;
    let no_later = |mode| {
        let before = Place::of(before, segment > problem.split, mode);
        let own = Place::of(own, segment >= problem.split, mode);
        before.is_some() && before <= own
    };
    problem.segments[segment - 1].collective.is_none()
        && no_later(Mode::Steady)
        && no_later(Mode::CoolDown)
}

/// One segment of a layer whose segments are recomputed one by one.
pub(in crate::plan) struct SegmentBytes {
    /// What it holds from its forward on.
    pub(in crate::plan) held: u64,
    /// What is made anew of it, and where.
    pub(in crate::plan) made: Vec<(Place, u64)>,
}

impl SegmentBytes {
    pub(in crate::plan) fn new(
        problem: &StageProblem,
        choices: &[SegmentChoice],
        index: usize,
        mode: Mode,
    ) -> Self {
        let cost = &problem.segments[index];
        let (tape, input) = (cost.tape.0, cost.kept_input.0);
        let Some(place) = Place::of(choices[index], index >= problem.split, mode) else {
            let made = Vec::new();
            return Self { held: tape, made };
        };
        let (notes, whole) = (cost.notes.0, cost.remade());
        let remade = whole.saturating_sub(input);
        if index == 0 || !is_fed(problem, index, (choices[index - 1], choices[index])) {
            let made = vec![(place, remade)];
            let held = input.saturating_add(notes);
            return Self { held, made };
        }
        let before = Place::of(choices[index - 1], index > problem.split, mode);
        let made = match before {
            Some(earlier) if earlier < place => vec![(earlier, input), (place, remade)],
            _ => vec![(place, whole)],
        };
        Self { held: notes, made }
    }
}

impl LayerBytes {
    /// Of the layer at this place of its group.
    pub(super) fn new(problem: &StageProblem, group: &LayerGroup, at: usize, mode: Mode) -> Self {
        match group.replay {
            Replay::Segments => Self::by_segment(problem, &group.choices, mode),
            Replay::Layers(together) => Self::replayed(problem, group.layers, at, together),
        }
    }

    /// What a micro-batch in flight holds of it.
    pub(super) fn held(&self) -> u128 {
        self.held_first + self.held_second
    }

    /// Of a layer whose segments are recomputed one by one.
    pub(super) fn by_segment(
        problem: &StageProblem,
        choices: &[SegmentChoice],
        mode: Mode,
    ) -> Self {
        let mut sum = Self::default();
        for index in 0..problem.segments.len().min(choices.len()) {
            let second = index >= problem.split;
            let segment = SegmentBytes::new(problem, choices, index, mode);
            *sum.held_of(second) += u128::from(segment.held);
            for (place, bytes) in segment.made {
                sum.add(place, second, u128::from(bytes));
            }
        }
        sum
    }

    /// Of a layer that is replayed with its neighbours: only the first of them holds its input, each its
    /// notes, and when the last one's backward begins all tapes are there. Moments of this layer see the
    /// tapes of those before it.
    fn replayed(problem: &StageProblem, layers: usize, at: usize, together: usize) -> Self {
        let together = together.clamp(1, layers.max(1));
        let place = (at % together) as u128;
        let input = u128::from(problem.segments[0].kept_input.0);
        let sum = |second: bool, bytes: fn(&SegmentCost) -> u64| -> u128 {
            let segments = problem.segments.iter().enumerate();
            segments
                .filter(|(index, _)| (*index >= problem.split) == second)
                .map(|(_, segment)| u128::from(bytes(segment)))
                .sum()
        };
        let notes = [false, true].map(|second| sum(second, |segment| segment.notes.0));
        let [first, second] = [false, true].map(|second| sum(second, SegmentCost::remade));
        let at_first = (place * (first + second) + first).saturating_sub(input);
        Self {
            held_first: notes[0] + if place == 0 { input } else { 0 },
            held_second: notes[1],
            at_first,
            at_second: at_first + second,
            ..Self::default()
        }
    }

    fn add(&mut self, place: Place, second: bool, bytes: u128) {
        match (place, second) {
            (Place::Early, _) => {
                self.early += bytes;
                self.at_second += bytes;
            }
            (Place::Next, false) => {
                self.at_second += bytes;
                self.at_first += bytes;
            }
            (Place::Next | Place::BeforeSecond, _) => self.at_second += bytes,
            (Place::Own | Place::BeforeFirst, _) => self.at_first += bytes,
            (_, true) => self.long_second += bytes,
            (_, false) => self.long_first += bytes,
        }
    }

    fn held_of(&mut self, second: bool) -> &mut u128 {
        if second {
            &mut self.held_second
        } else {
            &mut self.held_first
        }
    }
}

impl StageProblem {
    /// The largest workspace of a segment.
    pub fn workspace(&self) -> Bytes {
        let all = self.segments.iter().map(|segment| segment.workspace);
        all.max().unwrap_or_default()
    }

    /// What the budget leaves for boundaries and tapes: all but what is there all the time and what
    /// is needed for a moment.
    pub fn room(&self) -> Bytes {
        let ends = self.before.workspace.max(self.after.workspace);
        let moment = self.workspace().max(ends);
        let others = self.fixed.0.saturating_add(moment.0);
        Bytes(self.budget.0.saturating_sub(others))
    }

    /// A whole layer's forward with its collectives.
    pub(in crate::plan) fn replayed_layer(&self) -> u128 {
        let times = self.segments.iter();
        times
            .map(|s| u128::from(s.forward.0) + u128::from(s.collective.unwrap_or_default().0))
            .sum()
    }
}
