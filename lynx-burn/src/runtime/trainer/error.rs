//! Why a trainer cannot be made or cannot go on.

use crate::ids::StageId;
use crate::plan::layout::LayoutError;
use crate::plan::partition::PartitionError;
use crate::plan::policy::PolicyError;
use crate::plan::schedule::ScheduleError;
use crate::runtime::exec::error::StageFailure;
use crate::runtime::shard::ShardingError;

/// Decisions that do not fit the model.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The chain's segments make no sense.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The chain cannot be dealt to the stages like that.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The policy names what is not there.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The given schedule is not sound.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Neither one device nor one for each stage, each rank, or each rank of each replica.
    #[error(
        "{devices} devices for {stages} stages of {ranks} ranks{}: give one for all, one for each \
         stage, or one for each rank{}",
        of_replicas(*replicas, "in"),
        of_replicas(*replicas, "of all")
    )]
    Devices {
        /// Devices given.
        devices: usize,
        /// Stages.
        stages: usize,
        /// Ranks of a stage.
        ranks: usize,
        /// Replicas of the pipeline.
        replicas: usize,
    },
    /// Nobody to train.
    #[error("a trainer needs at least one replica, got 0")]
    NoReplicas,
    /// More threads than there could be.
    #[error("{workers} workers, one for each rank of each stage of each replica: at most {most}")]
    TooManyWorkers {
        /// Workers asked for, as far as they can be counted.
        workers: usize,
        /// The most that are accepted.
        most: usize,
    },
    /// Nobody to run a stage.
    #[error("a stage needs at least one rank, got 0")]
    NoRanks,
    /// The parameters cannot be dealt to the ranks.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// A module in a recomputed segment that would not do the same again.
    #[error(
        "segment {segment} ({name}) is to be recomputed, but its module `{path}` ({kind}) would \
         not do the same twice: {advice}, retain the segment, or freeze the module"
    )]
    NotRepeatable {
        /// The segment.
        segment: usize,
        /// Its name.
        name: String,
        /// Where the module is.
        path: String,
        /// Its type.
        kind: String,
        /// What to use instead.
        advice: &'static str,
    },
    /// One name, two shapes.
    #[error("parameter `{path}` has shape {first:?} on one stage and {second:?} on another")]
    TiedShapes {
        /// The parameter's path.
        path: String,
        /// Shape on the first stage that holds it.
        first: Vec<usize>,
        /// Shape on another one.
        second: Vec<usize>,
    },
    /// A threshold that is not a positive number.
    #[error("gradients cannot be clipped to a norm of {0}")]
    ClipNorm(f64),
    /// Neither one budget nor one for each stage.
    #[error("{given} memory budgets for {stages} stages: give one for all, or one for each")]
    Budgets {
        /// Budgets given.
        given: usize,
        /// Stages.
        stages: usize,
    },
    /// Planned overlap without a plan.
    #[error("planned overlap needs to be told what may be recomputed ahead")]
    NothingPlanned,
    /// What may be recomputed ahead is told for another number of stages.
    #[error("what may be recomputed ahead is told for {given} stages, but there are {stages}")]
    AheadStages {
        /// The stages that are told of.
        given: usize,
        /// The stages there are.
        stages: usize,
    },
    /// What may be recomputed ahead is told for a stage of another size.
    #[error(
        "what may be recomputed ahead is told for {given} segments of {stage}, which has {segments}"
    )]
    AheadSegments {
        /// The stage at fault.
        stage: StageId,
        /// The segments that are told of.
        given: usize,
        /// The segments it has.
        segments: usize,
    },
    /// Nothing would be learnt.
    #[error("no parameter of the model is trainable")]
    NothingTrainable,
    /// The system gave no thread.
    #[error("cannot start a thread for a stage: {0}")]
    Thread(#[from] std::io::Error),
}

/// What to add to a sentence where there are several replicas.
fn of_replicas(replicas: usize, how: &str) -> String {
    match replicas {
        0 | 1 => String::new(),
        _ => format!(" {how} {replicas} replicas"),
    }
}

/// Decisions that a trainer at work cannot change to. It goes on as before.
#[derive(Debug, thiserror::Error)]
pub enum ReplanError {
    /// They do not fit the model.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The trainer is over.
    #[error(transparent)]
    Train(#[from] TrainError),
}

/// A step that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A stage failed. Every thread has been told to end: the trainer is over.
    #[error(transparent)]
    Stage(Box<StageFailure>),
    /// The trainer is over since an earlier failure.
    #[error("the trainer ended with an earlier failure")]
    Ended,
    /// There is no sound schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Some replicas would have more to do than others.
    #[error(
        "{micro_batches} micro-batches cannot be dealt evenly to {replicas} replicas: a step needs \
         a multiple of {replicas}"
    )]
    Replicas {
        /// Micro-batches of the step.
        micro_batches: usize,
        /// Replicas of the pipeline.
        replicas: usize,
    },
    /// The given schedule is for another pipeline or another number of micro-batches.
    #[error(
        "the given schedule is for {stages} stages and {micro_batches} micro-batches, the step \
         has {wanted_stages} stages and {wanted_micro_batches} micro-batches for each replica"
    )]
    ScheduleSize {
        /// Stages of the schedule.
        stages: usize,
        /// Micro-batches of the schedule.
        micro_batches: usize,
        /// Stages of the trainer.
        wanted_stages: usize,
        /// Micro-batches of the step.
        wanted_micro_batches: usize,
    },
    /// Nothing to take a mean over.
    #[error("{micro_batches} micro-batches with a total weight of 0")]
    NoWeight {
        /// How many were given.
        micro_batches: usize,
    },
    /// The loss is not a number. No parameter was changed and the gradients were dropped.
    #[error("the loss is not finite in step {step}")]
    NonFiniteLoss {
        /// The step.
        step: u64,
    },
    /// A gradient is not a number. No parameter was changed and the gradients were dropped.
    #[error("the gradients' norm is {norm} in step {step}")]
    NonFiniteGradient {
        /// The step.
        step: u64,
        /// The norm.
        norm: f64,
    },
}

impl From<Option<Box<StageFailure>>> for TrainError {
    fn from(failure: Option<Box<StageFailure>>) -> Self {
        failure.map_or(Self::Ended, Self::Stage)
    }
}
