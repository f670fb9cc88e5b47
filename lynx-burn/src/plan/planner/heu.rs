//! HEU: the best choices for one or two groups of like layers, found exactly.
//!
//! After the idea of Lynx's heuristic: one layer is planned and the plan applied to all of its
//! kind, which is what makes it fast. "Heuristic" refers to that restriction alone; within it
//! nothing is better ([`Cost::rank`](super::Cost::rank)). The layer's worthwhile choices come
//! from `front`; here every division of the stage into two groups is tried with every pair of
//! them, by exposed time, until no pair can be better.

use std::time::Instant;

use super::choice::{LayerGroup, StagePlan};
use super::front::{Label, Limits, Sum, front};
use super::outcome::{Outcome, Planner};
use super::problem::StageProblem;
use super::stage_sum::StageSum;

/// Plans a stage with windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heu {
    /// Whether a stage may be divided into two groups of layers with choices of their own.
    pub two_groups: bool,
}

impl Default for Heu {
    fn default() -> Self {
        Self { two_groups: true }
    }
}

impl Planner for Heu {
    fn name(&self) -> &str {
        "heu"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let began = Instant::now();
        if let Err(error) = problem.validate() {
            return Outcome::Refused {
                reason: error.to_string(),
            };
        }
        let plan = solve(problem, self.two_groups);
        Outcome::of(problem, plan, true, began)
    }
}

/// Exposed time, peak, hosted segments.
pub(super) type Rank = (u64, u64, u64);

#[derive(Clone, Copy)]
struct Best {
    rank: Rank,
    /// Layers of the first group, its label, and the second group's.
    pair: (usize, Label, Label),
}

/// How many beginnings the quick search for a bound follows.
const NARROW: usize = 8;

/// The best plan within the budget or, if there is none, the thriftiest.
pub(super) fn solve(problem: &StageProblem, two_groups: bool) -> StagePlan {
    let search = Search {
        problem,
        two_groups,
        sum: StageSum::new(problem),
    };
    // A quick look at few choices tells how much exposed time need not be exceeded.
    let quick = search.best(&search.fronts(u64::MAX, NARROW), problem.budget.0, None);
    let most = quick.map_or(u64::MAX, |best| best.rank.0);
    let fronts = search.fronts(most, usize::MAX);
    let best = search.best(&fronts, problem.budget.0, quick);
    // Nothing fits only if nothing did at the quick look, so that these are all choices.
    let best = best.or_else(|| search.thriftiest(&fronts));
    // The thriftiest of a problem with at least one segment exists: retaining all is a label.
    best.map_or_else(|| StagePlan { groups: Vec::new() }, |best| search.write(&best))
}

struct Fronts {
    any: Vec<Label>,
    /// For a last group of one layer.
    alone: Vec<Label>,
}

struct Search<'a> {
    problem: &'a StageProblem,
    two_groups: bool,
    sum: StageSum<'a>,
}

/// Without a first group one label stands for it and does not matter.
fn first_group<'a>(fronts: &'a Fronts, seconds: &'a [Label], size: usize) -> &'a [Label] {
    if size == 0 {
        &seconds[..seconds.len().min(1)]
    } else {
        &fronts.any
    }
}

impl Search<'_> {
    fn fronts(&self, exposed: u64, width: usize) -> Fronts {
        let of = |alone| {
            let limits = Limits {
                alone,
                exposed,
                width,
            };
            front(self.problem, &limits)
        };
        Fronts {
            any: of(false),
            alone: of(true),
        }
    }

    fn last_group<'a>(&self, fronts: &'a Fronts, layers: usize) -> &'a [Label] {
        if layers == 1 { &fronts.alone } else { &fronts.any }
    }

    /// The sizes of the first group that are tried; zero means that there is only one.
    fn sizes(&self) -> impl Iterator<Item = usize> + use<> {
        let end = if self.two_groups { self.problem.layers } else { 1 };
        0..end
    }

    fn best(&self, fronts: &Fronts, budget: u64, known: Option<Best>) -> Option<Best> {
        let mut best = known;
        for size in self.sizes() {
            let rest = self.problem.layers - size;
            let seconds = self.last_group(fronts, rest);
            let least = self.sum.least_bytes(seconds, rest);
            let firsts = first_group(fronts, seconds, size);
            for first in firsts {
                let exposed_first = first.get(Sum::Exposed) * size as u64;
                if best.is_some_and(|b| exposed_first > b.rank.0) {
                    break;
                }
                if self.sum.bytes_of(first, size).saturating_add(least) > budget {
                    continue;
                }
                for second in seconds {
                    let exposed = exposed_first + second.get(Sum::Exposed) * rest as u64;
                    if best.is_some_and(|b| exposed > b.rank.0) {
                        break;
                    }
                    let pair = (size, *first, *second);
                    let Some(rank) = self.sum.rank(size, first, second) else {
                        continue;
                    };
                    if rank.1 <= budget && best.is_none_or(|b| rank < b.rank) {
                        best = Some(Best { rank, pair });
                    }
                }
            }
        }
        best
    }

    fn thriftiest(&self, fronts: &Fronts) -> Option<Best> {
        let mut best: Option<Best> = None;
        let key = |rank: Rank| (rank.1, rank.0, rank.2);
        for size in self.sizes() {
            let rest = self.problem.layers - size;
            let seconds = self.last_group(fronts, rest);
            let least = self.sum.least_bytes(seconds, rest);
            let firsts = first_group(fronts, seconds, size);
            for first in firsts {
                let own = self.sum.bytes_of(first, size);
                if best.is_some_and(|b| own.saturating_add(least) > b.rank.1) {
                    continue;
                }
                for second in seconds {
                    let all = own.saturating_add(self.sum.bytes_of(second, rest));
                    if best.is_some_and(|b| all > b.rank.1) {
                        continue;
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

    fn write(&self, best: &Best) -> StagePlan {
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
