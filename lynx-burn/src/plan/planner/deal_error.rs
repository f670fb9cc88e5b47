//! Why layers cannot be dealt to stages.

use super::outcome::Change;
use super::setup_error::StageSetupError;
use crate::units::Bytes;

/// A deal that is not possible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DealError {
    /// Every stage needs a layer.
    #[error("{stages} stages cannot share {layers} layers: every stage needs at least one")]
    Stages {
        /// The stages.
        stages: usize,
        /// The layers.
        layers: usize,
    },
    /// A stage cannot be described.
    #[error(transparent)]
    Setup(#[from] StageSetupError),
    /// No deal fits the budget.
    #[error(
        "no partition fits the budget: with {layers:?} layers stage {stage} is {missing} short; \
         nearest: {nearest}"
    )]
    Infeasible {
        /// The layers of each stage in the deal that comes closest.
        layers: Vec<usize>,
        /// Its worst stage.
        stage: usize,
        /// What that stage lacks.
        missing: Bytes,
        /// What would make it fit.
        nearest: Change,
    },
    /// A planner that could not answer.
    #[error("stage {stage}: {reason}")]
    Refused {
        /// The stage.
        stage: usize,
        /// Why.
        reason: String,
    },
}
