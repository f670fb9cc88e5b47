//! HEU against plain enumeration.

use super::brute::{Dice, all_plans, problem};
use super::evaluate::{Cost, evaluate};
use super::heu::Heu;
use super::outcome::{Outcome, Planner};
use super::plan_error::Violation;
use super::problem::StageProblem;
use crate::units::{Bytes, Nanos};

use std::time::{Duration, Instant};

/// Without a limit: the answer is the same however slow the machine is.
fn heu(two_groups: bool) -> Heu {
    Heu {
        two_groups,
        limit: None,
    }
}

/// Budgets below, at and above what plans need.
fn budgets(dice: &mut Dice, peaks: &[u64]) -> Vec<u64> {
    let least = peaks.iter().min().copied().unwrap_or(0);
    let some = peaks[dice.below(peaks.len() as u64) as usize];
    let most = peaks.iter().max().copied().unwrap_or(0);
    vec![least.saturating_sub(1), least, some, some + 1, most]
}

fn agree(problem: &StageProblem, two_groups: bool, plans: &[Cost], what: &str) {
    let fitting = plans.iter().filter(|cost| cost.peak <= problem.budget);
    let best = fitting.map(|cost| cost.rank(problem)).min();
    match (heu(two_groups).plan(problem), best) {
        (Outcome::Feasible(found), Some(best)) => {
            assert_eq!(
                found.cost.rank(problem),
                best,
                "{what}: {problem:?} {found:?}"
            );
            assert_eq!(evaluate(problem, &found.plan), Ok(found.cost), "{what}");
            assert!(found.cost.peak <= problem.budget, "{what}");
        }
        (Outcome::Infeasible(found), None) => {
            let least = plans.iter().map(|cost| cost.peak.0).min().unwrap();
            let missing = Bytes(least - problem.budget.0);
            assert_eq!(found.missing, missing, "{what}: {problem:?} {found:?}");
            let refused = evaluate(problem, &found.thriftiest);
            assert!(
                matches!(refused, Err(Violation::OverBudget { .. })),
                "{what}"
            );
        }
        (found, best) => panic!("{what}: {found:?} instead of {best:?} for {problem:?}"),
    }
}

/// Instances of these sizes, each at several budgets; returns how many there were.
fn sweep(cases: u64, sizes: &[(usize, usize)], two_groups: bool) -> usize {
    let mut instances = 0;
    for case in 0..cases {
        let mut dice = Dice(case * 1000 + u64::from(two_groups));
        let (segments, windows) = sizes[dice.below(sizes.len() as u64) as usize];
        let mut problem = problem(&mut dice, segments, windows);
        let plans: Vec<Cost> = all_plans(&problem, two_groups)
            .into_iter()
            .map(|p| p.1)
            .collect();
        let peaks: Vec<u64> = plans.iter().map(|cost| cost.peak.0).collect();
        let mut before = None;
        let mut budgets = budgets(&mut dice, &peaks);
        budgets.sort_unstable();
        for budget in budgets {
            problem.budget = Bytes(budget);
            agree(&problem, two_groups, &plans, &format!("case {case}"));
            instances += 1;
            let Outcome::Feasible(found) = heu(two_groups).plan(&problem) else {
                continue;
            };
            let exposed = found.cost.exposed_step(&problem);
            assert!(
                before.is_none_or(|b| exposed <= b),
                "case {case} is not monotone"
            );
            before = Some(exposed);
        }
    }
    instances
}

#[test]
fn one_policy_is_as_good_as_the_best_of_all() {
    let sizes = [
        (1, 7),
        (2, 7),
        (3, 7),
        (4, 3),
        (5, 2),
        (6, 1),
        (8, 1),
        (9, 1),
        (10, 0),
        (12, 0),
    ];
    assert!(sweep(500, &sizes, false) >= 2500);
}

#[test]
fn two_groups_are_as_good_as_the_best_of_all_pairs_and_sizes() {
    let sizes = [
        (1, 7),
        (2, 7),
        (2, 5),
        (3, 1),
        (3, 2),
        (3, 3),
        (4, 0),
        (4, 1),
        (5, 0),
        (6, 0),
    ];
    assert!(sweep(420, &sizes, true) >= 2100);
}

#[test]
fn long_layers_with_one_window_are_planned_as_well() {
    assert!(sweep(12, &[(11, 1), (7, 2), (12, 1)], false) >= 60);
}

