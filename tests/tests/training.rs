//! Whole training runs: optimizers, clipping, uneven micro-batches, tied parameters, devices.

use std::collections::BTreeMap;
use std::time::Duration;

use burn::nn::{Linear, LinearConfig};
use burn::optim::{
    AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig, momentum::MomentumConfig,
};
use burn::prelude::*;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::{BuildError, MicroBatch, Split, TrainerBuilder};
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

/// Parts built stage by stage: tied ones begin with the first stage's values.
#[test]
fn stages_can_be_built_one_by_one() {
    within(Duration::from_secs(60), || {
        let spec = NetSpec::new(vec![Step::Shared, Step::Dense, Step::Shared, Step::Dense]);
        let segments = lynx_burn::Chain::segments(&spec.init(&device()));
        let mut ranges = Vec::new();
        let mut trainer = TrainerBuilder::new()
            .split(Split::Layers(vec![1, 3]))
            .train_parts::<Net, BuildError>(segments, AdamWConfig::new().init(), |range, device| {
                ranges.push(range.clone());
                Ok(lynx_burn::Chain::keep(spec.init(device), range))
            })
            .expect("it fits");
        assert_eq!(ranges, [0..1, 1..4]);
        trainer.step(0.01, batches(&spec, &[2, 2])).expect("a step");
        let copies: Vec<_> = trainer
            .modules()
            .expect("modules")
            .iter()
            .map(parameter_values)
            .collect();
        assert_eq!(
            copies[0]["shared.weight"].as_bytes(),
            copies[1]["shared.weight"].as_bytes()
        );
    });
}

#[test]
fn a_stage_creates_only_its_own_parameters() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use burn::module::{Param, ParamId};
    use lynx_burn::plan::layout::Segment;
    use lynx_burn::{Chain, Context};

    #[derive(Module, Debug)]
    struct Lazy {
        weights: Vec<Option<Param<Tensor<2>>>>,
    }
    impl Chain for Lazy {
        type Boundary = Tensor<2>;
        type Target = Tensor<2>;
        fn segments(&self) -> Vec<Segment> {
            (0..self.weights.len())
                .map(|layer| Segment::in_layer(layer, "product"))
                .collect()
        }
        fn keep(mut self, range: std::ops::Range<usize>) -> Self {
            for (index, weight) in self.weights.iter_mut().enumerate() {
                if !range.contains(&index) {
                    *weight = None;
                }
            }
            self
        }
        fn forward_segment(&self, index: usize, input: Tensor<2>, _: &Context) -> Tensor<2> {
            input.matmul(self.weights[index].as_ref().expect("kept").val())
        }
        fn loss(&self, output: Tensor<2>, target: Tensor<2>) -> Tensor<1> {
            (output - target).square().mean()
        }
    }
    within(Duration::from_secs(60), || {
        let made = Arc::new(AtomicUsize::new(0));
        let weights = (0..4)
            .map(|_| {
                let made = made.clone();
                Some(Param::uninitialized(
                    ParamId::new(),
                    move |device, require_grad| {
                        made.fetch_add(1, Ordering::SeqCst);
                        Tensor::ones([2, 2], device).set_require_grad(require_grad)
                    },
                    device(),
                    true,
                    [2, 2].into(),
                ))
            })
            .collect();
        let model = Lazy { weights };
        let mut trainer = TrainerBuilder::new()
            .stages(4)
            .train(model, SgdConfig::new().init())
            .expect("it fits");
        assert_eq!(made.load(Ordering::SeqCst), 4, "each once, none twice");
        let one = || Tensor::<2>::ones([1, 2], &device());
        let batch = MicroBatch {
            input: one(),
            target: one(),
            weight: 1,
        };
        trainer.step(0.1, vec![batch; 2]).expect("a step");
        for (stage, module) in trainer.modules().expect("modules").iter().enumerate() {
            let held: Vec<bool> = module.weights.iter().map(Option::is_some).collect();
            assert_eq!(held, (0..4).map(|layer| layer == stage).collect::<Vec<_>>());
        }
    });
}

#[test]
fn what_is_tied_must_have_one_shape() {
    use lynx_burn::plan::layout::Segment;
    use lynx_burn::{Chain, Context};

    #[derive(Module, Debug)]
    struct One {
        linear: Linear,
    }
    impl Chain for One {
        type Boundary = Tensor<2>;
        type Target = Tensor<2>;
        fn segments(&self) -> Vec<Segment> {
            vec![Segment::in_layer(0, "a"), Segment::in_layer(1, "b")]
        }
        fn keep(self, _: std::ops::Range<usize>) -> Self {
            self
        }
        fn forward_segment(&self, _: usize, input: Tensor<2>, _: &Context) -> Tensor<2> {
            self.linear.forward(input)
        }
        fn loss(&self, output: Tensor<2>, target: Tensor<2>) -> Tensor<1> {
            (output - target).square().mean()
        }
    }
    let segments = vec![Segment::in_layer(0, "a"), Segment::in_layer(1, "b")];
    let error = TrainerBuilder::new()
        .stages(2)
        .train_parts::<One, BuildError>(segments, SgdConfig::new().init(), |range, device| {
            Ok(One {
                linear: LinearConfig::new(2, 2 + range.start).init(device),
            })
        })
        .expect_err("2x2 and 2x3");
    assert!(matches!(error, BuildError::TiedShapes { .. }), "{error}");
}

#[test]
fn decisions_that_do_not_fit_are_refused_with_the_values() {
    let spec = NetSpec::new(vec![Step::Dense; 3]);
    let build = |builder: TrainerBuilder| {
        builder
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect_err("it does not fit")
            .to_string()
    };
    let cases = [
        (TrainerBuilder::new().stages(0), "stage"),
        (TrainerBuilder::new().stages(4), "4"),
        (TrainerBuilder::new().split(Split::Layers(vec![1, 1])), "3"),
        (TrainerBuilder::new().split(Split::Starts(vec![0, 5])), "5"),
        (
            TrainerBuilder::new()
                .stages(2)
                .devices([device(), device(), device()]),
            "3 devices",
        ),
        (TrainerBuilder::new().clip_norm(-1.0), "-1"),
        (TrainerBuilder::new().clip_norm(f64::NAN), "NaN"),
        (
            TrainerBuilder::new().policy("selective:nothing".parse().expect("a policy")),
            "nothing",
        ),
        (
            TrainerBuilder::new().policy("hand:K/K".parse().expect("a policy")),
            "2",
        ),
    ];
    for (builder, wanted) in cases {
        let text = build(builder);
        assert!(text.contains(wanted), "{text:?} does not say {wanted:?}");
    }
}
