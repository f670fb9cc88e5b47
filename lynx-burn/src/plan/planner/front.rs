//! All choices for one layer that could be part of a best plan.
//!
//! A layer's choices that are no less in any [`Sum`] than other choices can be forgotten. The sums
//! are built segment by segment, and among beginnings that end in the same choice the same
//! argument holds.

use super::choice::SegmentChoice;
use super::problem::StageProblem;
use super::sums::{ALL, Label, SUMS, Sum, added};
use crate::plan::cluster::Window;

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
/// A window's load counts only beyond its `slack`.
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
    keyed.sort_unstable_by_key(|keyed| keyed.0);
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
