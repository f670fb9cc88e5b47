//! Other decisions between steps: the training goes on as if they had not changed.

use std::time::Duration;

use burn::optim::AdamWConfig;
use burn::prelude::*;
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::policy::{Policy, PolicyError};
use lynx_burn::{BuildError, Overlap, ReplanError, TrainerBuilder};
use lynx_tests::oracle::{Plain, assert_same_bytes, parameter_values};
use lynx_tests::overlap::Dice;
use lynx_tests::shares::{PER_LAYER, SharesSpec};
use lynx_tests::watchdog::within;

const LAYERS: usize = 2;
const SEGMENTS: usize = LAYERS * PER_LAYER;
const MICRO_BATCHES: usize = 3;

/// A policy and how many segments of a layer it recomputes.
const POLICIES: [(&str, usize); 5] = [
    ("recompute", 4),
    ("retain", 0),
    ("selective:up,narrow", 2),
    ("uniform:1", 4),
    ("selective:down,wide", 2),
];

fn policy(text: &str) -> Policy {
    text.parse().expect("a policy")
}

/// One list per stage, of this for every segment.
fn all(stages: usize, advance: Advance) -> Vec<Vec<Advance>> {
    vec![vec![advance; SEGMENTS / stages]; stages]
}

#[test]
fn a_trainer_that_is_replanned_between_steps_learns_the_same_bits() {
    within(Duration::from_secs(200), || {
        let device = Device::flex().autodiff();
        let spec = SharesSpec::new(LAYERS);
        let model = spec.init(&device);
        let mut dice = Dice(3);
        for ranks in [1, 2] {
            for stages in [1, 2] {
                let builder = || {
                    let speed = "100MB/s,100us".parse().expect("a speed");
                    let builder = TrainerBuilder::new().stages(stages).ranks(ranks);
                    builder.seed(5).link(speed).collective_link(speed)
                };
                let make = |builder: TrainerBuilder| {
                    let optimizer = AdamWConfig::new().init();
                    builder.train(model.clone(), optimizer).expect("it fits")
                };
                let (mut one, mut other) = (make(builder()), make(builder()));
                let mut plain = Plain::new(model.clone(), AdamWConfig::new().init(), 5);
                for step in 0..20 {
                    let (text, recomputed) = POLICIES[step % POLICIES.len()];
                    let (overlap, ahead) = match dice.roll(3) {
                        0 => (Overlap::Never, None),
                        1 => (Overlap::Opportunistic, None),
                        _ => {
                            let of = [Advance::Always, Advance::CoolDown, Advance::Never];
                            (Overlap::Planned, Some(all(stages, *dice.pick(&of))))
                        }
                    };
                    let what = format!("tp={ranks} p={stages} step {step}: {text} {overlap:?}");
                    let planned = other.replan(&policy(text), overlap, ahead);
                    planned.expect("it fits");
                    let batches = || (0..MICRO_BATCHES).map(|_| spec.batch(3, &device));
                    let batches: Vec<_> = batches().collect();
                    let expected = one.step(0.01, batches.clone()).expect("a step").backward;
                    let found = other.step(0.01, batches.clone()).expect("a step").backward;
                    assert_eq!(found.losses, expected.losses, "{what}");
                    if ranks == 1 {
                        assert_eq!(found.losses, plain.step(0.01, &batches), "{what}");
                    }
                    let each = MICRO_BATCHES * ranks * LAYERS * recomputed;
                    assert_eq!(found.recomputed(), each as u64, "{what}");
                    assert_eq!(expected.recomputed(), 0);
                }
                let what = format!("tp={ranks} p={stages}");
                let expected = one.parameters().expect("parameters");
                let found = other.parameters().expect("parameters");
                assert_same_bytes(&what, &found, &expected);
                if ranks == 1 {
                    assert_same_bytes(&what, &found, &parameter_values(&plain.model));
                }
            }
        }
    });
}

/// Gradients that are not applied yet stay, whatever is cut and recomputed from here on.
#[test]
fn gradients_outlive_a_change_of_plan() {
    within(Duration::from_secs(100), || {
        let device = Device::flex().autodiff();
        let spec = SharesSpec::new(LAYERS);
        for ranks in [1, 2] {
            let builder = TrainerBuilder::new().stages(2).ranks(ranks);
            let mut trainer = builder
                .train(spec.init(&device), AdamWConfig::new().init())
                .expect("it fits");
            trainer
                .backward(vec![spec.batch(3, &device)])
                .expect("a backward");
            let before = trainer.gradients().expect("gradients");
            assert!(!before.is_empty());
            for (text, _) in POLICIES {
                let planned = trainer.replan(&policy(text), Overlap::Never, None);
                planned.expect("it fits");
                let after = trainer.gradients().expect("gradients");
                assert_same_bytes(text, &after, &before);
            }
        }
    });
}

#[test]
fn a_plan_that_does_not_fit_changes_nothing() {
    within(Duration::from_secs(100), || {
        let device = Device::flex().autodiff();
        let spec = SharesSpec::new(LAYERS);
        for ranks in [1, 2] {
            let builder = TrainerBuilder::new().stages(2).ranks(ranks);
            let mut trainer = builder
                .policy(policy("selective:up"))
                .train(spec.init(&device), AdamWConfig::new().init())
                .expect("it fits");
            let before = trainer.parameters().expect("parameters");
            let error = trainer
                .replan(&policy("selective:attention"), Overlap::Never, None)
                .expect_err("no such segment");
            assert!(
                matches!(
                    &error,
                    ReplanError::Build(BuildError::Policy(PolicyError::UnknownSegment { name, .. }))
                        if name == "attention"
                ),
                "{error}"
            );
            let error = trainer
                .replan(&Policy::RetainAll, Overlap::Planned, None)
                .expect_err("nothing planned");
            assert!(
                matches!(error, ReplanError::Build(BuildError::NothingPlanned)),
                "{error}"
            );
            let short = Some(all(2, Advance::Always).split_off(1));
            let error = trainer
                .replan(&Policy::RetainAll, Overlap::Planned, short)
                .expect_err("of one stage");
            assert!(
                matches!(
                    error,
                    ReplanError::Build(BuildError::AheadStages {
                        given: 1,
                        stages: 2
                    })
                ),
                "{error}"
            );
            let after = trainer.parameters().expect("parameters");
            assert_same_bytes("after", &after, &before);
            let report = trainer.step(0.01, vec![spec.batch(3, &device)]);
            let report = report.expect("a step").backward;
            let expected = ranks * LAYERS;
            assert_eq!(report.recomputed(), expected as u64, "`up` as before");
        }
    });
}
