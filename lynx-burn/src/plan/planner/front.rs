//! All choices for one layer that could be part of a best plan.
//!
//! What a plan costs is, for a given number of layers of each group, made of sums over a layer's
//! segments ([`Sum`]): exposed time, loads of windows, bytes at a few moments. A layer's choices
//! that are no less in any sum than other choices can be forgotten. The sums are built segment by
//! segment, and among beginnings that end in the same choice the same argument holds, because
//! what a segment adds depends on the choice of the one before it only.

use super::choice::SegmentChoice;
use super::layer::{Mode, Place, is_fed};
use super::problem::StageProblem;
use crate::plan::cluster::Window;

/// The sums over the segments of a layer.
#[derive(Clone, Copy, Debug)]
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
    choices: u128,
    pub(super) sums: [u64; SUMS],
}

/// The limits within which choices are looked for.
pub(super) struct Limits {
    /// Whether the layer is the only one of the last group: then its B windows of "the layer
    /// after" are the head's.
    pub(super) alone: bool,
    /// Exposed time of a step that is known to be reached.
    pub(super) exposed: u64,
    /// The most beginnings to follow, where the best need not be found.
    pub(super) width: usize,
}

const ALL: [SegmentChoice; 9] = [
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

    fn no_more_than(&self, other: &Self) -> bool {
        self.sums.iter().zip(&other.sums).all(|(a, b)| a <= b)
    }
}

/// The labels that no other makes superfluous, by exposed time.
pub(super) fn front(problem: &StageProblem, limits: &Limits) -> Vec<Label> {
    let usable: Vec<usize> = (0..ALL.len())
        .filter(|&code| ALL[code].window().is_none_or(|w| problem.usable(w)))
        .collect();
    let start = Label {
        choices: 0,
        sums: [0; SUMS],
    };
    let mut groups = vec![(SegmentChoice::Retain, vec![start])];
    for segment in 0..problem.segments.len() {
        let mut next = Vec::with_capacity(usable.len());
        for &code in &usable {
            let mut labels = Vec::new();
            for (before, beginnings) in &groups {
                let added = added(problem, segment, *before, ALL[code]);
                for beginning in beginnings {
                    let mut label = *beginning;
                    label.choices |= (code as u128) << (4 * segment);
                    for (sum, more) in label.sums.iter_mut().zip(&added) {
                        *sum += more;
                    }
                    if is_within(problem, limits, &label) {
                        labels.push(label);
                    }
                }
            }
            let mut labels = undominated(labels);
            labels.truncate(limits.width);
            next.push((ALL[code], labels));
        }
        groups = next;
    }
    let mut all: Vec<Label> = groups.into_iter().flat_map(|(_, labels)| labels).collect();
    for label in &mut all {
        // These windows are full or not; nothing else of the stage wants them.
        for sum in [Sum::F1, Sum::F2, Sum::B2] {
            label.sums[sum as usize] = 0;
        }
    }
    undominated(all)
}

/// Sorted by all sums, in order: a label can only be superfluous because of one before it.
fn undominated(mut labels: Vec<Label>) -> Vec<Label> {
    labels.sort_unstable_by(|a, b| a.sums.cmp(&b.sums));
    let mut kept: Vec<Label> = Vec::new();
    for label in labels {
        if !kept.iter().any(|known| known.no_more_than(&label)) {
            kept.push(label);
        }
    }
    kept
}

fn is_within(problem: &StageProblem, limits: &Limits, label: &Label) -> bool {
    let windows = &problem.windows;
    let fits = |sum: Sum, window: Window| {
        let room = windows.capacity(window).unwrap_or_default();
        label.get(sum) <= room.0
    };
    label.get(Sum::Exposed) <= limits.exposed
        && fits(Sum::F1, Window::F1)
        && fits(Sum::F2, Window::F2)
        && fits(Sum::Own, Window::B1)
        && (limits.alone || fits(Sum::Early, Window::B1) && fits(Sum::B2, Window::B2))
        && fits(Sum::Send, Window::Send)
        && fits(Sum::Recv, Window::Recv)
}

/// What a segment adds to the sums when the one before it has that choice.
fn added(
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
    bytes(problem, segment, (before, choice), Mode::Steady, first_sums, &mut add);
    let cool_sums = [Sum::CoolBefore, Sum::CoolFirst, Sum::CoolSecond];
    if bubble {
        bytes(problem, segment, (before, choice), Mode::CoolDown, cool_sums, &mut add);
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
    let remade = tape.saturating_sub(input);
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
            _ => make(place, tape),
        }
    } else {
        make(place, remade);
        hold(input, add);
    }
}
