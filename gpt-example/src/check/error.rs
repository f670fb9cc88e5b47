//! Why options make no sense.

use lynx_burn::plan::profile::UnknownSize;

use crate::config::ConfigError;

/// Options that contradict each other.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// There is no such model.
    #[error(transparent)]
    Model(#[from] ConfigError),
    /// Some micro-batches would be empty.
    #[error("a batch of {batch} cannot be split into {micro_batches} micro-batches")]
    MicroBatches {
        /// Parts asked for.
        micro_batches: usize,
        /// Windows there are.
        batch: usize,
    },
    /// Some replicas would have more to do than others.
    #[error(
        "{micro_batches} micro-batches cannot be dealt evenly to {replicas} replicas: see \
         --micro-batches"
    )]
    Replicas {
        /// Micro-batches of a step.
        micro_batches: usize,
        /// Replicas of the pipeline.
        replicas: usize,
    },
    /// Links between replicas, where there is one.
    #[error("--replica-link joins the replicas of a stage, of which there is one: see --replicas")]
    OneReplica,
    /// Two numbers of stages.
    #[error("--stages asks for {stages} stages, --layers-per-stage for {listed}")]
    Stages {
        /// From `--stages`.
        stages: usize,
        /// From `--layers-per-stage`.
        listed: usize,
    },
    /// The learning rate would never reach its peak.
    #[error("a warm-up of {warmup} steps is longer than the run of {steps}")]
    Warmup {
        /// Steps of the warm-up.
        warmup: u64,
        /// Steps of the run.
        steps: u64,
    },
    /// The learning rate would rise to its minimum.
    #[error("the minimum learning rate {minimum} is above the learning rate {rate}")]
    MinLearningRate {
        /// At the end.
        minimum: f64,
        /// At the peak.
        rate: f64,
    },
    /// Planned overlap without a plan.
    #[error("--overlap planned needs a plan: give --plan or --memory-budget")]
    NothingPlanned,
    /// Links between ranks, where there is one.
    #[error("--collective-link joins the ranks of a stage, of which there is one: see --tp")]
    OneRank,
    /// An option about plans, without one.
    #[error("{option} means nothing without --memory-budget")]
    NoBudget {
        /// The option.
        option: String,
    },
    /// A model that can be planned and not trained.
    #[error(
        "{0} has no learned positions and a head of its own, which `gpt train` does not know: it can \
         be planned with gpt plan --model {0}"
    )]
    OnlyPlanned(String),
    /// A name that no model has.
    #[error(transparent)]
    Preset(#[from] UnknownSize),
    /// A number out of range.
    #[error("{option} must be {allowed}, got {value}")]
    Number {
        /// The option.
        option: &'static str,
        /// What it may be.
        allowed: &'static str,
        /// What it is.
        value: f64,
    },
}
