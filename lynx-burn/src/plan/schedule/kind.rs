//! The published orders of work, by name.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{InFlight, Rules, Schedule, ScheduleError, Shape};
use super::{gpipe, interleaved, one_f_one_b, zb_h1};

/// The published orders of work that can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Kind {
    /// All forwards, then all backwards.
    GPipe,
    /// Warm-up forwards, then one forward and one backward in turn, then the
    /// cool-down backwards.
    OneFOneB,
    /// 1F1B on stages that hold several chunks of the model each: the bubbles
    /// shrink with the chunks, transfers and micro-batches in flight grow.
    Interleaved {
        /// The chunks of every stage. With one, it is 1F1B.
        chunks: NonZeroUsize,
    },
    /// 1F1B with backwards in two parts, of which the second fills bubbles.
    ZbH1,
}

/// A text that names no kind of schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a kind of schedule: write gpipe, 1f1b, interleaved:2 (chunks) or zb-h1")]
pub struct ParseKindError {
    text: String,
}

impl Kind {
    /// The compute actions of this kind for every stage, without transfers.
    ///
    /// # Errors
    ///
    /// Without stages or micro-batches, and for an interleaved schedule whose
    /// micro-batches are no multiple of the stages. Every other count of
    /// micro-batches is fine, fewer than stages included.
    pub fn generate(self, stages: usize, micro_batches: usize) -> Result<Schedule, ScheduleError> {
        let chunks = self.chunks();
        let shape = Shape { stages, chunks };
        if let Self::Interleaved { .. } = self {
            interleaved::fits(shape, micro_batches)?;
        }
        let plain = Schedule::from_stages(stages, micro_batches, |stage| match self {
            Self::GPipe => gpipe::stage(micro_batches),
            Self::Interleaved { .. } if chunks > 1 => {
                interleaved::stage(stage, shape, micro_batches)
            }
            Self::OneFOneB | Self::Interleaved { .. } => {
                one_f_one_b::stage(stage, stages, micro_batches)
            }
            Self::ZbH1 => zb_h1::stage(stage, stages, micro_batches),
        })?;
        Ok(Schedule { chunks, ..plain })
    }

    /// How many chunks of the model a stage holds.
    pub fn chunks(self) -> usize {
        match self {
            Self::Interleaved { chunks } => chunks.get(),
            Self::GPipe | Self::OneFOneB | Self::ZbH1 => 1,
        }
    }

    /// What a schedule of this kind must satisfy when its stages talk through
    /// mailboxes of the given capacity, and there is one replica.
    pub fn rules(self, mailbox_capacity: usize) -> Rules {
        Rules {
            mailbox_capacity,
            in_flight: match self {
                Self::GPipe => InFlight::Unlimited,
                Self::OneFOneB => InFlight::OneFOneB,
                Self::Interleaved { .. } => InFlight::Interleaved,
                Self::ZbH1 => InFlight::ZbH1,
            },
            backward: true,
            replicas: 1,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GPipe => f.pad("gpipe"),
            Self::OneFOneB => f.pad("1f1b"),
            Self::Interleaved { chunks } => f.pad(&format!("interleaved:{chunks}")),
            Self::ZbH1 => f.pad("zb-h1"),
        }
    }
}

impl FromStr for Kind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let interleaved = |chunks: &str| {
            let chunks = chunks.parse().ok()?;
            Some(Self::Interleaved { chunks })
        };
        let kind = match text {
            "gpipe" => Some(Self::GPipe),
            "1f1b" => Some(Self::OneFOneB),
            "zb-h1" => Some(Self::ZbH1),
            _ => text.strip_prefix("interleaved:").and_then(interleaved),
        };
        kind.ok_or_else(|| ParseKindError {
            text: text.to_owned(),
        })
    }
}

impl TryFrom<String> for Kind {
    type Error = ParseKindError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.to_string()
    }
}
