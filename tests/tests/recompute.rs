//! What recomputing does, counts and refuses.

use std::time::Duration;

use burn::optim::{AdamWConfig, SgdConfig};
use burn::prelude::*;
use lynx_burn::ids::SegmentId;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::{BuildError, TrainerBuilder};
use lynx_tests::chains::{NetSpec, Step};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes};
use lynx_tests::watchdog::within;

fn device() -> Device {
    Device::flex().autodiff()
}

fn policy(text: &str) -> Policy {
    text.parse().expect("a policy")
}

/// Compares one step with plain Burn and returns how often each segment's forward ran.
fn compare(spec: &NetSpec, stages: usize, micro_batches: usize, text: &str) -> Vec<u64> {
    let model = spec.init(&device());
    let batches: Vec<_> = (0..micro_batches)
        .map(|_| spec.batch(3, &device()))
        .collect();
    let plain = Plain::new(model.clone(), SgdConfig::new().init(), 1);
    let expected = plain.backward(&batches);
    let calls = model.calls.clone();
    let mut trainer = TrainerBuilder::new()
        .stages(stages)
        .policy(policy(text))
        .seed(1)
        .train(model, SgdConfig::new().init())
        .expect("it fits");
    calls.take();
    let report = trainer.backward(batches).expect("a backward");
    let calls = calls.take();
    let gradients = trainer.gradients().expect("gradients");
    assert_same_bytes(
        text,
        &gradients,
        &gradient_bytes(&plain.model, &expected.gradients),
    );
    // The report's counts are the calls beyond the first forward.
    let reported: Vec<u64> = report
        .stages
        .iter()
        .flat_map(|stage| stage.recomputed.iter().map(|(_, count)| *count))
        .collect();
    let extra: Vec<u64> = calls
        .iter()
        .map(|&calls| calls - micro_batches as u64)
        .collect();
    assert_eq!(reported, extra, "{text}");
    calls
}

#[test]
fn every_segment_runs_exactly_as_often_as_its_policy_says() {
    use Step::{Close, Dense, Drop, Norm, Open};
    // The first segment must have something to learn: before that, nothing is recomputed.
    let mut spec = NetSpec::new([Norm, Open, Dense, Drop, Close].repeat(2));
    spec.per_layer = 5;
    within(Duration::from_secs(60), move || {
        for (stages, m) in [(1, 1), (1, 3), (2, 4)] {
            let m = m as u64;
            let (once, twice) = (m, 2 * m);
            let cases = [
                ("retain", vec![once; 10]),
                ("recompute", vec![twice; 10]),
                ("uniform:2", vec![twice; 10]),
                ("every:2", [vec![twice; 5], vec![once; 5]].concat()),
                (
                    "selective:dense,drop",
                    [once, once, twice, twice, once].repeat(2),
                ),
            ];
            for (text, expected) in cases {
                assert_eq!(compare(&spec, stages, m as usize, text), expected, "{text}");
            }
        }
        assert_eq!(
            compare(&spec, 2, 3, "hand:KKRRK/RKKKR"),
            [3, 3, 6, 6, 3, 6, 3, 3, 3, 6]
        );
    });
}

/// Case 4 of the collected faults: an input that is still linked to the tape before it makes the
/// gradients of earlier segments count several times.
#[test]
fn three_recomputed_segments_in_a_row_do_not_multiply_gradients() {
    let spec = NetSpec::new(vec![Step::Dense; 4]);
    within(Duration::from_secs(60), move || {
        for text in ["recompute", "hand:RRRK", "hand:KRRR"] {
            compare(&spec, 1, 2, text);
        }
    });
}

/// Case 3: a backward that reached a recomputed segment's input, but not its parameters.
#[test]
fn every_parameter_of_every_segment_has_a_gradient() {
    use Step::{Dense, Norm, Shared};
    let spec = NetSpec::new(vec![Dense, Norm, Shared, Dense]);
    within(Duration::from_secs(60), move || {
        let model = spec.init(&device());
        let mut trainer = TrainerBuilder::new()
            .stages(2)
            .policy(Policy::RecomputeAll)
            .train(model, SgdConfig::new().init())
            .expect("it fits");
        trainer
            .backward(vec![spec.batch(3, &device()); 2])
            .expect("a backward");
        let gradients = trainer.gradients().expect("gradients");
        let parameters = trainer.parameters().expect("parameters");
        assert!(
            parameters.len() == 8 && gradients.len() == 8,
            "{:?}",
            gradients.keys()
        );
        for (path, gradient) in gradients {
            assert!(gradient.iter::<f32>().any(|value| value != 0.0), "{path}");
        }
    });
}

