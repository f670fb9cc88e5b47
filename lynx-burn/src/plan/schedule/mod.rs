//! What every stage does, in which order.
//!
//! A schedule is a list of actions per stage, without times: generators emit
//! the compute actions, [`transfers`] adds sends and receives,
//! [`reduce_gradients`] the sums over replicas, if there are several, [`validate()`]
//! proves that the result is sound, and the same value then feeds the simulator
//! and the executor. Which segments are recomputed, and when, is not part of it.

mod action;
mod deadlock;
mod deepen;
mod error;
mod forward_only;
mod gpipe;
mod in_flight;
pub(in crate::plan) mod interleaved;
mod kind;
mod one_f_one_b;
mod reductions;
mod stage_order;
mod text;
pub mod transfers;
mod unit;
pub mod validate;
mod zb_h1;

use serde::{Deserialize, Serialize};

pub use action::{Action, ParseActionError};
pub use deepen::deepen;
pub use error::{ScheduleError, Waiting};
pub use forward_only::forward_only;
pub use in_flight::InFlight;
pub use kind::{Kind, ParseKindError};
pub use reductions::reduce_gradients;
pub use text::ParseScheduleError;
pub use unit::{Shape, Unit};
pub use validate::{Report, Rules, executable, validate};

/// The actions of every stage for one step.
///
/// Nothing is promised about a value that was built or read by hand until
/// [`validate()`] has accepted it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The number of micro-batches of the step.
    pub micro_batches: usize,
    /// How many chunks of the model each stage holds: 1, but for interleaved
    /// schedules.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub chunks: usize,
    /// One list of actions per stage.
    #[serde(with = "text::lines")]
    pub stages: Vec<Vec<Action>>,
}

fn one() -> usize {
    1
}

// The signature is serde's.
fn is_one(chunks: &usize) -> bool {
    *chunks == 1
}

impl Schedule {
    /// How many stages there are and how many chunks each holds.
    pub fn shape(&self) -> Shape {
        Shape {
            stages: self.stages.len(),
            chunks: self.chunks,
        }
    }

    /// Other lists for the same step.
    fn with_stages(&self, stages: Vec<Vec<Action>>) -> Self {
        Self {
            micro_batches: self.micro_batches,
            chunks: self.chunks,
            stages,
        }
    }

    /// Asks `actions` for every stage, after refusing an empty pipeline.
    fn from_stages(
        stages: usize,
        micro_batches: usize,
        actions: impl FnMut(usize) -> Vec<Action>,
    ) -> Result<Self, ScheduleError> {
        match (stages, micro_batches) {
            (0, _) => Err(ScheduleError::NoStages),
            (_, 0) => Err(ScheduleError::NoMicroBatches),
            _ => Ok(Self {
                micro_batches,
                chunks: 1,
                stages: (0..stages).map(actions).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
