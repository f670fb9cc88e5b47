//! Burn's `Learner` around a chain that is trained under a plan.
//!
//! Burn's [`SupervisedTraining`] counts epochs, computes metrics, shows them, saves, and stops early;
//! how a step is taken, it leaves to a strategy. [`TrainerBuilder::strategy`] makes one that takes
//! steps with a [`Trainer`]: in stages, with activations recomputed, on several ranks.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use burn::{data::dataloader::DataLoader, module::ModuleDisplay, optim::AdamWConfig};
//! # use burn::train::{Learner, SupervisedTraining};
//! # use burn::train::metric::{LearningRateMetric, LossMetric};
//! # use lynx_burn::{Chain, MicroBatch, TrainerBuilder, learner::Learnable, plan::policy::Policy};
//! # type Loader<C> = Arc<dyn DataLoader<Vec<MicroBatch<C>>>>;
//! # fn example<C: Chain + ModuleDisplay>(model: C, train: Loader<C>, valid: Loader<C>) {
//! let builder = TrainerBuilder::new().stages(2).policy(Policy::RecomputeAll);
//! let learner = Learner::new(
//!     Learnable::new(model),
//!     AdamWConfig::new().init(),
//!     burn::lr_scheduler::constant::ConstantLr::new(1e-3),
//! );
//! let result = SupervisedTraining::new("runs/mine", train, valid)
//!     .metrics((LossMetric::new(), LearningRateMetric::new()))
//!     .num_epochs(10)
//!     .with_training_strategy(builder.strategy())
//!     .launch(learner);
//! let model: C = result.model.into_inner();
//! # }
//! ```
//!
//! An item of the data loaders is a step: a `Vec` of [`MicroBatch`](crate::MicroBatch)es. The model is
//! an ordinary one, wrapped in [`Learnable`]. Metrics get a [`StepOutput`]; [`StepMetric`] shows what
//! only a trainer knows: bytes kept, recompute hidden and exposed.
//!
//! # What of the `Learner` applies
//!
//! Metrics, their files and the summary; the dashboard; early stopping; stopping through the
//! [`Interrupter`](burn::train::Interrupter), at the end of the step under way; the learning-rate
//! scheduler, one rate for all parameters; checkpoints after epochs, Burn's files, and going on from
//! one of them (`checkpoint(epoch)`), with whatever stages and policy. The seed of everything random is
//! the builder's. A failed step ends the training, and is the result's error.
//!
//! # What does not, and why
//!
//! - `grads_accumulation`: parts of a step are micro-batches, whose gradients are added up as they
//!   come, so a larger batch is more of them in an item. Asked for, it is an error.
//! - `gradient_checkpointing`: Burn's own recompute, inside one backward. What is recomputed here is
//!   the builder's [policy](crate::TrainerBuilder::policy). Burn does not tell a strategy that it was asked
//!   for, so it is without effect.
//! - Learning rates for groups of parameters: a stage's optimizer takes one rate. Groups of the
//!   optimizer itself (`ModuleOptimizer::with_group`) work.
//! - Devices of Burn's strategies, one or several: the builder's
//!   [devices](crate::TrainerBuilder::devices) hold the stages.
//! - [`TrainStep::optimize`](burn::train::TrainStep::optimize) of a model of one's own: optimizers are
//!   the stages'.
//! - Metrics of outputs, accuracy say: a step's outputs stay on the last stage and are let go with its
//!   tapes; the loss is what is told. [`Trainer::predict`](crate::Trainer::predict) gives outputs.
//! - Burn's checkpoints gather the whole model and its optimizer's state in memory, and a kill while
//!   one is written leaves a torn file. [`Trainer::save_to`](crate::Trainer::save_to) does neither.
//!
//! The learner keeps the model that it was given, whole, beside the stages; its values are the trained
//! ones at checkpoints and at the end.
//!
//! [`SupervisedTraining`]: burn::train::SupervisedTraining
//! [`Trainer`]: crate::Trainer
//! [`TrainerBuilder::strategy`]: crate::TrainerBuilder::strategy
//! [`TrainerBuilder`]: crate::TrainerBuilder

mod learnable;
mod metric;
mod output;
mod strategy;

pub use learnable::Learnable;
pub use metric::StepMetric;
pub use output::StepOutput;
