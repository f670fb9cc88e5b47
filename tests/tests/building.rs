//! How a trainer is made: from a whole model or stage by stage, and what is refused.

use std::time::Duration;

use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamWConfig, SgdConfig};
use burn::prelude::*;
use lynx_burn::{BuildError, MicroBatch, Split, TrainerBuilder};
use lynx_tests::chains::{Net, NetSpec, Step};
use lynx_tests::oracle::parameter_values;
use lynx_tests::watchdog::within;

fn device() -> Device {
    Device::flex().autodiff()
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
        let batch = || spec.batch(2, &device());
        trainer.step(0.01, vec![batch(), batch()]).expect("a step");
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
        fn loss(&self, output: Tensor<2>, target: Tensor<2>, _: &Context) -> Tensor<1> {
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
        fn loss(&self, output: Tensor<2>, target: Tensor<2>, _: &Context) -> Tensor<1> {
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
