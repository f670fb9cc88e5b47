//! Two oracles of their own: all plans there are (`brute`), and the rules read again (`naive`).

mod brute;
mod exact;
mod limits;
mod naive;

use super::super::{Feasible, StageProblem};
use naive::{Naive, read};

/// The second reading of the rules agrees that the plan keeps them.
fn check(problem: &StageProblem, found: &Feasible) {
    let naive = read(problem, &found.plan);
    assert!(naive.peak <= problem.budget.0, "{naive:?} {problem:?}");
    let exposed_step = found.cost.exposed_step(problem) as u64;
    let told = Naive {
        peak: found.cost.peak.0,
        exposed_step,
        windows_hold: true,
    };
    assert_eq!(naive, told, "{problem:?}");
}
