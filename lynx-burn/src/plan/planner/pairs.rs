//! Every pair of a layer's worthwhile choices, for every division of a stage into two groups.
//!
//! Sorted so that a search can stop early. What is looked for, and within which limits, is for
//! `heu` to say.

use std::time::Instant;

use super::choice::{LayerGroup, StagePlan};
use super::front::{Limits, front};
use super::heu::FIRST_WIDTH;
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
    pair: (usize, Label, Label),
}

/// A label, the bytes of one such layer and the least of all labels up to here, and what a peak
/// has beside the layers' bytes if the last layers are like this.
struct Entry {
    label: Label,
    bytes: u64,
    until: u64,
    tail: u64,
}

/// Labels for some group; none where no group needs them.
#[derive(Default)]
struct Sorted {
    entries: Vec<Entry>,
}

pub(super) struct Fronts {
    any: Sorted,
    /// For a last group of one layer.
    alone: Sorted,
    /// Whether no label is missing that matters.
    pub(super) complete: bool,
}

pub(super) struct Search<'a> {
    problem: &'a StageProblem,
    two_groups: bool,
    sum: StageSum<'a>,
    any: Space,
    alone: Space,
    /// When to give up.
    until: Option<Instant>,
}

impl Sorted {
    fn new(
        labels: Vec<Label>,
        sum: &StageSum<'_>,
        key: impl Fn(&Label, u64) -> (u64, u64),
    ) -> Self {
        let mut entries: Vec<_> = labels
            .into_iter()
            .map(|label| Entry {
                bytes: sum.bytes_of(&label),
                until: 0,
                tail: sum.tail(&label),
                label,
            })
            .collect();
        entries.sort_by_key(|entry| key(&entry.label, entry.bytes));
        let mut least = u64::MAX;
        for entry in &mut entries {
            least = least.min(entry.bytes);
            entry.until = least;
        }
        Self { entries }
    }

    /// From the first label on that holds no more than this.
    fn within(&self, bytes: u64) -> &[Entry] {
        let start = self.entries.partition_point(|entry| entry.until > bytes);
        &self.entries[start..]
    }
}

impl Fronts {
    /// The labels for a last group of this many layers.
    fn last(&self, layers: usize) -> &Sorted {
        if layers == 1 { &self.alone } else { &self.any }
    }

    /// Without a first group one label stands for it and does not matter.
    fn first(&self, layers: usize, rest: usize) -> &[Entry] {
        match layers {
            0 => {
                let entries = &self.last(rest).entries;
                &entries[..entries.len().min(1)]
            }
            _ => &self.any.entries,
        }
    }
}

impl<'a> Search<'a> {
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

    fn sorted_fronts(
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

    /// The sizes of the first group that are tried; zero means that there is only one.
    fn sizes(&self) -> impl Iterator<Item = usize> + use<> {
        let end = if self.two_groups {
            self.problem.layers
        } else {
            1
        };
        0..end
    }

    pub(super) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() > until)
    }

    /// The best pair within the budget, or the known one if none is better; whether there was
    /// time to look at all.
    fn best(&self, fronts: &Fronts, known: Option<Best>) -> (Option<Best>, bool) {
        let mut best = known;
        let budget = self.problem.budget.0;
        for size in self.sizes() {
            let rest = self.problem.layers - size;
            let base = self.sum.base();
            for first in fronts.first(size, rest) {
                if best.is_some() && self.is_late() {
                    return (best, false);
                }
                let exposed_first = first.label.get(Sum::Exposed) * size as u64;
                if best.is_some_and(|b| exposed_first > b.rank.0) {
                    break;
                }
                let own = base + first.bytes * size as u64;
                let Some(left) = budget.checked_sub(own) else {
                    continue;
                };
                for second in fronts.last(rest).within(left / rest as u64) {
                    let exposed = exposed_first + second.label.get(Sum::Exposed) * rest as u64;
                    let layers = own + second.bytes * rest as u64;
                    // By time, then bytes: all that follow are no better than this.
                    if best.is_some_and(|b| (exposed, layers) > (b.rank.0, b.rank.1)) {
                        break;
                    }
                    let peak = layers + second.tail;
                    if peak > budget || best.is_some_and(|b| (exposed, peak) > (b.rank.0, b.rank.1))
                    {
                        continue;
                    }
                    let rank = self.sum.rank(size, &first.label, &second.label);
                    let Some(rank) = rank else { continue };
                    if rank.1 <= budget && best.is_none_or(|b| rank < b.rank) {
                        let pair = (size, first.label, second.label);
                        best = Some(Best { rank, pair });
                    }
                }
            }
        }
        (best, true)
    }

    /// The pair that holds least, if it holds less than the known one; whether there was time to
    /// look at all.
    pub(super) fn thriftiest(&self, width: usize, known: Option<Best>) -> (Option<Best>, bool) {
        let by_bytes = |label: &Label, bytes| (bytes, label.get(Sum::Exposed));
        let mut best = known;
        let most = best.map_or(u64::MAX, |best| best.rank.1);
        let Some(fronts) = self.sorted_fronts((u64::MAX, most), width, None, by_bytes) else {
            return (best, false);
        };
        let key = |rank: Rank| (rank.1, rank.0, rank.2);
        for size in self.sizes() {
            let rest = self.problem.layers - size;
            for first in fronts.first(size, rest) {
                if best.is_some() && self.is_late() {
                    return (best, false);
                }
                let own = self.sum.base() + first.bytes * size as u64;
                if best.is_some_and(|b| own > b.rank.1) {
                    break;
                }
                for second in &fronts.last(rest).entries {
                    let layers = own + second.bytes * rest as u64;
                    if best.is_some_and(|b| layers > b.rank.1) {
                        break;
                    }
                    if best.is_some_and(|b| layers + second.tail > b.rank.1) {
                        continue;
                    }
                    let pair = (size, first.label, second.label);
                    if let Some(rank) = self.sum.rank(size, &first.label, &second.label)
                        && best.is_none_or(|b| key(rank) < key(b.rank))
                    {
                        best = Some(Best { rank, pair });
                    }
                }
            }
        }
        (best, fronts.complete)
    }

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
