use super::super::super::brute::{Dice, problem};
use super::super::super::{
    Heu, LayerGroup, Outcome, Planner, SegmentChoice, StagePlan, StageProblem,
    evaluate_without_budget,
};
use super::super::counts::Counts;
use super::super::positions::Positions;
use super::super::solver::{Answer, Program};
use super::super::stage::Stage;
use super::super::{Checkmate, Opt};
use super::brute::{every_plan, least_exposed};
use super::check;
use super::naive::{Naive, read};
use crate::plan::cluster::Window;
use crate::units::{Bytes, Nanos};

use std::time::Duration;

/// A stage whose plans can all be looked at: at most this many choices in total.
fn small(dice: &mut Dice, places: u64, windows: usize) -> StageProblem {
    let segments = 1 + dice.below(places.min(3));
    let mut stage = problem(dice, segments as usize, windows);
    stage.layers = (1 + dice.below(places / segments)) as usize;
    stage
}

/// Holds a planner's answers for a few budgets against all plans there are.
fn compare(planner: &dyn Planner, problem: &StageProblem, dice: &mut Dice) -> usize {
    let plans = every_plan(problem);
    let mut peaks: Vec<u64> = plans.iter().map(|(_, cost)| cost.peak.0).collect();
    peaks.sort_unstable();
    let mut feasible = 0;
    for _ in 0..4 {
        let some = peaks[dice.below(peaks.len() as u64) as usize];
        let stage = problem.with_budget(Bytes((some + dice.below(2)).saturating_sub(1)));
        let best = least_exposed(&stage, &plans);
        match (planner.plan(&stage), best) {
            (Outcome::Feasible(found), Some(best)) => {
                assert_eq!(found.cost.exposed_step(&stage), best, "{stage:?}");
                assert_eq!(
                    found.bound.map(|b| u128::from(b.0)),
                    Some(best),
                    "{stage:?}"
                );
                check(&stage, &found);
                feasible += 1;
            }
            (Outcome::Infeasible(none), None) => {
                assert_eq!(none.missing.0, peaks[0] - stage.budget.0, "{stage:?}");
            }
            (other, best) => panic!("{other:?}, but the best is {best:?}: {stage:?}"),
        }
    }
    feasible
}

#[test]
fn opt_is_the_best_of_all_plans_of_small_stages() {
    let mut dice = Dice(7);
    let mut feasible = 0;
    // At most 2^10, 3^7, ... 9^4 plans each.
    for (windows, places) in [(0, 10), (1, 7), (2, 6), (3, 5), (4, 4), (5, 4), (7, 3)] {
        for _ in 0..150 {
            let stage = small(&mut dice, places, windows);
            feasible += compare(&Opt::default(), &stage, &mut dice);
        }
    }
    assert!(feasible > 2000, "{feasible}");
}

#[test]
fn naming_layers_is_exact_and_counting_them_is_a_bound() {
    let mut dice = Dice(19);
    let mut reached = 0;
    for round in 0..300 {
        let mut problem = small(&mut dice, 6, round % 3);
        if round % 3 == 0 {
            problem.windows.b1 = Some(Nanos(dice.below(6)));
            problem.windows.b2 = Some(Nanos(dice.below(6)));
            problem.windows.entry = Nanos(dice.below(12));
        }
        let plans = every_plan(&problem);
        let some = &plans[dice.below(plans.len() as u64) as usize];
        let problem = problem.with_budget(some.1.peak);
        let best = least_exposed(&problem, &plans).expect("some plan") as u64;
        let stage = Stage::new(&problem, u64::MAX, None).unwrap();
        let proven = |program: &Program| match program.solve(Duration::from_secs(10), &[]) {
            Answer::Values {
                bound: Some(bound),
                optimal: true,
                ..
            } => stage.exposed(bound),
            other => panic!("{other:?}: {problem:?}"),
        };
        let named = proven(&Positions::new(&stage, false).program);
        assert_eq!(named, best, "{problem:?}");
        let counted = proven(&Counts::new(&stage, stage.has_best_order()).program);
        assert!(counted <= best, "{counted} {best} {problem:?}");
        reached += usize::from(counted == best);
    }
    assert!(reached > 200, "{reached}");
}

