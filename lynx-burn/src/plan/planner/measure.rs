//! Which numbers of a layer can matter to a stage: what `front` compares choices by.
//!
//! A plan's rank is made of maxima and sums of a layer's [`Sum`]s, but never of each alone: bytes
//! that every micro-batch in flight holds are part of every moment, a load counts only where a
//! window could still become too full, and a window that is not there has none. The fewer numbers
//! there are, the more choices are superfluous.

use super::problem::StageProblem;
use super::stage_sum::{Moments, StageSum};
use super::sums::{SUMS, Sum};
use crate::plan::cluster::Window;

/// A weighted sum that can matter.
pub(super) struct Measure {
    parts: Vec<(u64, Sum)>,
    /// More of it cannot be.
    pub(super) most: u64,
    /// By the number of segments decided: less than this is as good as this, whatever follows.
    pub(super) slack: Vec<u64>,
}

impl Measure {
    pub(super) fn of(&self, sums: &[u64; SUMS]) -> u64 {
        let parts = self.parts.iter();
        parts
            .map(|&(weight, sum)| weight * sums[sum as usize])
            .sum()
    }
}

/// All measures of a stage. The first is exposed time, the second bytes before the backward.
pub(super) fn measures(stage: &StageSum<'_>) -> Vec<Measure> {
    let problem = stage.problem();
    let never = vec![0; problem.segments.len() + 1];
    let (others, all) = stage.others();
    let mut parts = vec![
        vec![(1, Sum::Exposed)],
        vec![(others, Sum::Held), (1, all)],
        vec![(1, Sum::Hosted)],
    ];
    for more in stage.modes().iter().flat_map(moments) {
        if !parts.contains(&more) {
            parts.push(more);
        }
    }
    let plain = |parts| Measure {
        parts,
        most: u64::MAX,
        slack: never.clone(),
    };
    let mut all: Vec<Measure> = parts.into_iter().map(plain).collect();
    all.extend(loads(problem));
    all
}

/// The bytes of a layer that some moment sees together. With `o` other micro-batches in flight a
/// moment sees `o * held` of every layer, all of those not passed, and of one layer what the
/// backward of a half sees, or what the second half has made early for the layer after.
fn moments(mode: &Moments) -> Vec<Vec<(u64, Sum)>> {
    let held = (mode.others, Sum::Held);
    let early = (1, Sum::EarlyBytes);
    vec![
        vec![held],
        vec![held, (1, mode.all)],
        vec![held, (1, mode.first)],
        vec![held, (1, mode.second)],
        vec![held, (1, mode.first), early],
        vec![held, (1, mode.all), early],
    ]
}

/// The loads of windows: how much each may have without ever being too full, whatever the segments
/// that are not decided add, and other layers. B1 is shared by the halves of two layers.
fn loads(problem: &StageProblem) -> Vec<Measure> {
    let time = |from: usize, to: usize| -> u64 {
        let range = problem.segments.get(from..to).unwrap_or_default();
        range.iter().map(|segment| segment.recompute.0).sum()
    };
    let (split, end) = (problem.split, problem.segments.len());
    let room = |window| problem.windows.capacity(window).unwrap_or_default().0;
    let rest = |next: usize| time(next, end);
    let every = |next: usize| time(next, end) + time(0, end) * (problem.layers as u64 - 1);
    let b1 = room(Window::B1);
    let load = |sum: Sum, room: u64, most: u64, more: &dyn Fn(usize) -> u64| Measure {
        parts: vec![(1, sum)],
        most,
        slack: (0..=end)
            .map(|next| room.saturating_sub(more(next)))
            .collect(),
    };
    let full = |sum, room, more: &dyn Fn(usize) -> u64| load(sum, room, room, more);
    vec![
        full(Sum::F1, room(Window::F1), &rest),
        full(Sum::F2, room(Window::F2), &rest),
        full(Sum::Own, b1, &|next| {
            time(next.min(split), split) + time(split, end)
        }),
        full(Sum::Early, b1, &|next| {
            time(next.max(split), end) + time(0, split)
        }),
        full(Sum::B2, room(Window::B2), &rest),
        full(Sum::Send, room(Window::Send), &every),
        full(Sum::Recv, room(Window::Recv), &every),
        // What is too much for these is exposed.
        load(Sum::Entry, problem.windows.entry.0, u64::MAX, &rest),
        load(Sum::Ahead, room(Window::Bubble), u64::MAX, &every),
    ]
}
