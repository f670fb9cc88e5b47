//! What a step tells.

use crate::runtime::stage::StageReport;
use crate::units::{Bytes, Nanos};

/// Of the forwards and backwards of one step.
#[derive(Clone, Debug)]
pub struct BackwardReport {
    /// Mean loss, weighted.
    pub loss: f64,
    /// Each micro-batch's mean loss.
    pub losses: Vec<f64>,
    /// How long all of it took.
    pub time: Nanos,
    /// Each stage's memory and recomputation; of several ranks, each rank's; of several replicas, each
    /// replica's, replica by replica.
    pub stages: Vec<StageReport>,
}

impl BackwardReport {
    /// Sum over the stages, ranks and replicas of the most bytes each retained.
    pub fn retained_peak(&self) -> Bytes {
        Bytes(self.stages.iter().map(|stage| stage.retained_peak.0).sum())
    }

    /// Recompute that nothing hid, over all stages.
    pub fn exposed(&self) -> Nanos {
        self.stages.iter().map(|stage| stage.times.exposed).sum()
    }

    /// Recompute inside waits, over all stages.
    pub fn hidden(&self) -> Nanos {
        self.stages.iter().map(|stage| stage.times.hidden()).sum()
    }

    /// The share of all recompute that was hidden; `None` where there was none.
    pub fn hidden_fraction(&self) -> Option<f64> {
        let (hidden, exposed) = (self.hidden().0 as f64, self.exposed().0 as f64);
        (hidden + exposed > 0.0).then(|| hidden / (hidden + exposed))
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
