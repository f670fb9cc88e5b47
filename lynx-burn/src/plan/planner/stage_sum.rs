//! What two groups of layers cost together, from the sums of one layer of each.
//!
//! The closed form of `evaluate`. Bytes rise from layer to layer within a group, so only the last
//! layer of each group and the first of the second have to be looked at.

use super::problem::StageProblem;
use super::sums::{Label, Sum};
use crate::plan::cluster::Window;

/// Exposed time, peak, hosted segments.
pub(super) type Rank = (u64, u64, u64);

/// The numbers of a stage that do not depend on choices.
pub(super) struct StageSum<'a> {
    problem: &'a StageProblem,
    workspace: u64,
    modes: Vec<Moments>,
    rooms: Rooms,
}

struct Rooms {
    b1: u64,
    send: u64,
    recv: u64,
    bubble: Option<u64>,
}

/// Which sums hold in a part of the step, and how many micro-batches are in flight.
pub(super) struct Moments {
    pub(super) others: u64,
    pub(super) all: Sum,
    pub(super) first: Sum,
    pub(super) second: Sum,
}

impl<'a> StageSum<'a> {
    pub(super) fn new(problem: &'a StageProblem) -> Self {
        let bubble = problem.usable(Window::Bubble);
        let mut modes = Vec::new();
        if problem.steady > 0 {
            modes.push(Moments {
                others: problem.in_flight - 1,
                all: Sum::Before,
                first: Sum::First,
                second: Sum::Second,
            });
        }
        // Without a bubble the cool-down holds what the steady part holds, for fewer in flight.
        if problem.cool_down > 0 && (bubble || problem.steady == 0) {
            let [all, first, second] = if bubble {
                [Sum::CoolBefore, Sum::CoolFirst, Sum::CoolSecond]
            } else {
                [Sum::Before, Sum::First, Sum::Second]
            };
            modes.push(Moments {
                others: problem.in_flight.min(problem.cool_down) - 1,
                all,
                first,
                second,
            });
        }
        let room = |window| problem.windows.capacity(window).unwrap_or_default().0;
        Self {
            problem,
            workspace: problem.workspace().0,
            modes,
            rooms: Rooms {
                b1: room(Window::B1),
                send: room(Window::Send),
                recv: room(Window::Recv),
                bubble: bubble.then(|| room(Window::Bubble)),
            },
        }
    }

    pub(super) fn problem(&self) -> &'a StageProblem {
        self.problem
    }

    pub(super) fn modes(&self) -> &[Moments] {
        &self.modes
    }

    /// What every peak has beside the layers' bytes ([`StageSum::bytes_of`]) and a
    /// [`StageSum::tail`].
    pub(super) fn base(&self) -> u64 {
        let (before, after) = (self.problem.before, self.problem.after);
        let ends = before.tape.0 + after.tape.0;
        self.problem.fixed.0 + self.others().0 * ends + before.tape.0
    }

    /// What a peak has beside at least, if the last layers are like this: the backward of the
    /// head and that of the last layer see all of `base` and the layers' bytes.
    pub(super) fn tail(&self, label: &Label) -> u64 {
        let after = self.problem.after;
        let last = self.modes.first().map_or(0, |mode| {
            let first = label.get(mode.first) + label.get(Sum::EarlyBytes);
            let at = first.max(label.get(mode.second));
            at.saturating_sub(label.get(mode.all))
        });
        (last + self.workspace).max(after.tape.0 + after.workspace.0)
    }

    pub(super) fn least_tail(&self) -> u64 {
        let after = self.problem.after;
        self.workspace.max(after.tape.0 + after.workspace.0)
    }

    /// The rank of `size` layers of the first kind and the rest of the second; `None` if windows
    /// would be too full. With a `size` of zero the first label does not matter.
    pub(super) fn rank(&self, size: usize, first: &Label, second: &Label) -> Option<Rank> {
        let counts = (size as u64, (self.problem.layers - size) as u64);
        self.fits(counts, first, second).then_some(())?;
        let total = |sum: Sum| counts.0 * own(counts.0, first, sum) + counts.1 * second.get(sum);
        let late = second.get(Sum::Entry);
        let late = late.saturating_sub(self.problem.windows.entry.0);
        let mut exposed = total(Sum::Exposed) + late * self.problem.micro_batches();
        if let Some(bubble) = self.rooms.bubble {
            exposed += total(Sum::Ahead).saturating_sub(bubble) * self.problem.cool_down;
        }
        let peaks = self.modes.iter();
        let peak = peaks
            .map(|mode| self.peak(mode, counts, first, second))
            .max();
        Some((exposed, peak.unwrap_or(0), total(Sum::Hosted)))
    }

    fn fits(&self, counts: (u64, u64), first: &Label, second: &Label) -> bool {
        let total = |sum: Sum| counts.0 * own(counts.0, first, sum) + counts.1 * second.get(sum);
        let b1 =
            |early: &Label, own: &Label| early.get(Sum::Early) + own.get(Sum::Own) <= self.rooms.b1;
        total(Sum::Send) <= self.rooms.send
            && total(Sum::Recv) <= self.rooms.recv
            && (counts.0 < 2 || b1(first, first))
            && (counts.0 < 1 || b1(first, second))
            && (counts.1 < 2 || b1(second, second))
    }

    fn peak(&self, mode: &Moments, counts: (u64, u64), first: &Label, second: &Label) -> u64 {
        let (before, after) = (self.problem.before, self.problem.after);
        let held = counts.0 * own(counts.0, first, Sum::Held) + counts.1 * second.get(Sum::Held);
        let ends = before.tape.0 + after.tape.0;
        let base = self.problem.fixed.0 + mode.others * (held + ends) + before.tape.0;
        let early_of = |label: &Label, layers: u64| {
            if layers >= 2 {
                label.get(Sum::EarlyBytes)
            } else {
                0
            }
        };
        let last = |label: &Label, layers: u64| {
            let at_first = label.get(mode.first) + early_of(label, layers);
            (layers - 1) * label.get(mode.all) + at_first.max(label.get(mode.second))
        };
        let mut peak = base + before.workspace.0;
        let mut passed = base;
        if counts.0 > 0 {
            peak = peak.max(passed + last(first, counts.0) + self.workspace);
            passed += counts.0 * first.get(mode.all);
            let border = second.get(mode.first) + first.get(Sum::EarlyBytes);
            peak = peak.max(passed + border + self.workspace);
        }
        peak = peak.max(passed + last(second, counts.1) + self.workspace);
        passed += counts.1 * second.get(mode.all);
        peak.max(passed + after.tape.0 + after.workspace.0)
    }

    /// What a layer holds before the backward, for all micro-batches in flight: a part of the
    /// peak.
    pub(super) fn bytes_of(&self, label: &Label) -> u64 {
        let (others, all) = self.others();
        others * label.get(Sum::Held) + label.get(all)
    }

    /// The micro-batches in flight beside the current one, and the sum of what that one holds.
    pub(super) fn others(&self) -> (u64, Sum) {
        let first = self.modes.first();
        first.map_or((0, Sum::Before), |mode| (mode.others, mode.all))
    }
}

fn own(count: u64, label: &Label, sum: Sum) -> u64 {
    if count == 0 { 0 } else { label.get(sum) }
}
