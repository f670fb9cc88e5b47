//! What every stage does, in which order.
//!
//! A schedule is a list of actions per stage, without times: generators emit
//! the compute actions, [`transfers`] adds sends and receives, [`validate()`]
//! proves that the result is sound, and the same value then feeds the simulator
//! and the executor. Which segments are recomputed, and when, is not part of it.

mod action;
mod deadlock;
mod error;
mod forward_only;
mod gpipe;
mod one_f_one_b;
mod text;
pub mod transfers;
pub mod validate;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use action::{Action, ParseActionError};
pub use error::{ScheduleError, Waiting};
pub use forward_only::forward_only;
pub use text::ParseScheduleError;
pub use validate::{InFlight, Report, Rules, validate};

/// The actions of every stage for one step.
///
/// Nothing is promised about a value that was built or read by hand until
/// [`validate()`] has accepted it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The number of micro-batches of the step.
    pub micro_batches: usize,
    /// One list of actions per stage.
    #[serde(with = "text::lines")]
    pub stages: Vec<Vec<Action>>,
}

/// The published orders of work that can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// All forwards, then all backwards.
    #[serde(rename = "gpipe")]
    GPipe,
    /// Warm-up forwards, then one forward and one backward in turn, then the
    /// cool-down backwards.
    #[serde(rename = "1f1b")]
    OneFOneB,
}

/// A text that names no kind of schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a kind of schedule: write gpipe or 1f1b")]
pub struct ParseKindError {
    text: String,
}

impl Kind {
    /// The compute actions of this kind for every stage, without transfers.
    ///
    /// Every micro-batch count is fine with every stage count, fewer
    /// micro-batches than stages included.
    pub fn generate(self, stages: usize, micro_batches: usize) -> Result<Schedule, ScheduleError> {
        Schedule::from_stages(stages, micro_batches, |stage| match self {
            Self::GPipe => gpipe::stage(micro_batches),
            Self::OneFOneB => one_f_one_b::stage(stage, stages, micro_batches),
        })
    }

    /// What a schedule of this kind must satisfy when its stages talk through
    /// mailboxes of the given capacity.
    pub fn rules(self, mailbox_capacity: usize) -> Rules {
        Rules {
            mailbox_capacity,
            in_flight: match self {
                Self::GPipe => InFlight::Unlimited,
                Self::OneFOneB => InFlight::OneFOneB,
            },
            backward: true,
        }
    }
}

impl Schedule {
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
                stages: (0..stages).map(actions).collect(),
            }),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::GPipe => "gpipe",
            Self::OneFOneB => "1f1b",
        })
    }
}

impl FromStr for Kind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "gpipe" => Ok(Self::GPipe),
            "1f1b" => Ok(Self::OneFOneB),
            _ => Err(ParseKindError {
                text: text.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
