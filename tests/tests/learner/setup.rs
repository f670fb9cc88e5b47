//! A net, what it learns from, and its training under a learner.

use std::path::Path;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::optim::lr_scheduler::linear::LinearLrSchedulerConfig;
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::prelude::*;
use burn::train::metric::{LearningRateMetric, LossMetric};
use burn::train::renderer::MetricsRenderer;
use burn::train::{Interrupter, Learner, SupervisedTraining};
use lynx_burn::learner::{Learnable, StepMetric};
use lynx_burn::{MicroBatch, TrainerBuilder};
use lynx_tests::chains::{Net, NetSpec, Step};

use crate::seen::{Impatient, Log};

/// Steps of an epoch.
pub(crate) const STEPS: u64 = 5;
pub(crate) const RATE: f64 = 0.02;

pub(crate) fn spec() -> NetSpec {
    let steps = [Step::Norm, Step::Dense, Step::Drop, Step::Tanh, Step::Dense];
    NetSpec::new(steps)
}

/// Micro-batches that follow from the number of their step: three, of which one is smaller.
pub(crate) fn item(number: u64) -> Vec<MicroBatch<Net>> {
    let device = Device::flex();
    let part = |part: u64, samples: usize| {
        let mut batch = spec().batch(samples, &device);
        let value = |index: usize| {
            ((index as u64 * 7919 + number * 104_729 + part * 31) % 2003) as f32 / 1000.0 - 1.0
        };
        let values: Vec<f32> = (0..samples * 8).map(value).collect();
        let values = Tensor::<2>::from_data(TensorData::new(values, [samples, 8]), &device);
        batch.input.hidden = values.clone();
        batch.target = values.sin();
        batch
    };
    vec![part(0, 4), part(1, 3), part(2, 4)]
}

struct Items;

impl Batcher<u64, Vec<MicroBatch<Net>>> for Items {
    fn batch(&self, numbers: Vec<u64>, _: &Device) -> Vec<MicroBatch<Net>> {
        item(numbers[0])
    }
}

pub(crate) fn loader(numbers: std::ops::Range<u64>) -> Arc<dyn DataLoader<Vec<MicroBatch<Net>>>> {
    DataLoaderBuilder::new(Items)
        .batch_size(1)
        .build(InMemDataset::new(numbers.collect()))
}

pub(crate) fn optimizer() -> ModuleOptimizer {
    AdamWConfig::new().init()
}

/// Falls with each step: a scheduler that lost its place would show.
pub(crate) fn learner(model: Net) -> Learner<Learnable<Net>> {
    let rates = LinearLrSchedulerConfig::new(RATE, RATE / 10.0, 40);
    let rates = rates.init().expect("rates");
    Learner::new(Learnable::new(model), optimizer(), rates)
}

pub(crate) fn builder(stages: usize, policy: &str) -> TrainerBuilder {
    TrainerBuilder::new()
        .stages(stages)
        .policy(policy.parse().expect("a policy"))
}

/// Training of the net, told to `log`.
pub(crate) fn training(folder: &Path, log: &Log) -> SupervisedTraining<Learnable<Net>> {
    let patient = Impatient {
        items: usize::MAX,
        interrupter: Interrupter::new(),
    };
    SupervisedTraining::new(folder, loader(0..STEPS), loader(100..102))
        .metrics((LossMetric::new(),))
        .metric_train_numeric(LearningRateMetric::new())
        .metric_train_numeric(StepMetric::retained())
        .with_metric_logger(log.clone())
        .with_application_logger(None)
        .renderer(Box::new(patient) as Box<dyn MetricsRenderer>)
}

pub(crate) fn bytes(model: &Net) -> Vec<u8> {
    let record = model.clone().into_record();
    record.into_bytes().expect("a record").to_vec()
}

pub(crate) fn model() -> Net {
    let device = Device::flex().autodiff();
    spec().init(&device)
}
