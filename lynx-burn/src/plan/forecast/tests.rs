//! Does the simulator see the same plan as the planner's own arithmetic?

use super::*;
use crate::plan::cluster::{Cluster, Link, LinkKind};
use crate::plan::planner::baselines;
use crate::plan::planner::{Dealer, Heu, Plan};
use crate::plan::profile::{Gpt, ModelProfile};
use crate::units::{Bytes, Nanos};

fn gpt(name: &str, cluster: &Cluster, ranks: u64, samples: u64) -> ModelProfile {
    let mut gpt = Gpt::new(name.parse().unwrap());
    gpt.tensor_parallel = ranks;
    gpt.micro_batch = samples;
    gpt.profile(&cluster.device).unwrap()
}

/// Every planner on even stages, where it finds a plan.
fn plans() -> Vec<Plan> {
    let mut all = Vec::new();
    for (name, preset, ranks, stages, samples) in [
        ("1.3b", "a100-40-pcie", 1, 4, 4),
        ("1.3b", "h100-nvlink", 2, 1, 8),
        ("7b", "a100-40-nvlink", 2, 4, 2),
        ("7b", "a100-40-pcie", 4, 2, 4),
        ("13b", "ascend-910b", 4, 4, 4),
        ("20b", "a100-80-nvlink", 8, 2, 4),
    ] {
        let cluster: Cluster = preset.parse().unwrap();
        let profile = gpt(name, &cluster, ranks, samples);
        let mut planners = baselines::all();
        planners.push(Box::new(Heu::default()));
        for micro_batches in [2, 12] {
            for beside in [false, true] {
                let mut setup = Setup::new(&profile, &cluster, stages, micro_batches);
                setup.overlap_weight_gradients = beside;
                for planner in &planners {
                    let dealer = Dealer::new(&setup, planner.as_ref()).unwrap();
                    let layers = dealer.even();
                    let plan = Plan::with_layers(&setup, planner.as_ref(), &dealer, &layers);
                    all.extend(plan.ok());
                }
            }
        }
    }
    assert!(all.len() > 100, "{}", all.len());
    all
}

/// Case 9 and 22: what is made for one half of a backward is gone before the other, and no plan
/// holds more in time than it may.
#[test]
fn no_stage_of_a_simulated_step_ever_holds_more_than_its_planner_said() {
    for plan in plans() {
        let report = plan.forecast().unwrap().report().unwrap();
        for (stage, (found, planned)) in report.stages.iter().zip(&plan.stages).enumerate() {
            let said = planned.predicted.peak;
            assert!(
                found.peak <= said,
                "{} {stage}: {} {said}",
                plan.planner,
                found.peak
            );
            assert!(said <= plan.setup.budget);
        }
    }
}

/// The simulator may hide more than was counted on, in waits that the planner does not know.
#[test]
fn a_simulated_step_exposes_no_more_than_its_planner_said_and_loses_no_recompute() {
    for plan in plans() {
        let report = plan.forecast().unwrap().report().unwrap();
        let problems = plan.problems().unwrap();
        for (index, found) in report.stages.iter().enumerate() {
            let cost = plan.stages[index].predicted;
            let (exposed, hidden) = (
                cost.exposed_step(&problems[index]),
                cost.hidden_step(&problems[index]),
            );
            let said = exposed + hidden;
            let all = u128::from(found.exposed.0) + u128::from(found.hidden().0);
            assert_eq!(all, said, "{} {index}", plan.planner);
            assert!(
                u128::from(found.exposed.0) <= exposed,
                "{} {index}",
                plan.planner
            );
        }
    }
}

/// One stage, no links: nothing but sums.
#[test]
fn the_step_of_one_stage_is_the_sum_of_its_parts() {
    let cluster: Cluster = "h100-nvlink".parse().unwrap();
    let profile = gpt("1.3b", &cluster, 1, 1);
    let mut setup = Setup::new(&profile, &cluster, 1, 3);
    setup.budget = Bytes(1 << 50);
    let plan = Plan::new(&setup, &baselines::RetainAll).unwrap();
    let segments = profile.segments();
    let once: Nanos = segments
        .map(|s| s.forward.saturating_add(s.backward()))
        .sum();
    assert_eq!(plan.step.time, once.saturating_mul(3));
    assert_eq!(plan.step.hidden_fraction(), None);
}

/// One stage, two replicas in a ring of two: each sends half of the gradients twice.
#[test]
fn replicas_sum_their_gradients_at_the_end_of_a_step() {
    let cluster: Cluster = "h100-nvlink".parse().unwrap();
    let profile = gpt("1.3b", &cluster, 1, 1);
    let plan = |stages, replicas| {
        let mut setup = Setup::new(&profile, &cluster, stages, 3);
        setup.budget = Bytes(1 << 50);
        setup.replicas = replicas;
        Plan::new(&setup, &baselines::RetainAll).unwrap()
    };
    let link = Link {
        kind: LinkKind::Network,
        gb_s: 10.0,
        latency: Nanos(50_000),
    };
    let two = |link| Some(Replicas { count: 2, link });
    let (alone, joined) = (plan(1, None), plan(1, two(Some(link))));
    let gradients = profile.weights().gradients.0;
    // 10 bytes pass in a nanosecond.
    let expected = alone.step.time.0 + 2 * 50_000 + gradients / 10;
    assert!(joined.step.time.0.abs_diff(expected) <= 1, "{expected}");
    assert_eq!(plan(1, two(None)).step.time, alone.step.time);
    // Of two stages, each holds the tied embedding.
    let forecast = plan(2, two(Some(link))).forecast().unwrap();
    let times = forecast.costs.stages.iter().map(|stage| stage.reduction.0);
    let expected = 4 * 50_000 + (gradients + profile.tied.gradients.0) / 10;
    assert!(times.sum::<u64>().abs_diff(expected) <= 2, "{expected}");
    for actions in &forecast.schedule.stages {
        assert!(actions.last().unwrap().is_reduction());
    }
    let refused = |count, gb_s| {
        let link = Some(Link { gb_s, ..link });
        let mut setup = Setup::new(&profile, &cluster, 1, 3);
        setup.replicas = Some(Replicas { count, link });
        setup.validate().unwrap_err().to_string()
    };
    assert!(refused(0, 1.0).ends_with("got 0"));
    assert!(refused(usize::MAX, 1.0).contains("replicas, got"));
    assert!(refused(2, f64::NAN).contains("replicas.link.gb_s is NaN"));
}

#[test]
fn a_step_that_no_memory_could_hold_is_refused_with_its_counts() {
    let cluster: Cluster = "h200".parse().unwrap();
    let profile = gpt("1.3b", &cluster, 1, 1);
    for micro_batches in [1 << 24, u64::MAX] {
        let setup = Setup::new(&profile, &cluster, 2, micro_batches);
        let error = schedule(&setup).unwrap_err().to_string();
        let start = format!("{micro_batches} micro-batches on 2 stages");
        assert!(error.starts_with(&start), "{error}");
    }
}
