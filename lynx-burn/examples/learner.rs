//! The model of `book_model.rs` under Burn's `Learner`: metrics, early stopping, checkpoints and the
//! dashboard are Burn's, steps are taken by a trainer that recomputes.
//!
//! ```text
//! cargo run -p lynx-burn --example learner --features flex,train --release
//! ```
//!
//! On a terminal this shows Burn's dashboard: `q` asks whether to stop.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::prelude::*;
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::metric::{LearningRateMetric, LossMetric};
use burn::train::renderer::MetricsRenderer;
use burn::train::{
    Learner, LearningResult, MetricEarlyStoppingStrategy, StoppingCondition, SupervisedTraining,
};
use lynx_burn::MicroBatch;
use lynx_burn::learner::{Learnable, StepMetric};

#[path = "book_model.rs"]
#[allow(dead_code, reason = "it trains without a learner")]
mod book_model;

use book_model::{Model, builder, pictures};

/// Pictures of a step.
const BATCH: usize = 16;
/// Pictures of a micro-batch.
const PART: usize = 8;

/// Makes the micro-batches of a step from the numbers of its pictures.
struct Parts;

impl Batcher<u64, Vec<MicroBatch<Model>>> for Parts {
    fn batch(&self, numbers: Vec<u64>, _: &Device) -> Vec<MicroBatch<Model>> {
        numbers.chunks(PART).map(pictures).collect()
    }
}

/// Pictures with these numbers, a step at a time.
fn loader(numbers: std::ops::Range<u64>) -> Arc<dyn DataLoader<Vec<MicroBatch<Model>>>> {
    DataLoaderBuilder::new(Parts)
        .batch_size(BATCH)
        .build(InMemDataset::new(numbers.collect()))
}

/// Trains for as many epochs as help, ten at most, and shows it on Burn's renderer for this terminal or
/// another one.
pub(crate) fn train(
    folder: &Path,
    renderer: Option<Box<dyn MetricsRenderer>>,
) -> Result<LearningResult<Learnable<Model>>, Box<dyn Error>> {
    let model = Learnable::new(Model::new(&Device::default()));
    let rates = CosineAnnealingLrSchedulerConfig::new(3e-3, 200).init()?;
    let learner = Learner::new(model, AdamConfig::new().init(), rates);
    let patience = MetricEarlyStoppingStrategy::new(
        &LossMetric::new(),
        Aggregate::Mean,
        Direction::Lowest,
        Split::Valid,
        StoppingCondition::NoImprovementSince { n_epochs: 2 },
    );
    let mut training = SupervisedTraining::new(folder, loader(0..320), loader(1000..1064))
        .metrics((LossMetric::new(),))
        .metric_train_numeric(LearningRateMetric::new())
        .metric_train_numeric(StepMetric::retained())
        .metric_train_numeric(StepMetric::exposed())
        .early_stopping(patience)
        .with_default_checkpointers()
        .num_epochs(10)
        .summary()
        .with_training_strategy(builder().strategy());
    if let Some(renderer) = renderer {
        training = training.renderer(renderer);
    }
    Ok(training.launch(learner))
}

/// The share of pictures of which the model names the class, none of them seen in training.
pub(crate) fn named_rightly(model: &Model) -> f64 {
    let test: Vec<u64> = (2000..2064).collect();
    let test = pictures(&test);
    let classes = model.forward(test.input).argmax(1).flatten(0, 1);
    classes.equal(test.target).float().mean().into_scalar()
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from("runs/learner"));
    let LearningResult {
        model,
        renderer,
        error,
        ..
    } = train(&folder, None)?;
    // A dashboard gives the terminal back, and shows the summary.
    drop(renderer);
    if let Some(error) = error {
        return Err(error.to_string().into());
    }
    let right = named_rightly(&model.into_inner());
    println!(
        "{:.1} % of 64 other pictures are named rightly",
        100.0 * right
    );
    Ok(())
}
