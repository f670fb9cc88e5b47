//! Greedy: give up first what costs least time per byte.
//!
//! Kinds of segments are ordered by recompute time for each byte that recomputing them saves. One
//! kind after the other is recomputed, in as many of the first layers as are needed.

use std::time::Instant;

use super::best_of;
use crate::plan::planner::choice::{LayerGroup, SegmentChoice, StagePlan};
use crate::plan::planner::outcome::{Outcome, Planner};
use crate::plan::planner::problem::StageProblem;

/// Least time per byte first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Planner for Greedy {
    fn name(&self) -> &str {
        "greedy"
    }

    fn plan(&self, problem: &StageProblem) -> Outcome {
        let began = Instant::now();
        let order = order(problem);
        let mut choices = vec![SegmentChoice::Retain; problem.segments.len()];
        let mut outcome = best_of(
            problem,
            [StagePlan::uniform(problem.layers, choices.clone())],
            began,
        );
        for segment in order {
            if !matches!(outcome, Outcome::Infeasible(_)) {
                return outcome;
            }
            let rest = choices.clone();
            choices[segment] = SegmentChoice::Exposed;
            for layers in 1..=problem.layers {
                let mut groups = vec![
                    LayerGroup::new(layers, choices.clone()),
                    LayerGroup::new(problem.layers - layers, rest.clone()),
                ];
                groups.retain(|group| group.layers > 0);
                outcome = Outcome::of(problem, StagePlan { groups }, false, began);
                if outcome.feasible().is_some() {
                    return outcome;
                }
            }
        }
        outcome
    }
}

/// The segments that save anything, by time per byte.
fn order(problem: &StageProblem) -> Vec<usize> {
    let segments = &problem.segments;
    let saved = |segment: usize| {
        let cost = &segments[segment];
        u128::from(cost.remade().saturating_sub(cost.kept_input.0))
    };
    let time = |segment: usize| u128::from(segments[segment].recompute.0);
    let mut order: Vec<usize> = (0..segments.len()).filter(|&s| saved(s) > 0).collect();
    // a / b < c / d, without fractions.
    order.sort_by(|&a, &b| (time(a) * saved(b)).cmp(&(time(b) * saved(a))));
    order
}
