//! Why no problem can be made of a stage.

use crate::plan::cluster::ClusterError;
use crate::plan::profile::ProfileError;
use crate::plan::schedule::Kind;

/// Stages that no problem can be made of.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StageSetupError {
    /// No profile.
    #[error("profile: {0}")]
    Profile(ProfileError),
    /// No cluster.
    #[error("cluster: {0}")]
    Cluster(ClusterError),
    /// No stages, or some without layers.
    #[error("{stages} stages cannot share {layers} layers: each needs at least one")]
    Stages {
        /// The stages.
        stages: usize,
        /// The layers of the model.
        layers: usize,
    },
    /// Nothing to do.
    #[error("a step needs at least one micro-batch")]
    NoMicroBatches,
    /// Nobody to train, or more than there could be.
    #[error("a pipeline has 1 to {most} replicas, got {count}")]
    Replicas {
        /// How many are asked for.
        count: usize,
        /// The most that are accepted.
        most: usize,
    },
    /// A schedule that plans are not made for.
    #[error("plans are made for 1f1b and gpipe; {schedule} can be generated and simulated only")]
    Unplanned {
        /// The kind asked for.
        schedule: Kind,
    },
    /// More in flight on other stages than there are.
    #[error("extra_in_flight names {given} stages, but there are {stages}")]
    ExtraCount {
        /// The stages it names.
        given: usize,
        /// The stages.
        stages: usize,
    },
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
         stages of mixed kinds are not planned yet, so each must lie within like layers"
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
