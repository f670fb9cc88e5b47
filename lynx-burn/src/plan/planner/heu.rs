//! HEU: the best choices for one or two groups of like layers, found exactly.
//!
//! After the idea of Lynx's heuristic: one layer is planned and the plan applied to all of its
//! kind, which is what makes it fast. "Heuristic" refers to that restriction alone; within it
//! nothing is better ([`Cost::rank`](super::Cost::rank)). The layer's worthwhile choices come
//! from `front`; here every division of the stage into two groups is tried with every pair of
//! them, by exposed time, until no pair can be better.

use std::time::Instant;

use super::choice::StagePlan;
use super::front::least_bytes;
use super::outcome::{Outcome, Planner};
use super::pairs::{Best, Search};
use super::problem::StageProblem;

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

/// How many beginnings the searches follow; the last follows all that can be part of a better
/// plan than the one before has found.
const WIDTHS: [usize; 3] = [4, 32, usize::MAX];

/// The best plan within the budget or, if there is none, the thriftiest.
pub(super) fn solve(problem: &StageProblem, two_groups: bool) -> StagePlan {
    let search = Search::new(problem, two_groups);
    let budget = problem.budget.0;
    let least = least_bytes(problem, search.others());
    let layers = problem.layers as u64;
    let floor = (problem.fixed.0).saturating_add(least.saturating_mul(layers));
    let mut best = None;
    if floor <= budget {
        let others = floor - least;
        // Quick looks at few choices tell what need not be exceeded.
        for width in WIDTHS {
            let most = best.map_or(u64::MAX, |best: Best| best.rank.0);
            // Where nothing need be exposed, more bytes than known are of no use either.
            let bytes = best.map_or(budget, |b| if most == 0 { b.rank.1 } else { budget });
            let fronts = search.fronts(most, bytes.saturating_sub(others), width);
            best = search.best(&fronts, best);
        }
    }
    let best = best.or_else(|| {
        let narrow = search.thriftiest(u64::MAX, false, None);
        if !search.windows_can_save() {
            return narrow;
        }
        let bytes = narrow.map_or(u64::MAX, |best| best.rank.1 - (floor - least));
        search.thriftiest(bytes, true, narrow)
    });
    // The thriftiest of a problem with at least one segment exists: retaining all is a label.
    best.map_or_else(
        || StagePlan { groups: Vec::new() },
        |best| search.write(&best),
    )
}
