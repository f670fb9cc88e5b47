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

use super::problem::StageProblem;
use super::stage_search::{Best, FIRST_WIDTH, StageSearch};
use crate::units::Nanos;

/// Plans a stage with windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heu {
    /// Whether a stage may be divided into two groups of layers with choices of their own.
    pub two_groups: bool,
    /// How long one stage may be thought about. Then the best plan so far is the answer, with
    /// a bound that is proven and not reached. `None` for as long as it takes.
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
        let (plan, proof) = solve(problem, self.two_groups, until);
        let mut outcome = Outcome::of(problem, plan, proof == Proof::Optimal, began);
        if let (Outcome::Feasible(found), Proof::Bound(bound)) = (&mut outcome, proof) {
            found.bound = Some(Nanos(bound));
        }
        outcome
    }

    /// A plan for one layer less is made by leaving one out: no window is fuller then, and what
    /// has no window is exposed.
    fn needs_more_for_more_layers(&self) -> bool {
        true
    }
}

/// How many times as many beginnings each look follows as the one before it.
const WIDER: usize = 8;

/// What is known of plans that were not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// None is better.
    Optimal,
    /// None exposes less than this in a step.
    Bound(u64),
}

/// The best plan within the budget or, if there is none, the thriftiest.
pub(super) fn solve(
    problem: &StageProblem,
    two_groups: bool,
    until: Option<Instant>,
) -> (StagePlan, Proof) {
    let search = StageSearch::new(problem, (two_groups, true), until);
    let budget = problem.budget.0;
    let (best, exact) = if search.floor() <= budget {
        search_wider(&search, budget)
    } else {
        (None, true)
    };
    if let Some(best) = best {
        let proof = match exact {
            true => Proof::Optimal,
            false => Proof::Bound(search.bound(best.rank.0, budget)),
        };
        return (search.write(&best), proof);
    }
    // Retaining all uses no window: it always is a plan.
    let all = || {
        let retain = vec![SegmentChoice::Retain; problem.segments.len()];
        StagePlan::uniform(problem.layers, retain)
    };
    let plan = thriftiest(&search, problem, (two_groups, until));
    (plan.unwrap_or_else(all), Proof::Bound(0))
}

/// Quick looks at few choices tell what need not be exceeded when looking at more. Most stages can
/// hide all recompute: plans that expose nothing are fewer, so they are looked for by themselves.
fn search_wider(search: &StageSearch<'_>, budget: u64) -> (Option<Best>, bool) {
    let mut best: Option<Best> = None;
    let mut hidden = search.prices(0, budget);
    let mut exposed = None;
    let mut can_hide = search.can_reach(&hidden, 0, budget);
    let mut width = FIRST_WIDTH;
    loop {
        let is_hidden = |best: &Option<Best>| best.is_some_and(|best| best.rank.0 == 0);
        if can_hide {
            let peak = best.filter(|b| b.rank.0 == 0).map_or(budget, |b| b.rank.1);
            let gap = search.gap(&hidden, 0, peak);
            let (all, late);
            (best, all, late) = search.pass((0, peak), width, (&hidden, gap), best);
            if late || all && is_hidden(&best) {
                return (best, !late);
            }
            can_hide = !all;
        }
        if !is_hidden(&best) {
            let most = best.map_or(u64::MAX, |best| best.rank.0);
            // Only prices that prove something are a better guide.
            let priced = match &exposed {
                Some(prices) => (prices, search.gap(prices, most, budget)),
                None => (&hidden, f64::INFINITY),
            };
            let known = best.map(|best| best.rank.0);
            let (all, late);
            (best, all, late) = search.pass((most, budget), width, priced, best);
            if late || all {
                return (best, !late);
            }
            if exposed.is_none() && !is_hidden(&best) && known.is_some() {
                exposed = Some(search.prices(most, budget)).filter(|prices| prices.bound > 0.0);
            }
        } else if width == FIRST_WIDTH {
            let peak = best.map_or(budget, |best| best.rank.1);
            hidden = search.prices(0, peak);
        }
        width = width.saturating_mul(WIDER);
    }
}

/// The plan that holds least.
fn thriftiest(
    search: &StageSearch<'_>,
    problem: &StageProblem,
    (two_groups, until): (bool, Option<Instant>),
) -> Option<StagePlan> {
    let narrow = StageSearch::new(problem, (two_groups, false), until);
    let best = thrifty_wider(&narrow, None);
    // Recompute in a window holds no less than exposed recompute, but for one case: it can feed
    // the second half of a layer if no collective lies between the halves.
    let split = problem.split;
    let apart = split == problem.segments.len() || problem.segments[split - 1].collective.is_some();
    let best = match apart {
        true => best,
        false => thrifty_wider(search, best),
    };
    best.map(|best| search.write(&best))
}

fn thrifty_wider(search: &StageSearch<'_>, known: Option<Best>) -> Option<Best> {
    let mut best = known;
    let mut width = FIRST_WIDTH;
    loop {
        let (better, sure) = search.thriftiest(width, best);
        best = better;
        if sure || search.is_late() {
            return best;
        }
        width = width.saturating_mul(WIDER);
    }
}
