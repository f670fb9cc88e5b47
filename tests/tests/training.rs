//! Whole training runs: optimizers, clipping, uneven micro-batches, tied parameters.

use std::collections::BTreeMap;
use std::time::Duration;

use burn::optim::{
    AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig, momentum::MomentumConfig,
};
use burn::prelude::*;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::{MicroBatch, TrainerBuilder};
use lynx_tests::chains::{Net, NetSpec, Step};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes, parameter_values};
use lynx_tests::watchdog::within;

fn device() -> Device {
    Device::flex().autodiff()
}

fn batches(spec: &NetSpec, sizes: &[usize]) -> Vec<MicroBatch<Net>> {
    sizes.iter().map(|&n| spec.batch(n, &device())).collect()
}

const STEPS: [Step; 6] = [
    Step::Open,
    Step::Norm,
    Step::Dense,
    Step::Drop,
    Step::Close,
    Step::Dense,
];

#[test]
fn twenty_steps_of_any_optimizer_end_with_plain_burns_parameters() {
    type Make = fn() -> ModuleOptimizer;
    let optimizers: [(&str, Make); 3] = [
        ("sgd", || {
            SgdConfig::new()
                .with_momentum(Some(MomentumConfig::new()))
                .init()
        }),
        ("adamw", || AdamWConfig::new().with_weight_decay(0.1).init()),
        ("lion", || burn::optim::LionConfig::new().init()),
    ];
    within(Duration::from_secs(120), move || {
        for (name, optimizer) in optimizers {
            for (stages, text, clip) in [
                (1, "recompute", 0.05),
                (3, "selective:dense", 0.05),
                (2, "retain", 1e6),
            ] {
                let spec = NetSpec::new(STEPS);
                let model = spec.init(&device());
                let mut plain = Plain::new(model.clone(), optimizer(), 5).clip_norm(clip);
                let mut trainer = TrainerBuilder::new()
                    .stages(stages)
                    .policy(text.parse::<Policy>().expect("a policy"))
                    .clip_norm(clip)
                    .seed(5)
                    .train(model, optimizer())
                    .expect("it fits");
                let mut clipped = 0;
                for _ in 0..20 {
                    let batches = batches(&spec, &[3, 2, 2]);
                    let expected = plain.step(0.01, &batches);
                    let report = trainer.step(0.01, batches).expect("a step");
                    assert_eq!(report.backward.losses, expected, "{name}");
                    let norm = report.update.gradient_norm.expect("with clipping");
                    clipped += u32::from(norm > clip);
                }
                assert_eq!(
                    clipped > 0,
                    clip < 1.0,
                    "{name}: {clipped} steps were clipped"
                );
                let found = trainer.parameters().expect("parameters");
                assert_same_bytes(name, &found, &parameter_values(&plain.model));
            }
        }
    });
}

/// Case 14: eight samples in three micro-batches are one batch of eight.
#[test]
fn uneven_micro_batches_give_the_loss_and_gradients_of_the_undivided_batch() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Dense, Step::Norm, Step::Dense]);
        let model = spec.init(&device());
        let whole = spec.batch(8, &device());
        let part = |from: usize, to: usize| {
            let rows = |t: &Tensor<2>| t.clone().slice_dim(0, from..to);
            let mut part = whole.clone();
            part.input.hidden = rows(&whole.input.hidden);
            part.input.scale.0 = rows(&whole.input.scale.0);
            part.input.blank = whole.input.blank.clone().slice_dim(0, from..to);
            part.input.rows = Tensor::arange(0..(to - from) as i64, &device());
            part.target = rows(&whole.target);
            part.weight = to - from;
            part
        };
        let plain = Plain::new(model.clone(), SgdConfig::new().init(), 0);
        let undivided = plain.backward(std::slice::from_ref(&whole));
        let mut trainer = TrainerBuilder::new()
            .stages(3)
            .train(model, SgdConfig::new().init())
            .expect("it fits");
        let report = trainer
            .backward(vec![part(0, 3), part(3, 6), part(6, 8)])
            .expect("a backward");
        assert!(
            (report.loss - undivided.losses[0]).abs() < 1e-6,
            "{}",
            report.loss
        );
        let expected = gradient_bytes(&plain.model, &undivided.gradients);
        for (path, found) in trainer.gradients().expect("gradients") {
            close(&path, &found, &expected[&path], 1e-5);
        }
    });
}

fn close(what: &str, found: &TensorData, expected: &TensorData, relative: f64) {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(
        &mut found
            .iter::<f64>()
            .zip(expected.iter::<f64>())
            .map(|(a, b)| a - b),
    );
    let size = norm(&mut expected.iter::<f64>());
    assert!(
        difference <= relative * size,
        "{what}: {difference} of {size}"
    );
}

