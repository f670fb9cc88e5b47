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
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Whether the layer is the only one of the last group: then its B windows of "the layer
    /// after" are the head's.
    pub(super) alone: bool,
    /// Exposed time of a step that is known to be reached.
    pub(super) exposed: u64,
    /// The most bytes of all micro-batches in flight; how many are beside the current one, and
    /// the sum of what that one holds.
    pub(super) bytes: u64,
    pub(super) others: (u64, Sum),
    /// Whether windows may be used.
    pub(super) windows: bool,
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
}

/// The labels that no other makes superfluous, by exposed time.
pub(super) fn front(problem: &StageProblem, limits: &Limits) -> Vec<Label> {
    let usable: Vec<usize> = (0..ALL.len())
        .filter(|&code| {
            let window = ALL[code].window();
            window.is_none_or(|w| limits.windows && problem.usable(w))
        })
        .collect();
    let start = Label {
        choices: 0,
        sums: [0; SUMS],
    };
    let mut groups = vec![(SegmentChoice::Retain, vec![start])];
    let rest = rest_bytes(problem, limits.others);
    // Nothing is left of these windows for the last layer of a stage without a head.
    let no_entry = limits.alone && problem.windows.entry.0 == 0;
    for segment in 0..problem.segments.len() {
        let slack = slack(problem, segment + 1);
        let mut next = Vec::with_capacity(usable.len());
        for &code in &usable {
            let mut labels = Vec::new();
            for (before, beginnings) in &groups {
                let mut added = added(problem, segment, *before, ALL[code]);
                if limits.alone {
                    for sum in [Sum::Early, Sum::B2, Sum::EarlyBytes] {
                        added[sum as usize] = 0;
                    }
                }
                if no_entry {
                    let late = std::mem::take(&mut added[Sum::Entry as usize]);
                    added[Sum::Exposed as usize] += late * problem.micro_batches();
                }
                for beginning in beginnings {
                    let mut label = *beginning;
                    label.choices |= (code as u128) << (4 * segment);
                    for (sum, more) in label.sums.iter_mut().zip(&added) {
                        *sum += more;
                    }
                    let bytes = weigh(&label.sums, limits.others) + rest[segment + 1][code];
                    if bytes <= limits.bytes && is_within(problem, limits, &label) {
                        labels.push(label);
                    }
                }
            }
            let mut labels = undominated(labels, &slack);
            narrow(&mut labels, limits);
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
    undominated(all, &slack(problem, problem.segments.len()))
}

/// The least bytes that a layer can hold, see [`Limits`].
pub(super) fn least_bytes(problem: &StageProblem, others: (u64, Sum)) -> u64 {
    rest_bytes(problem, others)[0][0]
}

/// The least bytes that all segments from one on hold, for every choice (by its place in [`ALL`])
/// of the one before it.
fn rest_bytes(problem: &StageProblem, others: (u64, Sum)) -> Vec<[u64; ALL.len()]> {
    let count = problem.segments.len();
    let mut rest = vec![[0; ALL.len()]; count + 1];
    for segment in (0..count).rev() {
        for before in 0..ALL.len() {
            let usable = |code: &usize| ALL[*code].window().is_none_or(|w| problem.usable(w));
            let with = (0..ALL.len()).filter(usable).map(|code| {
                let sums = added(problem, segment, ALL[before], ALL[code]);
                weigh(&sums, others) + rest[segment + 1][code]
            });
            rest[segment][before] = with.min().unwrap_or(0);
        }
    }
    rest
}

fn weigh(sums: &[u64; SUMS], (count, all): (u64, Sum)) -> u64 {
    count * sums[Sum::Held as usize] + sums[all as usize]
}

/// Keeps the fastest and the thriftiest.
fn narrow(labels: &mut Vec<Label>, limits: &Limits) {
    if labels.len() > limits.width {
        labels.sort_by_key(|label| label.get(Sum::Exposed));
        let slow = &mut labels[limits.width / 2..];
        slow.sort_by_key(|label| weigh(&label.sums, limits.others));
        labels.truncate(limits.width);
    }
}

/// Sorted by all sums, in order: a label can only be superfluous because of one before it.
///
/// A window's load counts as far only as `ahead`, what may still come, could overfill it.
fn undominated(labels: Vec<Label>, slack: &[(Sum, u64)]) -> Vec<Label> {
    let mut keyed: Vec<([u64; SUMS], Label)> = labels
        .into_iter()
        .map(|label| {
            let mut key = label.sums;
            for &(sum, slack) in slack {
                key[sum as usize] = key[sum as usize].saturating_sub(slack);
            }
            (key, label)
        })
        .collect();
    keyed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut kept: Vec<([u64; SUMS], Label)> = Vec::new();
    for (key, label) in keyed {
        let less = |known: &[u64; SUMS]| known.iter().zip(&key).all(|(a, b)| a <= b);
        match kept.iter().position(|(known, _)| less(known)) {
            // What made one superfluous is likely to do so again: it is looked at earlier.
            Some(at) => kept.swap(at, at / 2),
            None => kept.push((key, label)),
        }
    }
    kept.into_iter().map(|(_, label)| label).collect()
}

/// How much load each window may have without ever being too full, whatever the segments from
/// this one on add. B1 is shared by the halves of two layers.
fn slack(problem: &StageProblem, next: usize) -> Vec<(Sum, u64)> {
    let time = |from: usize, to: usize| -> u64 {
        let range = problem.segments.get(from..to).unwrap_or_default();
        range.iter().map(|segment| segment.recompute.0).sum()
    };
    let (split, end) = (problem.split, problem.segments.len());
    let room = |window| problem.windows.capacity(window).unwrap_or_default().0;
    let rest = time(next, end);
    let layers = problem.layers as u64;
    let all = time(0, end) * (layers - 1);
    let b1 = room(Window::B1);
    let slack = [
        (Sum::F1, room(Window::F1), rest),
        (Sum::F2, room(Window::F2), rest),
        (Sum::B2, room(Window::B2), rest),
        (
            Sum::Own,
            b1,
            time(next.min(split), split) + time(split, end),
        ),
        (Sum::Early, b1, time(next.max(split), end) + time(0, split)),
        (Sum::Send, room(Window::Send), rest + all),
        (Sum::Recv, room(Window::Recv), rest + all),
    ];
    let slack = slack.map(|(sum, room, more)| (sum, room.saturating_sub(more)));
    slack.to_vec()
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
        && fits(Sum::Early, Window::B1)
        && fits(Sum::B2, Window::B2)
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