#[test]
fn opt_is_the_best_on_every_stage_of_small_pipelines() {
    let mut dice = Dice(11);
    for stages in [2, 3] {
        for micro_batches in [1, 2, 5] {
            let model = problem(&mut dice, 2, 4);
            for stage in 0..stages {
                let cool_down = micro_batches.min(stages - 1 - stage);
                let steady = micro_batches - cool_down;
                let problem = StageProblem {
                    stage: stage as usize,
                    layers: 2,
                    in_flight: micro_batches.min(stages - stage),
                    steady,
                    cool_down,
                    ..model.clone()
                };
                compare(&Opt::default(), &problem, &mut dice);
            }
        }
    }
}

#[test]
fn opt_uses_the_heads_window_for_the_last_layer_alone() {
    let mut dice = Dice(17);
    for _ in 0..150 {
        let mut stage = problem(&mut dice, 2, 0);
        stage.layers = 2;
        stage.windows.b1 = Some(Nanos(dice.below(3)));
        stage.windows.b2 = Some(Nanos(dice.below(6)));
        stage.windows.entry = Nanos(5 + dice.below(9));
        compare(&Opt::default(), &stage, &mut dice);
    }
}

#[test]
fn checkmate_is_the_best_without_windows_of_up_to_twelve_segments() {
    let mut dice = Dice(3);
    let mut feasible = 0;
    for (layers, segments) in [
        (1, 12),
        (2, 6),
        (3, 4),
        (4, 3),
        (6, 2),
        (12, 1),
        (5, 2),
        (1, 5),
    ] {
        for _ in 0..6 {
            let mut stage = problem(&mut dice, segments, 0);
            stage.layers = layers;
            feasible += compare(&Checkmate::default(), &stage, &mut dice);
        }
    }
    assert!(feasible > 100, "{feasible}");
}

#[test]
fn opt_is_never_worse_than_heu_or_checkmate_and_never_over_budget() {
    let mut dice = Dice(5);
    for _ in 0..150 {
        let segments = 1 + dice.below(5) as usize;
        let windows = dice.below(8) as usize;
        let mut stage = problem(&mut dice, segments, windows);
        stage.layers = 1 + dice.below(6) as usize;
        stage.budget = Bytes(dice.below(400) + 20);
        let quick = Opt {
            time_limit: Duration::from_millis(200),
        };
        let opt = quick.plan(&stage);
        let others = [
            Heu::default().plan(&stage),
            Checkmate::default().plan(&stage),
        ];
        for other in others.iter().filter_map(Outcome::feasible) {
            let found = opt.feasible().expect("feasible for another planner");
            check(&stage, found);
            assert!(found.cost.exposed_step(&stage) <= other.cost.exposed_step(&stage));
            let bound = found.bound.expect("a bound");
            assert!(u128::from(bound.0) <= found.cost.exposed_step(&stage));
        }
    }
}

#[test]
fn both_readings_of_the_rules_agree_on_plans_made_by_chance() {
    let mut dice = Dice(13);
    let choices = |stage: &StageProblem| {
        let windows = Window::ALL.into_iter();
        let usable = windows
            .filter(|&w| stage.usable(w))
            .map(SegmentChoice::InWindow);
        let mut all = vec![SegmentChoice::Retain, SegmentChoice::Exposed];
        all.extend(usable);
        all
    };
    for _ in 0..3000 {
        let segments = 1 + dice.below(4) as usize;
        let windows = dice.below(8) as usize;
        let stage = problem(&mut dice, segments, windows);
        let all = choices(&stage);
        let mut layer = || {
            let mut any = || all[dice.below(all.len() as u64) as usize];
            LayerGroup::new(1, (0..segments).map(|_| any()).collect())
        };
        let plan = StagePlan {
            groups: (0..stage.layers).map(|_| layer()).collect(),
        };
        let naive = read(&stage, &plan);
        match evaluate_without_budget(&stage, &plan) {
            Ok(cost) => {
                let told = Naive {
                    peak: cost.peak.0,
                    exposed_step: cost.exposed_step(&stage) as u64,
                    windows_hold: true,
                };
                assert_eq!(naive, told, "{plan:?} {stage:?}");
            }
            Err(error) => assert!(!naive.windows_hold, "{error} {plan:?} {stage:?}"),
        }
    }
}
