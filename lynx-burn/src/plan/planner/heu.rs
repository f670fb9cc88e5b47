//! HEU: the best choices for one or two groups of like layers, found exactly.
//!
//! After the idea of Lynx's heuristic: one layer is planned and the plan applied to all of its
//! kind, which is what makes it fast. "Heuristic" refers to that restriction alone; within it
//! nothing is better ([`Cost::rank`](super::Cost::rank)), unless a search reaches its limit. The
//! layer's worthwhile choices come from `front`; here every division of the stage into two groups
//! is tried with every pair of them, by exposed time, until no pair can be better.

use std::time::{Duration, Instant};

use super::choice::{SegmentChoice, StagePlan};
use super::outcome::{Outcome, Planner};
use super::pairs::{Best, Search};
use super::problem::StageProblem;

/// Plans a stage with windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heu {
    /// Whether a stage may be divided into two groups of layers with choices of their own.
    pub two_groups: bool,
    /// How long one stage may be thought about. Then the best plan so far is the answer, without
    /// a proof that it is the best. `None` for as long as it takes.
    pub limit: Option<Duration>,
}

impl Heu {
    /// The default limit. A layer of five segments takes a few milliseconds at most, which this
    /// never cuts off; one of more than ten with wide windows could take hours, and its plan is
    /// hardly improved after the first second.
    pub const LIMIT: Duration = Duration::from_secs(1);
}

impl Default for Heu {
    fn default() -> Self {
        Self {
            two_groups: true,
            limit: Some(Self::LIMIT),
        }
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
        let until = self.limit.and_then(|limit| began.checked_add(limit));
        let (plan, exact) = solve(problem, self.two_groups, until);
        Outcome::of(problem, plan, exact, began)
    }
}

/// How many beginnings the first search follows, and how many times as many each one after it.
const FIRST_WIDTH: usize = 8;
const WIDER: usize = 8;

/// The best plan within the budget or, if there is none, the thriftiest; whether that is sure.
pub(super) fn solve(
    problem: &StageProblem,
    two_groups: bool,
    until: Option<Instant>,
) -> (StagePlan, bool) {
    let search = Search::new(problem, (two_groups, true), until);
    let (best, exact) = if search.floor() <= problem.budget.0 {
        search_wider(&search, problem.budget.0)
    } else {
        (None, true)
    };
    if let Some(best) = best {
        return (search.write(&best), exact);
    }
    let (best, sure) = thriftiest(&search, problem, (two_groups, until));
    // Retaining all uses no window: it always is a plan.
    let all = || {
        let retain = vec![SegmentChoice::Retain; problem.segments.len()];
        StagePlan::uniform(problem.layers, retain)
    };
    let plan = best.map_or_else(all, |best| search.write(&best));
    (plan, exact && sure)
}

/// Quick looks at few choices tell what need not be exceeded when looking at more.
fn search_wider(search: &Search<'_>, budget: u64) -> (Option<Best>, bool) {
    let mut best: Option<Best> = None;
    let mut width = FIRST_WIDTH;
    loop {
        let (exposed, peak) = match best {
            // Where nothing need be exposed, more bytes than known are of no use either.
            Some(best) if best.rank.0 == 0 => (0, best.rank.1),
            Some(best) => (best.rank.0, budget),
            None => (u64::MAX, budget),
        };
        let Some(fronts) = search.fronts(exposed, peak, width) else {
            return (best, false);
        };
        let (better, all) = search.best(&fronts, best);
        best = better;
        if !all || fronts.complete {
            return (best, all);
        }
        width = width.saturating_mul(WIDER);
    }
}

/// The plan that holds least.
fn thriftiest(
    search: &Search<'_>,
    problem: &StageProblem,
    (two_groups, until): (bool, Option<Instant>),
) -> (Option<Best>, bool) {
    let narrow = Search::new(problem, (two_groups, false), until);
    let (best, sure) = wider(&narrow, None);
    // Recompute in a window holds no less than exposed recompute, but for one case: it can feed
    // the second half of a layer if no collective lies between the halves.
    let split = problem.split;
    let apart = split == problem.segments.len() || problem.segments[split - 1].collective.is_some();
    if !sure || apart {
        return (best, sure);
    }
    wider(search, best)
}

fn wider(search: &Search<'_>, known: Option<Best>) -> (Option<Best>, bool) {
    let mut best = known;
    let mut width = FIRST_WIDTH;
    loop {
        let (better, sure) = search.thriftiest(width, best);
        best = better;
        if sure || search.is_late() {
            return (best, sure);
        }
        width = width.saturating_mul(WIDER);
    }
}
