//! A schedule with times: who did what, from when to when.
//!
//! It is data that can be written to a file and drawn; it holds what happened
//! and, for waits, what ended them, but no figures: those are in the
//! [`Report`](super::Report). Instants count from the beginning of the step.

use serde::{Deserialize, Serialize};

use super::window::{Window, is_of_forward};
use crate::ids::{ChunkId, MicroBatchId, StageId};
use crate::plan::schedule::Unit;
use crate::units::{Bytes, Nanos};

/// What fills a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// Computing of a forward.
    Forward,
    /// Computing of a backward; of one in two parts, of the first.
    Backward,
    /// Computing of the gradients of weights, where that is a part of its own.
    Weight,
    /// A collective.
    Collective(Window),
    /// The sum of gradients over replicas, with the wait for the slowest of them.
    Reduction,
    /// Recompute that nothing hides.
    Exposed,
    /// Recompute beside this; the only kind in the lane [`StageTrack::beside`].
    Hidden(Window),
    /// Standing still. Hidden recompute may run beside it all the same.
    Wait {
        /// SEND, RECV or BUBBLE.
        window: Window,
        /// What ended it.
        awaited: Awaited,
    },
}

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cargo {
    /// Boundaries, down the pipeline.
    Boundary,
    /// Their gradients, up the pipeline.
    Gradient,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Awaited {
    /// A message: it leaves (SEND), or it arrives.
    Message {
        /// The stage that sends it.
        from: StageId,
        /// The stage that receives it.
        to: StageId,
        /// What it is: between two stages that form a ring, both go both ways.
        cargo: Cargo,
    },
    /// A neighbour makes room in a mailbox, or comes to the meeting point.
    Stage(StageId),
}

/// A stretch of time in which a stage does one thing. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// What it does.
    pub kind: SpanKind,
    /// The micro-batch it does it for.
    pub micro_batch: MicroBatchId,
    /// The chunk it does it with.
    #[serde(default, skip_serializing_if = "is_first")]
    pub chunk: ChunkId,
    /// The first instant.
    pub begin: Nanos,
    /// The instant after the last.
    pub end: Nanos,
    /// The place in [`Timeline::labels`] of what the costs call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<usize>,
}

/// The way of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Whose boundary or gradient it carries.
    pub micro_batch: MicroBatchId,
    /// The chunk of the sender that made it.
    #[serde(default, skip_serializing_if = "is_first")]
    pub chunk: ChunkId,
    /// It begins to occupy the link.
    pub begin: Nanos,
    /// It has left: the link is free for the next.
    pub left: Nanos,
    /// It can be read.
    pub arrive: Nanos,
}

/// From here on, a stage has this many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The instant.
    pub at: Nanos,
    /// The bytes. Of several points at one instant the last one stays.
    pub bytes: Bytes,
}

/// What one stage does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTrack {
    /// One thing after the other, from instant 0 without a gap.
    pub main: Vec<Span>,
    /// Hidden recompute, beside collectives and waits of the main lane.
    pub beside: Vec<Span>,
    /// The memory curve.
    pub memory: Vec<Point>,
}

/// What goes from one stage to a neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelTrack {
    /// The stage that sends.
    pub from: StageId,
    /// The stage that receives.
    pub to: StageId,
    /// What it carries.
    pub cargo: Cargo,
    /// Every message, in order.
    pub messages: Vec<Message>,
}

/// A whole step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// One track per stage.
    pub stages: Vec<StageTrack>,
    /// Two tracks per link: boundaries down, gradients up. Link `s` leads from
    /// stage `s` to the next; in a ring, the last one leads to stage 0.
    pub channels: Vec<ChannelTrack>,
    /// What the costs call the parts.
    pub labels: Vec<String>,
}

// The signature is serde's.
fn is_first(chunk: &ChunkId) -> bool {
    *chunk == ChunkId(0)
}

impl SpanKind {
    /// Whether the stage stands still.
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Wait { .. })
    }

    /// Whether it is a part of a forward; of a backward, if it is no wait either.
    pub fn is_forward(self) -> bool {
        match self {
            Self::Forward => true,
            Self::Collective(window) => is_of_forward(window),
            Self::Backward | Self::Weight | Self::Reduction => false,
            Self::Exposed | Self::Hidden(_) | Self::Wait { .. } => false,
        }
    }
}

impl Span {
    /// What the stage works on.
    pub fn unit(&self) -> Unit {
        Unit::from(self.micro_batch).on(self.chunk)
    }
}

impl Message {
    /// What the sender worked on.
    pub fn unit(&self) -> Unit {
        Unit::from(self.micro_batch).on(self.chunk)
    }
}

impl StageTrack {
    /// When the stage is done.
    pub fn end(&self) -> Nanos {
        self.main.last().map_or(Nanos(0), |span| span.end)
    }

    /// The most bytes the stage ever has.
    pub fn peak(&self) -> Bytes {
        let bytes = self.memory.iter().map(|point| point.bytes);
        bytes.max().unwrap_or_default()
    }
}

impl Timeline {
    /// When the last stage is done.
    pub fn step(&self) -> Nanos {
        let ends = self.stages.iter().map(StageTrack::end);
        ends.max().unwrap_or_default()
    }

    /// The name of a span's label.
    pub fn label(&self, span: &Span) -> Option<&str> {
        let label = self.labels.get(span.label?)?;
        Some(label)
    }
}
