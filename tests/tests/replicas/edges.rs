//! What does not divide, is not a number, or has no gradient on some replica.

use std::ops::Range;

use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamWConfig, SgdConfig};
use burn::prelude::*;
use lynx_burn::plan::layout::Segment;
use lynx_burn::{
    BuildError, Chain, Context, MicroBatch, NonFinite, TrainError, Trainer, TrainerBuilder,
};
use lynx_tests::chains::{Fault, Misbehaviour, Net, NetSpec, Step};
use lynx_tests::gpts::{batches, config, gpt};
use lynx_tests::oracle::{assert_close, assert_same_bytes, parameter_values};
use lynx_tests::watchdog::alone;

use super::{builder, trainer};

#[test]
fn micro_batches_that_do_not_divide_are_refused_with_both_numbers_and_nothing_is_lost() {
    alone(|| {
        let config = config(2, 0.0);
        let mut trainer = trainer(&config, builder(3, 1, 1));
        for count in [1, 2, 4] {
            let error = trainer
                .step(1e-3, batches(&config, 6, count))
                .expect_err("uneven");
            let TrainError::Replicas {
                micro_batches,
                replicas,
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!((micro_batches, replicas), (count, 3));
            assert!(trainer.schedule_for(count).is_err());
        }
        trainer.step(1e-3, batches(&config, 6, 3)).expect("even");
    });
}

#[test]
fn no_replicas_and_too_few_devices_are_refused() {
    alone(|| {
        let config = config(2, 0.0);
        let make = |builder: TrainerBuilder| {
            let made = builder.train(gpt(&config), SgdConfig::new().init());
            made.map(drop)
        };
        let refused = make(builder(0, 1, 1));
        assert!(
            matches!(refused, Err(BuildError::NoReplicas)),
            "{refused:?}"
        );
        for (replicas, ranks) in [(usize::MAX, 1), (1 << 40, 1 << 40), (1, usize::MAX)] {
            let refused = make(builder(replicas, 2, ranks)).expect_err("too many");
            let refused = refused.to_string();
            assert!(refused.contains("at most 65536"), "{refused}");
        }
        let devices = |count: usize| {
            let all = (0..count).map(|_| Device::flex());
            make(builder(3, 2, 2).devices(all.collect::<Vec<_>>()))
        };
        for count in [0, 1, 2, 4, 12] {
            devices(count).expect("one for all, each stage, each rank, each worker");
        }
        for count in [3, 6, 8] {
            let error = devices(count).expect_err("too few").to_string();
            assert!(error.starts_with(&format!("{count} devices")), "{error}");
            assert!(error.contains("3 replicas"), "{error}");
        }
    });
}

fn nets(spec: &NetSpec, builder: TrainerBuilder) -> Trainer<Net> {
    let optimizer = AdamWConfig::new().init();
    let model = spec.init(&Device::flex().autodiff());
    builder.train(model, optimizer).expect("it fits")
}

/// The first micro-batch of the second replica is not a number: neither replica learns from the step.
#[test]
fn a_loss_of_one_replica_that_is_not_a_number_is_the_same_decision_for_all() {
    alone(|| {
        for stages in [1, 2] {
            let mut spec = NetSpec::new(vec![Step::Dense; 4]);
            spec.fault = Some(Fault {
                segment: 1,
                micro_batch: 2,
                kind: Misbehaviour::NotANumber,
            });
            let device = Device::flex();
            let parts = |count: usize| -> Vec<MicroBatch<Net>> {
                (0..count).map(|_| spec.batch(3, &device)).collect()
            };
            let mut strict = nets(&spec, builder(2, stages, 1));
            let before = strict.parameters().expect("values");
            let error = strict.step(0.1, parts(4)).expect_err("not a number");
            assert!(
                matches!(error, TrainError::NonFiniteLoss { step: 0 }),
                "{error}"
            );
            assert_same_bytes("strict", &strict.parameters().expect("values"), &before);

            let lenient = builder(2, stages, 1).non_finite(NonFinite::SkipUpdate);
            let mut lenient = nets(&spec, lenient.clip_norm(1.0));
            let before = lenient.parameters().expect("values");
            let report = lenient.step(0.1, parts(4)).expect("left out");
            assert!(!report.update.applied && report.loss().is_nan());
            assert_same_bytes("lenient", &lenient.parameters().expect("values"), &before);
            // Without the third micro-batch all is well.
            assert!(lenient.step(0.1, parts(2)).expect("a step").update.applied);
            let modules = lenient.modules().expect("modules");
            for stage in 0..stages {
                let [one, other] = [stage, stages + stage].map(|at| parameter_values(&modules[at]));
                assert_same_bytes("replicas", &other, &one);
            }
        }
    });
}

/// A layer for every micro-batch, one for the last, and one for none.
#[derive(Module, Debug)]
struct Sometimes {
    always: Linear,
    last: Linear,
    never: Linear,
    #[module(skip)]
    count: usize,
}

impl Chain for Sometimes {
    type Boundary = Tensor<2>;
    type Target = Tensor<2>;

    fn segments(&self) -> Vec<Segment> {
        vec![Segment::outside("all")]
    }

    fn keep(self, _: Range<usize>) -> Self {
        self
    }

    fn forward_segment(&self, _: usize, input: Tensor<2>, context: &Context) -> Tensor<2> {
        let output = self.always.forward(input);
        match context.micro_batch().0 + 1 == self.count {
            true => self.last.forward(output),
            false => output,
        }
    }

    fn loss(&self, output: Tensor<2>, target: Tensor<2>, _: &Context) -> Tensor<1> {
        (output - target).square().mean()
    }
}

#[test]
fn a_parameter_has_a_gradient_if_it_has_one_on_any_replica() {
    alone(|| {
        let count = 4;
        let device = Device::flex().autodiff();
        let layer = || LinearConfig::new(3, 3).init(&device);
        let model = Sometimes {
            always: layer(),
            last: layer(),
            never: layer(),
            count,
        };
        let parts: Vec<MicroBatch<Sometimes>> = (0..count)
            .map(|index| MicroBatch {
                input: Tensor::full([2, 3], 0.1 + index as f64, &Device::flex()),
                target: Tensor::ones([2, 3], &Device::flex()),
                weight: 2,
            })
            .collect();
        let gradients = |replicas| {
            let optimizer = SgdConfig::new().init();
            let made = TrainerBuilder::new().replicas(replicas);
            let mut trainer = made.train(model.clone(), optimizer).expect("it fits");
            trainer.backward(parts.clone()).expect("a backward");
            trainer.gradients().expect("gradients")
        };
        let expected = gradients(1);
        let names: Vec<&str> = expected.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["always.bias", "always.weight", "last.bias", "last.weight"]
        );
        for replicas in [2, 4] {
            let found = gradients(replicas);
            assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
            for (path, expected) in &expected {
                assert_close(path, &found[path], expected, 1e-6);
            }
            // It is of one micro-batch alone.
            assert_eq!(found["last.weight"], expected["last.weight"]);
        }
    });
}
