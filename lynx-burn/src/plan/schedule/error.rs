//! What can be wrong with a schedule.

use std::fmt;

use super::Action;
use crate::ids::{MicroBatchId, StageId};

/// A schedule that cannot be made or must not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Nobody would work.
    #[error("a schedule needs at least one stage, got 0")]
    NoStages,
    /// There would be no work.
    #[error("a schedule needs at least one micro-batch, got 0")]
    NoMicroBatches,
    /// Every stage would be empty.
    #[error("the stages of a schedule need at least one chunk each, got 0")]
    NoChunks,
    /// An interleaved schedule works in groups of one micro-batch for each stage.
    #[error(
        "an interleaved schedule of {stages} stages needs a multiple of {stages} micro-batches, \
         got {micro_batches}"
    )]
    NotAMultiple {
        /// The micro-batches of the step.
        micro_batches: usize,
        /// The stages.
        stages: usize,
    },
    /// More actions than can be counted.
    #[error("{micro_batches} micro-batches on {chunks} chunks are too many")]
    TooMany {
        /// The micro-batches of the step.
        micro_batches: usize,
        /// The chunks of a stage.
        chunks: usize,
    },
    /// An action concerns a chunk that the stages do not have.
    #[error("{stage} does {action}, but stages have only {chunks} chunks")]
    UnknownChunk {
        /// Where it stands.
        stage: StageId,
        /// The action at fault.
        action: Action,
        /// The chunks of a stage.
        chunks: usize,
    },
    /// A backward is done as a whole and in parts.
    #[error("{stage} does {whole} and also {part}: a backward is either whole or in two parts")]
    WholeAndSplit {
        /// Where both stand.
        stage: StageId,
        /// The whole backward.
        whole: Action,
        /// A part of it.
        part: Action,
    },
    /// The executor holds one chunk on each stage.
    #[error("the executor runs one chunk on each stage, but the schedule has {chunks}")]
    ChunksNotExecutable {
        /// The chunks of a stage.
        chunks: usize,
    },
    /// The executor runs a backward in one piece.
    #[error("{stage} does {action}, but the executor runs backwards whole")]
    SplitNotExecutable {
        /// Where it stands.
        stage: StageId,
        /// The first part of a backward there.
        action: Action,
    },
    /// An action concerns a micro-batch that the step does not have.
    #[error("{stage} does {action}, but the step has only {micro_batches} micro-batches")]
    UnknownMicroBatch {
        /// Where it stands.
        stage: StageId,
        /// The action at fault.
        action: Action,
        /// The micro-batches of the step.
        micro_batches: usize,
    },
    /// A transfer leads out of the pipeline.
    #[error("{stage} does {action}, but there is no stage at the other end")]
    NoNeighbour {
        /// Where it stands.
        stage: StageId,
        /// The action at fault.
        action: Action,
    },
    /// A backward stands where there are only forwards.
    #[error("{stage} does {action} in a schedule that only runs forward")]
    BackwardInForwardOnly {
        /// Where it stands.
        stage: StageId,
        /// The action at fault.
        action: Action,
    },
    /// Something is done twice.
    #[error("{stage} does {action} more than once")]
    Repeated {
        /// Where it stands.
        stage: StageId,
        /// The action at fault.
        action: Action,
    },
    /// Something is never done.
    #[error("{stage} never does {action}")]
    Missing {
        /// Where it should stand.
        stage: StageId,
        /// The action that is missing.
        action: Action,
    },
    /// Something is done before what it depends on. For two backwards: their
    /// order is the order in which gradients are added up, so it must ascend.
    #[error("{stage} does {action} before {needs}")]
    Order {
        /// Where both stand.
        stage: StageId,
        /// The action that comes too early.
        action: Action,
        /// The action that must come before it.
        needs: Action,
    },
    /// Gradients are summed over replicas where there is one.
    #[error("{stage} does {action}, but there is one replica: it has nobody to reduce with")]
    NobodyToReduceWith {
        /// Where it stands.
        stage: StageId,
        /// The reduction.
        action: Action,
    },
    /// A reduction that is named after a micro-batch whose gradients are not the last.
    #[error("{stage} does {action}, but its gradients are complete only with {last}")]
    ReducesTooSoon {
        /// Where it stands.
        stage: StageId,
        /// The reduction.
        action: Action,
        /// The step's last micro-batch.
        last: MicroBatchId,
    },
    /// Two neighbours disagree about the order of what they pass to each other.
    #[error("transfer {position} from {from} to {to} is sent as {sent} but received as {received}")]
    ChannelOrder {
        /// The stage that sends.
        from: StageId,
        /// The stage that receives.
        to: StageId,
        /// How many transfers of this channel came before.
        position: usize,
        /// What is sent.
        sent: Action,
        /// What is received.
        received: Action,
    },
    /// Every stage that is not done waits for another.
    #[error("deadlock with mailboxes of capacity {capacity}: {}", list(waiting))]
    Deadlock {
        /// How many messages a mailbox holds.
        capacity: usize,
        /// What each stuck stage waits for.
        waiting: Vec<Waiting>,
    },
    /// Compute actions need each other's results in a circle, or a result that
    /// nobody makes.
    #[error("the compute actions wait for each other: {}", list(waiting))]
    Circular {
        /// What each stuck stage waits for.
        waiting: Vec<Waiting>,
    },
    /// A stage holds more micro-batches, one count for each chunk, than its kind of schedule allows.
    #[error("{stage} holds {held} micro-batches when it does {action}, but may hold {limit}")]
    TooManyInFlight {
        /// The stage at fault.
        stage: StageId,
        /// The forward that is one too many.
        action: Action,
        /// The micro-batches held then.
        held: usize,
        /// The micro-batches it may hold.
        limit: usize,
    },
}

/// A stage that cannot go on, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The stage that is stuck.
    pub stage: StageId,
    /// The action it cannot do.
    pub action: Action,
    /// The stage it waits for.
    pub peer: StageId,
    /// What that stage would have to do first.
    pub awaits: Action,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stage,
            action,
            peer,
            awaits,
        } = self;
        write!(f, "{stage} at {action} waits for {awaits} of {peer}")
    }
}

fn list(waiting: &[Waiting]) -> String {
    let words: Vec<_> = waiting.iter().map(Waiting::to_string).collect();
    words.join("; ")
}