/// Case 8: one parameter used by two segments.
#[test]
fn a_parameter_of_two_segments_gets_the_sum_of_its_gradients_and_one_step() {
    use Step::{Dense, Shared};
    let spec = NetSpec::new(vec![Shared, Dense, Shared, Shared]);
    within(Duration::from_secs(60), move || {
        for text in ["retain", "recompute", "hand:KRKR"] {
            let model = spec.init(&device());
            let mut plain = Plain::new(model.clone(), AdamWConfig::new().init(), 0);
            let mut trainer = TrainerBuilder::new()
                .policy(policy(text))
                .train(model, AdamWConfig::new().init())
                .expect("it fits");
            for _ in 0..5 {
                let batches: Vec<_> = (0..3).map(|_| spec.batch(2, &device())).collect();
                let expected = plain.step(0.01, &batches);
                let report = trainer.step(0.01, batches).expect("a step");
                assert_eq!(report.backward.losses, expected, "{text}");
            }
            assert_same_bytes(
                text,
                &trainer.parameters().expect("parameters"),
                &lynx_tests::oracle::parameter_values(&plain.model),
            );
        }
    });
}

/// Case 18: what carries no gradient must not stop one.
#[test]
fn masks_and_positions_ride_along_without_a_gradient() {
    use Step::{Dense, Mask, Norm};
    let spec = NetSpec::new(vec![Mask, Dense, Mask, Norm, Mask, Dense]);
    within(Duration::from_secs(60), move || {
        for text in ["retain", "recompute", "selective:mask"] {
            for stages in [1, 2, 3] {
                compare(&spec, stages, 2, text);
            }
        }
    });
}

#[test]
fn frozen_parameters_stop_nothing_else() {
    use Step::{Close, Dense, Norm, Open};
    let mut spec = NetSpec::new(vec![Norm, Dense, Open, Dense, Close, Dense, Norm, Dense]);
    within(Duration::from_secs(120), move || {
        for frozen in [
            vec![0],
            vec![0, 1],
            vec![0, 1, 2, 3],
            vec![3],
            vec![5, 6, 7],
            vec![1, 5],
        ] {
            spec.frozen = frozen;
            for text in ["retain", "recompute", "hand:KRRK/RRKR", "every:2"] {
                let stages = if text.contains('/') { 2 } else { 4 };
                let calls = compare(&spec, stages, 3, text);
                // What lies before everything trainable has nothing to recompute for.
                let idle = (0..8)
                    .take_while(|s| spec.frozen.contains(s) || *s == 2)
                    .count();
                assert!(
                    calls[..idle].iter().all(|&calls| calls == 3),
                    "{text} {calls:?}"
                );
            }
        }
    });
}

#[test]
fn a_wholly_frozen_model_is_refused() {
    let mut spec = NetSpec::new(vec![Step::Dense; 2]);
    spec.frozen = vec![0, 1];
    let error = TrainerBuilder::new()
        .train(spec.init(&device()), SgdConfig::new().init())
        .expect_err("nothing to learn");
    assert!(matches!(error, BuildError::NothingTrainable), "{error}");
}

/// Cases 1 and 6: what draws from Burn's generator, or counts its forwards, would do something
/// else the second time.
#[test]
fn burns_own_dropout_is_refused_in_a_recomputed_segment_and_allowed_elsewhere() {
    use Step::{BurnDrop, Dense};
    let spec = NetSpec::new(vec![Dense, BurnDrop, Dense]);
    let build = |text: &str| {
        TrainerBuilder::new()
            .policy(policy(text))
            .train(spec.init(&device()), SgdConfig::new().init())
    };
    for text in ["recompute", "selective:burndrop", "hand:KRK"] {
        let error = build(text).expect_err("it would drop other elements");
        assert!(
            matches!(&error, BuildError::NotRepeatable { segment: 1, kind, .. } if kind == "Dropout"),
            "{error}"
        );
        assert!(
            error.to_string().contains("lynx_burn::nn::Dropout"),
            "{error}"
        );
    }
    for text in ["retain", "selective:dense", "hand:RKR"] {
        build(text).expect("it runs once");
    }
}

