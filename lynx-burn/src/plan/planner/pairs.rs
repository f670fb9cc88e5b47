//! Every pair of a layer's worthwhile choices, for every division of a stage into two groups.
//!
//! Sorted so that a search can stop early. What is looked for, and within which limits, is for
//! `heu` to say.

use super::stage_search::{Best, StageSearch};
use super::stage_sum::{Rank, StageSum};
use super::sums::{Label, Sum};

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
pub(super) struct Sorted {
    entries: Vec<Entry>,
}

/// The labels for all groups.
pub(super) struct Fronts {
    pub(super) any: Sorted,
    /// For a last group of one layer.
    pub(super) alone: Sorted,
    /// Whether no label is missing that matters.
    pub(super) complete: bool,
}

impl Sorted {
    pub(super) fn new(
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

impl StageSearch<'_> {
    /// The sizes of the first group that are tried; zero means that there is only one.
    fn sizes(&self) -> impl Iterator<Item = usize> + use<> {
        let end = if self.two_groups {
            self.problem.layers
        } else {
            1
        };
        0..end
    }

    /// The best pair within the budget, or the known one if none is better; whether there was
    /// time to look at all.
    pub(super) fn best(&self, fronts: &Fronts, known: Option<Best>) -> (Option<Best>, bool) {
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
}
