//! What can be wrong with a problem or with a plan for it.

use crate::plan::cluster::Window;
use crate::units::{Bytes, Nanos};

/// Numbers that are no stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// A number is impossible, or beyond anything that sums could be made of.
    #[error("stage {stage}: {what} is {value}, but must lie within {least} and {most}")]
    OutOfRange {
        /// The stage at fault.
        stage: usize,
        /// What the number is.
        what: &'static str,
        /// The number.
        value: u64,
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
    },
}

/// Why a plan does not do for a stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There is no such stage.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// Layers would be lost or invented.
    #[error("the groups have {given} layers in total, but the stage has {layers}")]
    LayerCount {
        /// The sum over the groups.
        given: usize,
        /// The layers of the stage.
        layers: usize,
    },
    /// Choices for another kind of layer.
    #[error("group {group} has {given} choices, but a layer has {segments} segments")]
    SegmentCount {
        /// The group at fault.
        group: usize,
        /// The choices it has.
        given: usize,
        /// The segments of a layer.
        segments: usize,
    },
    /// Whole layers are replayed on the critical path only.
    #[error("group {group} replays {together} layers at once: all of its segments must be exposed")]
    Replay {
        /// The group at fault.
        group: usize,
        /// The layers that are replayed together.
        together: usize,
    },
    /// A window that the stage does not have, or that is switched off.
    #[error("group {group} recomputes in {window}, which is not there or switched off")]
    NoWindow {
        /// The group at fault.
        group: usize,
        /// The window.
        window: Window,
    },
    /// More than fits.
    #[error("{window} is to host {work} of recompute, but has room for {capacity}")]
    Overfull {
        /// The window.
        window: Window,
        /// What it is to host.
        work: Nanos,
        /// What it can host.
        capacity: Nanos,
    },
    /// Too much memory.
    #[error("the plan holds {peak} at its peak, {} more than the budget of {budget}",
            Bytes(peak.0.saturating_sub(budget.0)))]
    OverBudget {
        /// What it holds.
        peak: Bytes,
        /// What it may hold.
        budget: Bytes,
    },
}
