//! The numbers that a plan's cost is made of: sums over the segments of a layer.
//!
//! Everything that `evaluate` computes for one or two groups of layers is, for given numbers of
//! layers, a maximum or a sum of these. What a segment adds depends on its choice and on that of
//! the segment before it only. Nothing is searched here.

use super::choice::SegmentChoice;
use super::layer::{Mode, Place, is_fed};
use super::problem::StageProblem;
use crate::plan::cluster::Window;

/// The sums over the segments of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    /// Exposed time of all backwards of a step.
    Exposed,
    /// Time that goes to the gap before a backward of the cool-down.
    Ahead,
    /// Time that has no window in the last layer.
    Entry,
    F1,
    F2,
    /// Load of B1 by the first half, whose own window it is.
    Own,
    /// Load of B1 by the second half of the layer before.
    Early,
    B2,
    Send,
    Recv,
    Hosted,
    /// Bytes of each micro-batch in flight.
    Held,
    /// Bytes of the current one before its backward.
    Before,
    /// Of those, what the first half holds, with what is made anew for it.
    First,
    /// All of it, with what is made anew for the second half.
    Second,
    /// What is made anew of the second half when the first half of the layer after runs.
    EarlyBytes,
    /// The same three in the cool-down, where it differs.
    CoolBefore,
    CoolFirst,
    CoolSecond,
}

/// How many sums there are.
pub(super) const SUMS: usize = 19;

/// A layer's choices and their sums.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    /// Four bits for each segment.
    pub(super) choices: u128,
    pub(super) sums: [u64; SUMS],
}

/// Every choice; its place is its code in a [`Label`].
pub(super) const ALL: [SegmentChoice; 9] = [
    SegmentChoice::Retain,
    SegmentChoice::Exposed,
    SegmentChoice::InWindow(Window::F1),
    SegmentChoice::InWindow(Window::F2),
    SegmentChoice::InWindow(Window::B1),
    SegmentChoice::InWindow(Window::B2),
    SegmentChoice::InWindow(Window::Send),
    SegmentChoice::InWindow(Window::Recv),
    SegmentChoice::InWindow(Window::Bubble),
];

impl Label {
    /// One of the sums.
    pub(super) fn get(&self, sum: Sum) -> u64 {
        self.sums[sum as usize]
    }

    /// The choice for every segment.
    pub(super) fn choices(&self, segments: usize) -> Vec<SegmentChoice> {
        let at = |segment: usize| ALL[(self.choices >> (4 * segment)) as usize & 15];
        (0..segments).map(at).collect()
    }
}

/// What a segment adds to the sums when the one before it has that choice.
pub(super) fn added(
    problem: &StageProblem,
    segment: usize,
    before: SegmentChoice,
    choice: SegmentChoice,
) -> [u64; SUMS] {
    let mut sums = [0; SUMS];
    let mut add = |sum: Sum, more: u64| sums[sum as usize] += more;
    let cost = &problem.segments[segment];
    let second = segment >= problem.split;
    let time = cost.recompute.0;
    let bubble = problem.usable(Window::Bubble);
    let all = problem.micro_batches();
    match choice {
        SegmentChoice::Retain => {}
        SegmentChoice::Exposed => add(Sum::Exposed, time * all),
        SegmentChoice::InWindow(window) => {
            add(Sum::Hosted, 1);
            match window {
                Window::F1 => add(Sum::F1, time),
                Window::F2 => add(Sum::F2, time),
                Window::B1 if second => {
                    add(Sum::Early, time);
                    add(Sum::Entry, time);
                }
                Window::B1 => add(Sum::Own, time),
                Window::B2 => {
                    add(Sum::B2, time);
                    add(Sum::Entry, time);
                }
                Window::Send => add(Sum::Send, time),
                Window::Recv => add(Sum::Recv, time),
                Window::Bubble => add(Sum::Exposed, time * problem.steady),
            }
            if matches!(window, Window::F1 | Window::F2 | Window::Bubble) {
                if bubble {
                    add(Sum::Ahead, time);
                } else {
                    add(Sum::Exposed, time * problem.cool_down);
                }
            }
        }
    }
    let first_sums = [Sum::Before, Sum::First, Sum::Second];
    bytes(
        problem,
        segment,
        (before, choice),
        Mode::Steady,
        first_sums,
        &mut add,
    );
    let cool_sums = [Sum::CoolBefore, Sum::CoolFirst, Sum::CoolSecond];
    if bubble {
        bytes(
            problem,
            segment,
            (before, choice),
            Mode::CoolDown,
            cool_sums,
            &mut add,
        );
    }
    sums
}

fn bytes(
    problem: &StageProblem,
    segment: usize,
    choices: (SegmentChoice, SegmentChoice),
    mode: Mode,
    [all, first, both]: [Sum; 3],
    add: &mut impl FnMut(Sum, u64),
) {
    let cost = &problem.segments[segment];
    let second = segment >= problem.split;
    let (tape, input) = (cost.tape.0, cost.kept_input.0);
    let (notes, whole) = (cost.notes.0, cost.remade());
    let remade = whole.saturating_sub(input);
    let steady = mode == Mode::Steady;
    let hold = |bytes: u64, add: &mut dyn FnMut(Sum, u64)| {
        if steady {
            add(Sum::Held, bytes);
        }
        add(all, bytes);
        add(both, bytes);
        if !second {
            add(first, bytes);
        }
    };
    let place_of = |choice, second| Place::of(choice, second, mode);
    let Some(place) = place_of(choices.1, second) else {
        hold(tape, add);
        return;
    };
    let mut make = |place: Place, bytes: u64| match (place, second) {
        (Place::Early, _) => {
            if steady {
                add(Sum::EarlyBytes, bytes);
            }
            add(both, bytes);
        }
        (Place::Next, false) => {
            add(both, bytes);
            add(first, bytes);
        }
        (Place::Next | Place::BeforeSecond, _) => add(both, bytes),
        (Place::Own | Place::BeforeFirst, _) => add(first, bytes),
        (_, of_second) => {
            add(all, bytes);
            add(both, bytes);
            if !of_second {
                add(first, bytes);
            }
        }
    };
    if segment > 0 && is_fed(problem, segment, choices) {
        match place_of(choices.0, segment > problem.split) {
            Some(earlier) if earlier < place => {
                make(earlier, input);
                make(place, remade);
            }
            _ => make(place, whole),
        }
        hold(notes, add);
    } else {
        make(place, remade);
        hold(input.saturating_add(notes), add);
    }
}
