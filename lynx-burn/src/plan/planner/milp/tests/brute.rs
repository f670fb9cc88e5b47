//! Plain enumeration of whole stages, every layer for itself: what OPT is tested against.

use super::super::super::choice::{LayerGroup, SegmentChoice, StagePlan};
use super::super::super::evaluate::{Cost, evaluate_without_budget};
use super::super::super::problem::StageProblem;
use crate::plan::cluster::Window;

/// Every plan that breaks no rule but the budget, whatever each segment of each layer does.
pub(super) fn every_plan(problem: &StageProblem) -> Vec<(StagePlan, Cost)> {
    let windows = Window::ALL.into_iter().filter(|&w| problem.usable(w));
    let mut all = vec![SegmentChoice::Retain, SegmentChoice::Exposed];
    all.extend(windows.map(SegmentChoice::InWindow));
    let segments = problem.segments.len();
    let places = problem.layers * segments;
    let count = all.len().pow(places as u32);
    let number = |mut number: usize| {
        let mut digits = Vec::with_capacity(places);
        for _ in 0..places {
            digits.push(all[number % all.len()]);
            number /= all.len();
        }
        let layers = digits.chunks(segments);
        let groups = layers.map(|choices| LayerGroup::new(1, choices.to_vec()));
        StagePlan {
            groups: groups.collect(),
        }
    };
    (0..count)
        .filter_map(|n| {
            let plan = number(n);
            let cost = evaluate_without_budget(problem, &plan).ok()?;
            Some((plan, cost))
        })
        .collect()
}

/// The least exposed time of a step within a budget.
pub(super) fn least_exposed(problem: &StageProblem, plans: &[(StagePlan, Cost)]) -> Option<u128> {
    let within = plans.iter().filter(|(_, cost)| cost.peak <= problem.budget);
    within.map(|(_, cost)| cost.exposed_step(problem)).min()
}
