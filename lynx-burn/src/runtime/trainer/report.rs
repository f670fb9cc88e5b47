//! What a step tells.

use crate::runtime::stage::StageReport;
use crate::units::Bytes;

/// Of the forwards and backwards of one step.
#[derive(Clone, Debug)]
pub struct BackwardReport {
    /// Mean loss, weighted.
    pub loss: f64,
    /// Each micro-batch's mean loss.
    pub losses: Vec<f64>,
    /// Each stage's memory and recomputation.
    pub stages: Vec<StageReport>,
}

impl BackwardReport {
    /// Sum over the stages of the most bytes each retained.
    pub fn retained_peak(&self) -> Bytes {
        Bytes(self.stages.iter().map(|stage| stage.retained_peak.0).sum())
    }

    /// Segments recomputed, over all stages and micro-batches.
    pub fn recomputed(&self) -> u64 {
        self.stages
            .iter()
            .flat_map(|stage| &stage.recomputed)
            .map(|(_, count)| count)
            .sum()
    }
}

/// Of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateReport {
    /// Norm of all gradients before clipping; only with clipping.
    pub gradient_norm: Option<f64>,
    /// False if the update was left out because of a value that was not a number.
    pub applied: bool,
}

/// Of one optimizer step.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// Its forwards and backwards.
    pub backward: BackwardReport,
    /// Its update.
    pub update: UpdateReport,
}

impl StepReport {
    /// Mean loss, weighted.
    pub fn loss(&self) -> f64 {
        self.backward.loss
    }
}
