//! What others do: planners without windows, to be compared with.
//!
//! Each follows its source as far as a stage's choices can express it, and is measured by the same
//! `evaluate` as everything else. None of them hides recompute.

mod adapipe;
mod chen;
mod greedy;
mod megatron;
mod simple;
mod skyline;

use std::time::Instant;

pub use adapipe::AdaPipe;
pub use chen::Chen;
pub use greedy::Greedy;
pub use megatron::{Block, Uniform};
pub use simple::{FullByLayer, RetainAll, Selective};

use super::choice::StagePlan;
use super::evaluate::evaluate_without_budget;
use super::outcome::{Outcome, Planner};
use super::problem::StageProblem;

/// All of them.
pub fn all() -> Vec<Box<dyn Planner>> {
    vec![
        Box::new(RetainAll),
        Box::new(Uniform::default()),
        Box::new(Block::default()),
        Box::new(Block { repeats: false }),
        Box::new(FullByLayer),
        Box::new(Selective::default()),
        Box::new(Chen),
        Box::new(Greedy),
        Box::new(AdaPipe),
    ]
}

/// The best of these plans that fits or, if none does, the thriftiest. They are said to be all
/// plans of their kind, so the best is proven to be.
fn best_of(
    problem: &StageProblem,
    plans: impl IntoIterator<Item = StagePlan>,
    began: Instant,
) -> Outcome {
    let mut best = None;
    let mut reason = "there is nothing to choose from".to_owned();
    for plan in plans {
        match evaluate_without_budget(problem, &plan) {
            Ok(cost) => {
                let over = cost.peak.0.saturating_sub(problem.budget.0);
                let rank = (over, cost.rank(problem));
                if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                    best = Some((rank, plan));
                }
            }
            Err(error) => reason = error.to_string(),
        }
    }
    match best {
        Some((_, plan)) => Outcome::of(problem, plan, true, began),
        None => Outcome::Refused { reason },
    }
}

#[cfg(test)]
mod tests;
