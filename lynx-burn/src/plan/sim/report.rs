//! The figures of a timed step.

use serde::{Deserialize, Serialize};

use super::timeline::Cargo;
use super::window::PerWindow;
use crate::ids::StageId;
use crate::units::{Bytes, Nanos};

/// What a step takes. Instants and sums are exact; only ratios are rounded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// From the beginning until the last stage is done.
    pub step: Nanos,
    /// The figures of every stage.
    pub stages: Vec<StageReport>,
    /// The figures of every direction of every link.
    pub channels: Vec<ChannelReport>,
}

/// What a stage's part in the step takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageReport {
    /// When it is done.
    pub end: Nanos,
    /// Computing of forwards.
    pub forward: Nanos,
    /// Computing of backwards, both parts of split ones, without recompute.
    pub backward: Nanos,
    /// Collectives.
    pub collective: Nanos,
    /// Sums of gradients over replicas.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub reduction: Nanos,
    /// Recompute on the stage's own time.
    pub exposed: Nanos,
    /// Recompute beside something else, by what it was, in time it takes alone.
    pub hidden: PerWindow<Nanos>,
    /// Standing still before the end, by kind: SEND, RECV or BUBBLE.
    pub waiting: PerWindow<Nanos>,
    /// The most bytes it ever has.
    pub peak: Bytes,
}

// The signature is serde's.
fn is_nothing(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

/// What goes over one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelReport {
    /// The stage that sends.
    pub from: StageId,
    /// The stage that receives.
    pub to: StageId,
    /// What it carries.
    pub cargo: Cargo,
    /// How long messages occupy it, latencies not counted.
    pub busy: Nanos,
}

impl StageReport {
    /// The time in which the stage does not stand still: passes with their
    /// collectives and exposed recompute, and reductions.
    pub fn busy(&self) -> Nanos {
        let passes = [self.forward, self.backward, self.exposed];
        let sums = [self.collective, self.reduction];
        passes.into_iter().chain(sums).sum()
    }

    /// All hidden recompute.
    pub fn hidden(&self) -> Nanos {
        self.hidden.iter().map(|(_, time)| time).sum()
    }
}

impl Report {
    /// The share of all stages' time in which they stand still: idle / (p * step).
    ///
    /// Whether recompute is hidden there makes no difference to it. 0 for a step
    /// that takes no time.
    pub fn bubble_ratio(&self) -> f64 {
        let all = u128::from(self.step.0) * self.stages.len() as u128;
        let busy = self.stages.iter().map(|stage| u128::from(stage.busy().0));
        match all {
            0 => 0.0,
            _ => 1.0 - busy.sum::<u128>() as f64 / all as f64,
        }
    }

    /// Recompute that takes time of its own, all stages together.
    pub fn exposed(&self) -> Nanos {
        self.stages.iter().map(|stage| stage.exposed).sum()
    }

    /// Recompute that runs beside something else, all stages together.
    pub fn hidden(&self) -> Nanos {
        self.stages.iter().map(StageReport::hidden).sum()
    }

    /// The share of all recompute that is hidden; `None` where there is none.
    pub fn hidden_fraction(&self) -> Option<f64> {
        let (hidden, exposed) = (self.hidden().0 as f64, self.exposed().0 as f64);
        (hidden + exposed > 0.0).then(|| hidden / (hidden + exposed))
    }

    /// The stage with the highest peak, and its peak.
    pub fn peak(&self) -> (StageId, Bytes) {
        let mut highest = (StageId(0), Bytes(0));
        for (stage, report) in self.stages.iter().enumerate() {
            if report.peak > highest.1 {
                highest = (StageId(stage), report.peak);
            }
        }
        highest
    }
}