#[test]
fn noise_and_batch_normalisation_are_refused_too() {
    use lynx_burn::plan::layout::Segment;
    use lynx_burn::{Chain, Context};

    #[derive(Module, Debug)]
    struct Unrepeatable {
        linear: burn::nn::Linear,
        noise: Option<burn::nn::GaussianNoise>,
        norm: Option<burn::nn::BatchNorm>,
    }
    impl Chain for Unrepeatable {
        type Boundary = Tensor<2>;
        type Target = Tensor<2>;
        fn segments(&self) -> Vec<Segment> {
            vec![Segment::outside("all")]
        }
        fn keep(self, _: std::ops::Range<usize>) -> Self {
            self
        }
        fn forward_segment(&self, _: usize, input: Tensor<2>, _: &Context) -> Tensor<2> {
            self.linear.forward(input)
        }
        fn loss(&self, output: Tensor<2>, target: Tensor<2>, _: &Context) -> Tensor<1> {
            (output - target).square().mean()
        }
    }
    let make = |noise: bool, norm: bool| Unrepeatable {
        linear: burn::nn::LinearConfig::new(2, 2).init(&device()),
        noise: noise.then(|| burn::nn::GaussianNoiseConfig::new(0.1).init()),
        norm: norm.then(|| burn::nn::BatchNormConfig::new(2).init(&device())),
    };
    let build = |model: Unrepeatable, policy: Policy| {
        TrainerBuilder::new()
            .policy(policy)
            .train(model, SgdConfig::new().init())
    };
    for (model, wanted) in [
        (make(true, false), "GaussianNoise"),
        (make(false, true), "BatchNorm"),
    ] {
        let error = build(model.clone(), Policy::RecomputeAll).expect_err("not repeatable");
        assert!(error.to_string().contains(wanted), "{error}");
        build(model.clone(), Policy::RetainAll).expect("it runs once");
        // Frozen, it does the same every time. The linear layer stays trainable.
        let mut frozen = model.freeze();
        frozen.linear = frozen.linear.unfreeze();
        build(frozen, Policy::RecomputeAll).expect("frozen");
    }
    build(make(false, false), Policy::RecomputeAll).expect("nothing random");
}

/// Case 1: the same masks in forward, recompute and backward, for any timing of the threads.
#[test]
fn dropout_is_the_same_whatever_is_recomputed_and_whenever() {
    use Step::{Dense, Drop};
    let spec = NetSpec::new(vec![Drop, Dense, Drop, Dense, Drop]);
    within(Duration::from_secs(120), move || {
        let model = spec.init(&device());
        let batches: Vec<_> = (0..4).map(|_| spec.batch(3, &device())).collect();
        let run = |stages: usize, text: &str, kind: Kind, seed: u64| {
            let mut trainer = TrainerBuilder::new()
                .stages(stages)
                .policy(policy(text))
                .schedule(kind)
                .seed(seed)
                .train(model.clone(), SgdConfig::new().init())
                .expect("it fits");
            trainer.backward(batches.clone()).expect("a backward");
            trainer.gradients().expect("gradients")
        };
        let expected = run(1, "retain", Kind::OneFOneB, 3);
        for _ in 0..10 {
            for (stages, text, kind) in [
                (5, "recompute", Kind::OneFOneB),
                (3, "selective:drop", Kind::GPipe),
                (2, "uniform:2", Kind::OneFOneB),
            ] {
                assert_same_bytes(text, &run(stages, text, kind, 3), &expected);
            }
        }
        let other = run(1, "retain", Kind::OneFOneB, 4);
        assert!(
            expected
                .iter()
                .any(|(path, data)| data.as_bytes() != other[path].as_bytes()),
            "another seed drops other elements"
        );
    });
}

#[test]
fn a_report_names_the_segments_of_the_whole_chain() {
    let spec = NetSpec::new(vec![Step::Dense; 4]);
    within(Duration::from_secs(60), move || {
        let mut trainer = TrainerBuilder::new()
            .stages(2)
            .policy(policy("hand:KK/KR"))
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        let report = trainer
            .backward(vec![spec.batch(2, &device())])
            .expect("a backward");
        assert_eq!(
            report.stages[1].recomputed,
            [(SegmentId(2), 0), (SegmentId(3), 1)]
        );
        assert_eq!(report.recomputed(), 1);
    });
}
