//! Failures of a running pipeline.

use std::time::Duration;

use super::position::Place;
use crate::ids::{MicroBatchId, RankId, ReplicaId, StageId};
use crate::plan::schedule::Action;
use crate::runtime::stage::StageError;

/// One stage failed; every thread has been told to end.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}{stage}{} failed at {place}: {cause}", self.of_replica(), self.of_rank())]
pub struct StageFailure {
    /// Which replica of the pipeline, if there are several.
    pub replica: Option<ReplicaId>,
    /// The stage.
    pub stage: StageId,
    /// Which of its ranks, if there are several.
    pub rank: Option<RankId>,
    /// Micro-batch, segment and action. Micro-batches are counted within the replica.
    pub place: Place,
    /// What happened.
    #[source]
    pub cause: Cause,
}

impl StageFailure {
    fn of_replica(&self) -> String {
        let named = |replica| format!("{replica}, ");
        self.replica.map_or(String::new(), named)
    }

    fn of_rank(&self) -> String {
        self.rank.map_or(String::new(), |rank| format!(", {rank}"))
    }
}

/// What happened to a stage.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Cause {
    /// The model or Burn panicked.
    #[error("panic: {0}")]
    Panic(String),
    /// The stage refused.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// It did not come back from one action.
    #[error("no progress for {0:.1?}")]
    Stalled(Duration),
    /// Its neighbour was gone. Reported only if no neighbour said why.
    #[error("a neighbouring stage ended")]
    NeighbourEnded,
    /// The same stage of another replica was gone. Reported only if nobody said why.
    #[error("another replica ended")]
    ReplicaEnded,
    /// The replicas do not run the same model.
    #[error("a replica brings gradients of shapes {found:?} where the first brings {expected:?}")]
    ReplicasDiffer {
        /// Of the first replica.
        expected: Vec<Vec<usize>>,
        /// Of this one or another.
        found: Vec<Vec<usize>>,
    },
    /// The schedule runs an action whose input is not there. The validator lets none such pass.
    #[error("{0} has nothing to work on")]
    Missing(Action),
    /// A message came out of order.
    #[error("expected a message for {expected}, received one for {found}")]
    OutOfOrder {
        /// The micro-batch that the schedule receives now.
        expected: MicroBatchId,
        /// The micro-batch that the message was for.
        found: MicroBatchId,
    },
}

impl Cause {
    /// Whether this is a consequence of another stage's failure.
    pub(crate) fn is_secondary(&self) -> bool {
        matches!(
            self,
            Self::NeighbourEnded | Self::ReplicaEnded | Self::Stage(StageError::RankEnded)
        )
    }
}