/// Case 16: a parameter tied across stages. The uncut model adds its contributions within each
/// micro-batch; two stages can only add what each has summed. So there are two oracles: one that
/// adds in that order, to the bit, and plain Burn, closely.
#[test]
fn a_parameter_tied_across_stages_stays_equal_on_both_and_equal_to_the_oracle() {
    within(Duration::from_secs(120), || {
        let spec = NetSpec::new(vec![Step::Shared, Step::Dense, Step::Norm, Step::Shared]);
        for kind in [Kind::GPipe, Kind::OneFOneB] {
            for text in ["retain", "recompute"] {
                let model = spec.init(&device());
                let mut plain = Plain::new(model.clone(), AdamWConfig::new().init(), 0);
                let mut oracle = SummedByStage::new(model.clone(), [0, 3]);
                let mut trainer = TrainerBuilder::new()
                    .stages(2)
                    .schedule(kind)
                    .policy(text.parse::<Policy>().expect("a policy"))
                    .train(model, AdamWConfig::new().init())
                    .expect("it fits");
                assert_eq!(
                    trainer.tied_parameters().collect::<Vec<_>>(),
                    ["shared.bias", "shared.weight"]
                );
                for step in 0..20 {
                    let batches = batches(&spec, &[2, 2, 2]);
                    let close_losses = plain.step(0.01, &batches);
                    oracle.step(0.01, &batches);
                    let report = trainer.step(0.01, batches).expect("a step");
                    for (a, b) in report.backward.losses.iter().zip(&close_losses) {
                        assert!(
                            (a - b).abs() <= 1e-6 * b.abs() * f64::from(step + 1),
                            "step {step}: {a} {b}"
                        );
                    }
                }
                let copies: Vec<BTreeMap<String, TensorData>> = trainer
                    .modules()
                    .expect("modules")
                    .iter()
                    .map(parameter_values)
                    .collect();
                for path in ["shared.weight", "shared.bias"] {
                    assert_eq!(
                        copies[0][path].as_bytes(),
                        copies[1][path].as_bytes(),
                        "{path}"
                    );
                }
                let found = trainer.parameters().expect("parameters");
                assert_same_bytes(text, &found, &parameter_values(&oracle.plain.model));
                for (path, expected) in parameter_values(&plain.model) {
                    // Adam divides by gradients that can be tiny, so parameters differ by more
                    // than gradients do.
                    close(&path, &found[&path], &expected, 1e-4);
                }
            }
        }
    });
}

/// Adds a shared parameter's contributions as two stages do: each use over all micro-batches
/// first, then the two sums.
struct SummedByStage {
    plain: Plain<Net>,
    uses: [usize; 2],
}

impl SummedByStage {
    fn new(model: Net, uses: [usize; 2]) -> Self {
        Self {
            plain: Plain::new(model, AdamWConfig::new().init(), 0),
            uses,
        }
    }

    fn step(&mut self, learning_rate: f64, batches: &[MicroBatch<Net>]) {
        let [first, mut second] = self.uses.map(|segment| {
            let model = self.plain.model.clone().learning_shared_in(segment);
            Plain::new(model, SgdConfig::new().init(), 0)
                .backward(batches)
                .gradients
        });
        // All other gradients are in both; of the second, only the shared layer's are wanted.
        let mut shared = GradientsParams::new();
        let layer = self.plain.model.shared().expect("a shared layer");
        let bias = layer.bias.as_ref().expect("a bias").id;
        shared.register(
            layer.weight.id,
            second.remove::<2>(layer.weight.id).expect("used"),
        );
        shared.register(bias, second.remove::<1>(bias).expect("used"));
        self.plain.apply(learning_rate, vec![first, shared]);
    }
}

#[test]
fn gradients_tied_across_stages_are_within_a_millionth_of_plain_burns() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Shared, Step::Dense, Step::Norm, Step::Shared]);
        let model = spec.init(&device());
        let batches = batches(&spec, &[2, 3, 2, 4]);
        let plain = Plain::new(model.clone(), SgdConfig::new().init(), 0);
        let expected = gradient_bytes(&model, &plain.backward(&batches).gradients);
        let mut trainer = TrainerBuilder::new()
            .stages(2)
            .train(model, SgdConfig::new().init())
            .expect("it fits");
        trainer.backward(batches).expect("a backward");
        for (path, found) in trainer.gradients().expect("gradients") {
            close(&path, &found, &expected[&path], 1e-6);
        }
    });
}
