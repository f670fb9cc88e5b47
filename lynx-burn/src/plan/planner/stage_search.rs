//! The search for a stage's plan: what it needs, and what one look for better plans is.
//!
//! How looks follow each other is for `heu` to say; pairs of labels are compared in `pairs`.

use std::time::Instant;

use super::choice::{LayerGroup, StagePlan};
use super::front::{Limits, front};
use super::pairs::{Fronts, Sorted};
use super::prices::{Aim, Prices, prices};
use super::problem::StageProblem;
use super::space::{Guide, Space};
use super::stage_sum::{Rank, StageSum};
use super::sums::{Label, Sum};

/// A pair and what it costs.
#[derive(Clone, Copy)]
pub(super) struct Best {
    pub(super) rank: Rank,
    /// Layers of the first group, its label, and the second group's.
    pub(super) pair: (usize, Label, Label),
}

/// One stage, and the choices for its layers.
pub(super) struct StageSearch<'a> {
    pub(super) problem: &'a StageProblem,
    pub(super) two_groups: bool,
    pub(super) sum: StageSum<'a>,
    any: Space,
    alone: Space,
    /// When to give up.
    until: Option<Instant>,
}

/// How many beginnings the first look follows.
pub(super) const FIRST_WIDTH: usize = 16;

impl<'a> StageSearch<'a> {
    pub(super) fn new(
        problem: &'a StageProblem,
        (two_groups, windows): (bool, bool),
        until: Option<Instant>,
    ) -> Self {
        let sum = StageSum::new(problem);
        Self {
            problem,
            two_groups,
            any: Space::new(&sum, false, windows),
            alone: Space::new(&sum, true, windows),
            sum,
            until,
        }
    }

    /// The least peak that is not impossible at first sight.
    pub(super) fn floor(&self) -> u64 {
        let layers = self.any.least_bytes() * self.problem.layers as u64;
        self.sum.base() + self.sum.least_tail() + layers
    }

    /// Prices for plans that are to be better than one that exposes so much within this peak.
    pub(super) fn prices(&self, exposed: u64, peak: u64) -> Prices {
        let bytes = peak.saturating_sub(self.sum.base() + self.sum.least_tail());
        let (aim, known) = match exposed {
            0 => (Aim::Bytes, bytes),
            _ => (Aim::Time { bytes }, exposed),
        };
        prices(&self.sum, (&self.any, &self.alone), aim, known as f64)
    }

    /// How much dearer than the cheapest a layer of a plan can be that is no worse than known.
    pub(super) fn gap(&self, prices: &Prices, exposed: u64, peak: u64) -> f64 {
        let known = match exposed {
            0 => peak.saturating_sub(self.sum.base() + self.sum.least_tail()),
            _ => exposed,
        };
        // Sums of floating-point numbers are not exact.
        let known = known as f64;
        let summed = known + self.problem.layers as f64 * prices.any.least.max(prices.alone.least);
        known - prices.bound + summed * 1e-9 + 1.0
    }

    /// What no plan within this peak exposes less than, one being known that exposes so much.
    pub(super) fn bound(&self, exposed: u64, peak: u64) -> u64 {
        if exposed == 0 {
            return 0;
        }
        let prices = self.prices(exposed, peak);
        let least = exposed as f64 - self.gap(&prices, exposed, peak);
        (least.max(0.0) as u64).min(exposed)
    }

    /// Whether a plan may exist that exposes no more than this and peaks no higher.
    pub(super) fn can_reach(&self, prices: &Prices, exposed: u64, peak: u64) -> bool {
        self.gap(prices, exposed, peak) >= 0.0
    }

    /// Looks for better plans than the known one among those that expose no more than this and
    /// peak no higher. Also tells whether there is none that is better still, and whether there
    /// was no time.
    pub(super) fn pass(
        &self,
        (exposed, peak): (u64, u64),
        width: usize,
        prices: (&Prices, f64),
        known: Option<Best>,
    ) -> (Option<Best>, bool, bool) {
        let by_time = |label: &Label, bytes| (label.get(Sum::Exposed), bytes);
        let Some(fronts) = self.sorted_fronts((exposed, peak), width, Some(prices), by_time) else {
            return (known, false, true);
        };
        let (best, done) = self.best(&fronts, known);
        (best, fronts.complete && done, !done)
    }

    pub(super) fn sorted_fronts(
        &self,
        (exposed, peak): (u64, u64),
        width: usize,
        prices: Option<(&Prices, f64)>,
        key: impl Fn(&Label, u64) -> (u64, u64),
    ) -> Option<Fronts> {
        let others = self.floor() - self.any.least_bytes();
        let limits = Limits {
            exposed,
            bytes: peak.saturating_sub(others),
            width,
            guide: None,
            // The first look is short, and something has to be found.
            until: self.until.filter(|_| width > FIRST_WIDTH),
        };
        let mut complete = true;
        let mut of = |space: &Space, guide: Option<&Guide>| {
            let guide = guide.and_then(|guide| Some((guide, prices?.1)));
            let found = front(space, &Limits { guide, ..limits })?;
            complete &= found.complete;
            Some(Sorted::new(found.labels, &self.sum, &key))
        };
        let any = match self.problem.layers {
            1 => Sorted::default(),
            _ => of(&self.any, prices.map(|(p, _)| &p.any))?,
        };
        let alone = if self.two_groups || self.problem.layers == 1 {
            of(&self.alone, prices.map(|(p, _)| &p.alone))?
        } else {
            Sorted::default()
        };
        Some(Fronts {
            any,
            alone,
            complete,
        })
    }

    /// Whether the time is up.
    pub(super) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() > until)
    }

    /// The plan that a pair is.
    pub(super) fn write(&self, best: &Best) -> StagePlan {
        let (size, first, second) = best.pair;
        let segments = self.problem.segments.len();
        let rest = self.problem.layers - size;
        let (first, second) = (first.choices(segments), second.choices(segments));
        if size == 0 || first == second {
            return StagePlan::uniform(self.problem.layers, second);
        }
        StagePlan {
            groups: vec![LayerGroup::new(size, first), LayerGroup::new(rest, second)],
        }
    }
}
