//! Every pair of a layer's worthwhile choices, for every division of a stage into two groups.
//!
//! Sorted so that a search can stop early. What is looked for, and within which limits, is for
//! `heu` to say.

use super::choice::{LayerGroup, StagePlan};
use super::front::{Limits, front};
use super::problem::StageProblem;
use super::stage_sum::{Rank, StageSum};
use super::sums::{Label, Sum};

/// A pair and what it costs.
#[derive(Clone, Copy)]
pub(super) struct Best {
    pub(super) rank: Rank,
    /// Layers of the first group, its label, and the second group's.
    pair: (usize, Label, Label),
}

/// Labels in some order, with the bytes that one layer holds and the least of them up to there.
struct Sorted {
    labels: Vec<(Label, u64, u64)>,
}

pub(super) struct Fronts {
    any: Sorted,
    /// For a last group of one layer.
    alone: Sorted,
}

pub(super) struct Search<'a> {
    problem: &'a StageProblem,
    two_groups: bool,
    sum: StageSum<'a>,
}

impl Sorted {
    fn new(
        labels: Vec<Label>,
        sum: &StageSum<'_>,
        key: impl Fn(&Label, u64) -> (u64, u64),
    ) -> Self {
        let mut labels: Vec<_> = labels
            .into_iter()
            .map(|label| (label, sum.bytes_of(&label), 0))
            .collect();
        labels.sort_by_key(|(label, bytes, _)| key(label, *bytes));
        let mut least = u64::MAX;
        for (_, bytes, until) in &mut labels {
            least = least.min(*bytes);
            *until = least;
        }
        Self { labels }
    }

    /// From the first label on that holds no more than this.
    fn within(&self, bytes: u64) -> &[(Label, u64, u64)] {
        let start = self.labels.partition_point(|(_, _, until)| *until > bytes);
        &self.labels[start..]
    }
}

impl Fronts {
    /// The labels for a last group of this many layers.
    fn last(&self, layers: usize) -> &Sorted {
        if layers == 1 { &self.alone } else { &self.any }
    }

    /// Without a first group one label stands for it and does not matter.
    fn first(&self, layers: usize, rest: usize) -> &[(Label, u64, u64)] {
        match layers {
            0 => {
                let labels = &self.last(rest).labels;
                &labels[..labels.len().min(1)]
            }
            _ => &self.any.labels,
        }
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(problem: &'a StageProblem, two_groups: bool) -> Self {
        Self {
            problem,
            two_groups,
            sum: StageSum::new(problem),
        }
    }

    /// See [`StageSum::others`].
    pub(super) fn others(&self) -> (u64, Sum) {
        self.sum.others()
    }

    /// The labels within these limits, by time.
    pub(super) fn fronts(&self, exposed: u64, bytes: u64, width: usize) -> Fronts {
        let by_time = |label: &Label, bytes| (label.get(Sum::Exposed), bytes);
        let limits = Limits {
            alone: false,
            exposed,
            bytes,
            others: self.sum.others(),
            windows: true,
            width,
        };
        self.sorted_fronts(limits, by_time)
    }

    /// Recompute in a window holds no less than exposed recompute, but for one case: it can feed
    /// the second half of a layer if no collective lies between the halves.
    pub(super) fn windows_can_save(&self) -> bool {
        let problem = self.problem;
        problem.split < problem.segments.len()
            && problem.segments[problem.split - 1].collective.is_none()
    }

    fn sorted_fronts(&self, limits: Limits, key: impl Fn(&Label, u64) -> (u64, u64)) -> Fronts {
        let of = |alone| {
            let limits = Limits { alone, ..limits };
            Sorted::new(front(self.problem, &limits), &self.sum, &key)
        };
        Fronts {
            any: of(false),
            alone: of(true),
        }
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

    /// The best pair within the budget, or the known one if none is better.
    pub(super) fn best(&self, fronts: &Fronts, known: Option<Best>) -> Option<Best> {
        let mut best = known;
        let Some(budget) = self.problem.budget.0.checked_sub(self.problem.fixed.0) else {
            return best;
        };
        for size in self.sizes() {
            let rest = self.problem.layers - size;
            for (first, bytes, _) in fronts.first(size, rest) {
                let exposed_first = first.get(Sum::Exposed) * size as u64;
                if best.is_some_and(|b| exposed_first > b.rank.0) {
                    break;
                }
                let bytes_first = bytes * size as u64;
                let Some(left) = budget.checked_sub(bytes_first) else {
                    continue;
                };
                for (second, bytes, _) in fronts.last(rest).within(left / rest as u64) {
                    let exposed = exposed_first + second.get(Sum::Exposed) * rest as u64;
                    let peak = bytes_first + bytes * rest as u64 + self.problem.fixed.0;
                    // By time, then bytes: all that follow are no better than this.
                    if best.is_some_and(|b| (exposed, peak) > (b.rank.0, b.rank.1)) {
                        break;
                    }
                    if peak > self.problem.budget.0 {
                        continue;
                    }
                    let pair = (size, *first, *second);
                    let Some(rank) = self.sum.rank(size, first, second) else {
                        continue;
                    };
                    if rank.1 <= self.problem.budget.0 && best.is_none_or(|b| rank < b.rank) {
                        best = Some(Best { rank, pair });
                    }
                }
            }
        }
        best
    }

    /// The pair that holds least.
    pub(super) fn thriftiest(
        &self,
        bytes: u64,
        windows: bool,
        known: Option<Best>,
    ) -> Option<Best> {
        let by_bytes = |label: &Label, bytes| (bytes, label.get(Sum::Exposed));
        let limits = Limits {
            alone: false,
            exposed: u64::MAX,
            bytes,
            others: self.sum.others(),
            windows,
            width: usize::MAX,
        };
        let fronts = self.sorted_fronts(limits, by_bytes);
        let mut best = known;
        let key = |rank: Rank| (rank.1, rank.0, rank.2);
        for size in self.sizes() {
            let rest = self.problem.layers - size;
            for (first, bytes, _) in fronts.first(size, rest) {
                let own = self.problem.fixed.0 + bytes * size as u64;
                if best.is_some_and(|b| own > b.rank.1) {
                    break;
                }
                for (second, bytes, _) in &fronts.last(rest).labels {
                    if best.is_some_and(|b| own + bytes * rest as u64 > b.rank.1) {
                        break;
                    }
                    let pair = (size, *first, *second);
                    if let Some(rank) = self.sum.rank(size, first, second)
                        && best.is_none_or(|b| key(rank) < key(b.rank))
                    {
                        best = Some(Best { rank, pair });
                    }
                }
            }
        }
        best
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
