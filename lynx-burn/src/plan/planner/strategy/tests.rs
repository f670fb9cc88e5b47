//! Whole plans of GPTs, strategy against strategy, by their simulated step.

use std::collections::HashMap;
use std::time::Duration;

use super::*;
use crate::plan::cluster::{Cluster, Window};
use crate::plan::planner::baselines::{AdaPipe, RetainAll};
use crate::plan::planner::{DealError, Heu, Planner};
use crate::plan::profile::{Gpt, ModelProfile};
use crate::units::Bytes;

const LIMIT: Duration = Duration::from_secs(2);

fn gpt(name: &str, cluster: &Cluster, ranks: u64, samples: u64) -> ModelProfile {
    let mut gpt = Gpt::new(name.parse().unwrap());
    gpt.tensor_parallel = ranks;
    gpt.micro_batch = samples;
    gpt.profile(&cluster.device).unwrap()
}

fn setup(name: &str, preset: &str, (ranks, stages): (u64, usize), samples: u64) -> Setup {
    let cluster: Cluster = preset.parse().unwrap();
    let profile = gpt(name, &cluster, ranks, samples);
    Setup::new(&profile, &cluster, stages, 16)
}

/// Settings in which memory binds, with and without a pipeline and collectives: two thirds of what
/// retaining all of it would need.
fn bound() -> Vec<Setup> {
    let mut all = vec![
        setup("1.3b", "a100-40-nvlink", (1, 4), 4),
        setup("4.7b", "a100-40-pcie", (2, 1), 1),
        setup("7b", "ascend-910b", (4, 2), 8),
        setup("7b", "a100-40-pcie", (4, 2), 4),
        setup("20b", "a100-40-pcie", (4, 8), 1),
    ];
    for setup in &mut all {
        let layers = setup.profile.layer_count() / setup.stages;
        let problem = setup.problem(0, 0..layers).unwrap();
        let boundless = problem.with_budget(Bytes(1 << 60));
        let retained = RetainAll.plan(&boundless).feasible().unwrap().cost.peak.0;
        setup.budget = Bytes(problem.fixed.0 + (retained - problem.fixed.0) * 2 / 3);
    }
    all
}

/// Case 22: and no plan holds more than it may, by the planner's count and by the simulator's.
#[test]
fn heu_is_never_slower_than_what_overlaps_nothing_and_never_faster_than_unlimited_memory() {
    for setup in bound() {
        let bound = unlimited(&setup).unwrap().step.time;
        let mut steps = HashMap::new();
        for strategy in Strategy::all(LIMIT) {
            // OPT is compared elsewhere; it takes its time.
            if strategy.name() == "opt" {
                continue;
            }
            if let Ok(plan) = strategy.plan(&setup) {
                assert!(plan.step.peak <= setup.budget, "{}", strategy.name());
                plan.validate().unwrap();
                steps.insert(strategy.name(), plan.step.time);
            }
        }
        let heu = steps["heu"];
        assert!(!steps.contains_key("none"), "memory binds");
        for (name, step) in &steps {
            assert!(heu <= *step, "{name}: {step}, heu: {heu}");
            assert!(bound <= *step, "{name}: {step}, bound: {bound}");
        }
        assert!(steps["adapipe"] <= steps["full"]);
    }
}

#[test]
fn heus_step_is_within_one_percent_of_opts_where_opt_closes_its_gap() {
    let mut closed = 0;
    for setup in bound().into_iter().take(4) {
        let plan = |name| Strategy::named(name, LIMIT).unwrap().plan(&setup).unwrap();
        let (heu, opt) = (plan("heu"), plan("opt"));
        let problems = opt.problems().unwrap();
        let gaps = opt.stages.iter().zip(&problems);
        let mut gaps = gaps.map(|(stage, problem)| stage.gap(problem));
        if gaps.all(|gap| gap.is_some_and(|gap| gap <= 0.01)) {
            closed += 1;
            let ratio = heu.step.time.seconds() / opt.step.time.seconds();
            assert!(ratio <= 1.01, "{ratio}");
        }
    }
    assert!(closed > 0, "no gap was closed, so nothing was compared");
}