#[test]
fn two_groups_are_never_worse_than_one() {
    for case in 0..300 {
        let mut dice = Dice(case);
        let mut problem = problem(&mut dice, 5, 5);
        problem.layers = 1 + dice.below(9) as usize;
        problem.budget = Bytes(dice.below(900));
        let plan = |two_groups| heu(two_groups).plan(&problem);
        let (one, two) = (plan(false), plan(true));
        let Some(one) = one.feasible() else { continue };
        let two = two.feasible().unwrap();
        assert!(
            two.cost.rank(&problem) <= one.cost.rank(&problem),
            "case {case}"
        );
    }
}

#[test]
fn nonsense_is_refused_with_the_number_at_fault() {
    let mut problem = problem(&mut Dice(1), 3, 3);
    problem.segments[1].tape = Bytes(u64::MAX);
    let Outcome::Refused { reason } = Heu::default().plan(&problem) else {
        panic!("accepted");
    };
    assert!(reason.contains("tape is 18446744073709551615"), "{reason}");
    problem.segments.clear();
    assert!(matches!(
        Heu::default().plan(&problem),
        Outcome::Refused { .. }
    ));
}

/// A layer whose windows are wide and whose segments differ: nothing makes its choices few.
fn wide(segments: usize, seed: u64) -> StageProblem {
    let mut dice = Dice(seed);
    let mut problem = problem(&mut dice, segments, 7);
    for segment in &mut problem.segments {
        segment.recompute = Nanos(1000 + dice.below(9000));
        segment.tape = Bytes(100_000 + dice.below(900_000));
        segment.kept_input = Bytes(dice.below(100_000));
        segment.collective = None;
    }
    let work: u64 = problem.segments.iter().map(|s| s.recompute.0).sum();
    let room = Some(Nanos(work / 4));
    problem.windows.f1 = room;
    problem.windows.f2 = room;
    problem.windows.b1 = room;
    problem.windows.b2 = room;
    problem.windows.send = Some(Nanos(work * 5));
    problem.windows.recv = Some(Nanos(work * 5));
    problem.windows.bubble = Some(Nanos(work * 20));
    (problem.layers, problem.split) = (40, segments / 2);
    (problem.steady, problem.cool_down, problem.in_flight) = (12, 4, 5);
    problem
}

#[test]
fn long_layers_with_wide_windows_end_within_the_limit_with_a_plan_and_a_bound() {
    let limit = Duration::from_millis(300);
    let limited = Heu {
        limit: Some(limit),
        ..Heu::default()
    };
    for (segments, seed) in [(12, 1), (12, 2), (24, 3), (24, 4), (32, 5)] {
        let mut problem = wide(segments, seed);
        let tapes: u64 = problem.segments.iter().map(|s| s.tape.0).sum();
        for share in [3, 20, 90] {
            problem.budget = Bytes(tapes * problem.layers as u64 * 5 * share / 100);
            let began = Instant::now();
            let outcome = limited.plan(&problem);
            let took = began.elapsed();
            assert!(took < limit + Duration::from_millis(100), "{took:?}");
            let Outcome::Feasible(found) = outcome else {
                assert_eq!(share, 3, "{segments} segments: {outcome:?}");
                continue;
            };
            assert_eq!(evaluate(&problem, &found.plan), Ok(found.cost));
            let bound = found.bound.map(|bound| u128::from(bound.0));
            assert!(bound.is_some_and(|bound| bound <= found.cost.exposed_step(&problem)));
        }
    }
}

#[test]
fn no_time_at_all_is_enough_for_a_plan_that_fits() {
    let hasty = Heu {
        limit: Some(Duration::ZERO),
        ..Heu::default()
    };
    let mut planned = 0;
    for case in 0..100 {
        let mut dice = Dice(case);
        let mut problem = problem(&mut dice, 6, 5);
        problem.layers = 1 + dice.below(9) as usize;
        problem.budget = Bytes(dice.below(900));
        let best = heu(true).plan(&problem);
        let Some(best) = best.feasible() else {
            continue;
        };
        let Outcome::Feasible(found) = hasty.plan(&problem) else {
            panic!("case {case}: nothing found");
        };
        let (own, least) = (found.cost.rank(&problem), best.cost.rank(&problem));
        assert!(own >= least, "case {case}");
        let bound = found.bound.map(|bound| u128::from(bound.0));
        assert!(bound.is_some_and(|bound| bound <= least.0), "case {case}");
        planned += 1;
    }
    assert!(planned > 50, "{planned}");
}
