use std::time::{Duration, Instant};

use super::super::super::{
    Ends, Heu, Outcome, Planner, SegmentCost, StageProblem, Windows, evaluate,
};
use super::super::{Checkmate, Opt};
use super::check;
use crate::units::{Bytes, Nanos};

/// Like a GPT layer: five segments, collectives after the third and the last.
fn long_stage(layers: usize) -> StageProblem {
    const MIB: u64 = 1 << 20;
    let segment = |name: &str, time: u64, tape: u64, collective: bool| SegmentCost {
        name: name.to_owned(),
        forward: Nanos(time * 1_001),
        recompute: Nanos(time * 1_001),
        tape: Bytes(tape * MIB + time),
        kept_input: Bytes(17 * MIB),
        notes: Bytes(0),
        workspace: Bytes(3 * MIB),
        collective: collective.then_some(Nanos(1_000_000)),
    };
    StageProblem {
        stage: 0,
        layers,
        segments: vec![
            segment("qkv", 1_903, 101, false),
            segment("core", 997, 257, false),
            segment("projection", 631, 33, true),
            segment("fc1", 2_539, 131, false),
            segment("fc2", 2_711, 151, true),
        ],
        split: 3,
        in_flight: 4,
        steady: 13,
        cool_down: 3,
        windows: Windows {
            f1: Some(Nanos(700_003)),
            f2: Some(Nanos(700_003)),
            b1: Some(Nanos(1_200_007)),
            b2: Some(Nanos(1_100_009)),
            send: None,
            recv: Some(Nanos(400_000)),
            bubble: Some(Nanos(30_000_000)),
            entry: Nanos::ZERO,
        },
        forward: Nanos(90_000_000),
        backward: Nanos(180_000_000),
        fixed: Bytes(4 << 30),
        before: Ends::default(),
        after: Ends::default(),
        budget: Bytes((4 << 30) + layers as u64 * 1500 * MIB),
    }
}

#[test]
fn a_time_limit_holds_and_returns_a_plan_with_its_gap() {
    let problem = long_stage(40);
    let limit = Duration::from_millis(100);
    let began = Instant::now();
    let outcome = Opt { time_limit: limit }.plan(&problem);
    // A slow machine that runs other tests may take its time, but not without end.
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    let found = outcome.feasible().expect("HEU has a plan");
    check(&problem, found);
    let gap = found.gap(&problem).expect("a bound");
    assert!((0.0..0.2).contains(&gap), "{gap}");
}

#[test]
fn no_time_at_all_gives_heus_plan_and_endless_time_the_best() {
    let problem = long_stage(3);
    let plan = |time_limit| Opt { time_limit }.plan(&problem);
    let (none, endless) = (plan(Duration::ZERO), plan(Duration::MAX));
    let (none, endless) = (none.feasible(), endless.feasible());
    let (none, endless) = (none.expect("a plan"), endless.expect("a plan"));
    let heu = Heu::default().plan(&problem);
    assert_eq!(none.plan, heu.feasible().expect("a plan").plan);
    assert!(none.bound.expect("a bound") <= endless.bound.expect("a bound"));
    assert_eq!(endless.gap(&problem), Some(0.0));
}

#[test]
fn a_stage_of_very_many_layers_is_answered_in_time() {
    let problem = long_stage(20_000);
    let began = Instant::now();
    let time_limit = Duration::from_secs(1);
    for planner in [
        &Opt { time_limit } as &dyn Planner,
        &Checkmate { time_limit },
    ] {
        assert!(
            planner.plan(&problem).feasible().is_some(),
            "{}",
            planner.name()
        );
    }
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn checkmate_proves_a_long_stage_quickly() {
    let problem = long_stage(96);
    let began = Instant::now();
    let outcome = Checkmate::default().plan(&problem);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let found = outcome.feasible().expect("a plan");
    check(&problem.without_windows(), found);
    assert_eq!(found.gap(&problem), Some(0.0));
    let heu = Heu::default().plan(&problem.without_windows());
    let heu = heu.feasible().expect("a plan").cost.exposed_step(&problem);
    assert!(found.cost.exposed_step(&problem) <= heu);
}

#[test]
fn what_is_no_problem_is_refused_with_its_values() {
    let none = StageProblem {
        layers: 0,
        ..long_stage(1)
    };
    for planner in [&Opt::default() as &dyn Planner, &Checkmate::default()] {
        let Outcome::Refused { reason } = planner.plan(&none) else {
            panic!("{} planned nothing", planner.name());
        };
        assert!(reason.contains("layers is 0"), "{reason}");
    }
}

#[test]
fn with_memory_for_everything_nothing_is_recomputed() {
    let mut problem = long_stage(8);
    problem.budget = Bytes(1 << 50);
    for planner in [&Opt::default() as &dyn Planner, &Checkmate::default()] {
        let outcome = planner.plan(&problem);
        let found = outcome.feasible().expect("a plan");
        assert_eq!(found.cost, evaluate(&problem, &found.plan).expect("valid"));
        assert_eq!(found.cost.exposed_step(&problem), 0);
    }
}