#[test]
fn with_more_memory_less_is_exposed() {
    let setup = setup("7b", "a100-40-pcie", (4, 2), 4);
    let problem = setup.problem(0, 0..16).unwrap();
    let mut before = None;
    for gib in 16..=60 {
        let budget = Bytes(gib << 30);
        for planner in [&Heu::default() as &dyn Planner, &AdaPipe] {
            let found = planner.plan(&problem.with_budget(budget));
            if planner.name() == "heu" {
                let exposed = found.feasible().map(|f| f.cost.exposed_step(&problem));
                // Nothing feasible is worse than anything.
                let worse = exposed.unwrap_or(u128::MAX);
                assert!(before.is_none_or(|before| worse <= before), "{gib} GiB");
                before = Some(worse);
            }
        }
    }
    assert_eq!(before, Some(0));
}

#[test]
fn forwards_run_ahead_only_as_far_as_the_stage_before_lets_them() {
    for stages in 1..9 {
        for extra in depths(stages) {
            assert_eq!(extra.len(), stages);
            assert!(
                extra.windows(2).all(|pair| pair[1] <= pair[0] + 1),
                "{extra:?}"
            );
        }
    }
}

/// With one micro-batch in flight more, what F windows make anew is there beside what the other
/// micro-batch holds of it: more than retaining it with one in flight. So one stage never gains.
#[test]
fn a_delayed_backward_of_a_single_stage_never_pays() {
    let mut shallow = setup("4.7b", "a100-40-pcie", (2, 1), 1);
    for gib in (36..60).step_by(2) {
        shallow.budget = Bytes(gib << 30);
        let delayed = Setup {
            extra_in_flight: vec![1],
            ..shallow.clone()
        };
        let problem = delayed.problem(0, 0..40).unwrap();
        assert!(problem.usable(Window::F1) && problem.in_flight == 2);
        let heu = |setup: &Setup| Plan::new(setup, &Heu::default()).unwrap().step.time;
        if Plan::new(&delayed, &Heu::default()).is_ok() {
            assert!(heu(&shallow) <= heu(&delayed), "{gib} GiB");
        }
    }
}

/// On early stages, which hold several, it does: the time that they stand still before their first
/// backward comes back before later ones.
#[test]
fn forwards_that_run_ahead_pay_in_a_pipeline_without_collectives() {
    let setup = setup("1.3b", "a100-40-nvlink", (1, 8), 4);
    let heu = |deepens| {
        let strategy = Strategy::named("heu", LIMIT).unwrap();
        strategy.deepening(deepens).plan(&setup).unwrap()
    };
    let (shallow, deep) = (heu(false), heu(true));
    assert!(deep.step.time < shallow.step.time);
    assert!(deep.step.peak <= setup.budget);
    assert!(deep.setup.extra_in_flight[0] > 0);
}

#[test]
fn a_misspelt_strategy_is_refused_with_those_there_are() {
    let error = Strategy::named("hue", LIMIT).err().unwrap().to_string();
    assert!(
        error.contains("\"hue\"") && error.contains("heu, opt"),
        "{error}"
    );
}

#[test]
fn a_budget_that_nothing_fits_says_which_stage_and_by_how_much() {
    let mut setup = setup("7b", "a100-40-pcie", (4, 2), 4);
    setup.budget = Bytes(1 << 30);
    let error = Strategy::named("heu", LIMIT)
        .unwrap()
        .plan(&setup)
        .unwrap_err();
    let PlanError::Deal(DealError::Infeasible { missing, .. }) = error else {
        panic!("{error}");
    };
    setup.budget = Bytes(setup.budget.0 + missing.0);
    // The deal may change with the budget, so that what was missing suffices at least.
    assert!(Strategy::named("heu", LIMIT).unwrap().plan(&setup).is_ok());
}

#[test]
fn planned_again_for_its_own_deal_a_plan_is_as_fast_and_has_the_same_layers() {
    for setup in bound() {
        for name in ["heu", "adapipe", "full", "selective"] {
            let strategy = Strategy::named(name, LIMIT).unwrap();
            let Ok(plan) = strategy.plan(&setup) else {
                continue;
            };
            let layers = plan.layers().unwrap();
            let again = strategy.plan_dealt(&plan.setup, &layers).unwrap();
            assert_eq!(again.layers().unwrap(), layers, "{name}");
            assert_eq!(again.setup, plan.setup, "{name}");
            assert_eq!(again.planner, plan.planner);
            assert!(again.step.time <= plan.step.time, "{name}");
        }
    }
}
