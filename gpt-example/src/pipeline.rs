//! From options to a model cut into stages: all that a program does to use `lynx-burn`.

use std::sync::Arc;

use burn::module::ParamGroup;
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::prelude::*;
use lynx_burn::{Chain, NonFinite, Observer, Trainer, TrainerBuilder};

use crate::cli::{TrainArgs, TrainingArgs};
use crate::error::RunError;
use crate::model::Gpt;
use crate::orders::Orders;
use crate::pretrained::Pretrained;

/// Cuts the model into stages; each makes its own part on its own device.
///
/// # Errors
///
/// If the options do not fit the model.
pub fn build(
    args: &TrainArgs,
    devices: &[Device],
    orders: Orders,
) -> Result<Trainer<Gpt>, RunError> {
    build_from(args, devices, orders, (None, None))
}

/// As [`build`], with weights to begin with, and somebody who is told of every action.
///
/// Each stage reads its own weights, on its own device.
///
/// # Errors
///
/// If the options do not fit the model, or the weights cannot be read.
pub fn build_from(
    args: &TrainArgs,
    devices: &[Device],
    orders: Orders,
    (weights, observer): (Option<&Pretrained>, Option<Arc<dyn Observer>>),
) -> Result<Trainer<Gpt>, RunError> {
    let config = &args.config();
    let training = &args.training;
    let mut builder = TrainerBuilder::new()
        .split(args.split())
        .policy(args.pipeline.policy.clone())
        .schedule(args.pipeline.schedule)
        .devices(devices.iter().cloned())
        .ranks(args.overlap.tp)
        .replicas(args.overlap.replicas)
        .overlap(orders.overlap)
        .memory_budgets(orders.memory_budgets)
        .single_threaded(args.overlap.one_core_each)
        .seed(training.seed);
    if let Some(allowed) = orders.ahead {
        builder = builder.ahead(allowed);
    }
    if let Some(schedule) = orders.schedule {
        // Forwards that run ahead send more than one boundary before the next stage looks.
        builder = builder
            .mailbox_capacity(schedule.micro_batches)
            .schedule_given(schedule);
    }
    if let Some(speed) = args.pipeline.link {
        builder = builder.link(speed);
    }
    if let Some(speed) = args.overlap.collective_link {
        builder = builder.collective_link(speed);
    }
    if let Some(speed) = args.overlap.replica_link {
        builder = builder.replica_link(speed);
    }
    if training.clip > 0.0 {
        builder = builder.clip_norm(training.clip);
    }
    if training.skip_non_finite {
        builder = builder.non_finite(NonFinite::SkipUpdate);
    }
    if let Some(observer) = observer {
        builder = builder.observer(observer);
    }
    let segments = Gpt::segments_of(config.layers);
    builder.train_parts(segments, optimizer(training), |range, device| {
        let gpt = Gpt::new(config, training.seed, device)?;
        let part = gpt.with_modules(args.model.modules).keep(range);
        Ok(match weights {
            None => part,
            Some(weights) => weights.load(part, device)?,
        })
    })
}

/// AdamW whose weight decay spares everything but matrices: a bias or a norm's scale is no
/// weight that could be too large for its inputs.
fn optimizer(training: &TrainingArgs) -> ModuleOptimizer {
    let adam = AdamWConfig::new()
        .with_beta_2(0.95)
        .with_epsilon(1e-8)
        .with_weight_decay(0.0);
    let decayed = adam
        .clone()
        .with_weight_decay(training.weight_decay as f32)
        .build();
    // Only matrices are called `weight`; norms have `gamma` and `beta`.
    adam.init()
        .with_group(ParamGroup::from_predicate(".weight"), decayed, None)
}

/// How many layers each stage holds.
pub fn layers_per_stage(trainer: &Trainer<Gpt>) -> Vec<usize> {
    let layout = trainer.layout();
    trainer
        .partition()
        .ranges()
        .map(|range| {
            let mut layers: Vec<usize> = range.filter_map(|s| layout.layer_of(s)).collect();
            layers.dedup();
            layers.len()
        })
        .collect()
}
