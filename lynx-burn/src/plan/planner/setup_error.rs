//! Why no problem can be made of a stage.

use serde::{Deserialize, Serialize};

/// Stages that no problem can be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum StageSetupError {
    /// No such stage.
    #[error("stage {stage} does not exist: there are {stages} stages")]
    NoSuchStage {
        /// The stage asked for.
        stage: usize,
        /// How many there are.
        stages: usize,
    },
    /// No such layers.
    #[error("stage {stage} is given layers {from}..{to}, but the model has {layers}")]
    NoSuchLayers {
        /// The stage.
        stage: usize,
        /// Its first layer.
        from: usize,
        /// The layer after its last.
        to: usize,
        /// How many there are.
        layers: usize,
    },
    /// Layers that differ.
    #[error(
        "stage {stage} holds layers of kinds {first:?} and {other:?}: \
         only like layers can be planned together"
    )]
    MixedKinds {
        /// The stage.
        stage: usize,
        /// The kind of its first layer.
        first: String,
        /// Another.
        other: String,
    },
}
