//! The spans that determine how long a step takes.
//!
//! Found from the end backwards: what a stage does follows what it did before;
//! a wait follows what ended it, on another stage or on a link. So the path
//! never contains a wait, and its spans follow each other without a gap. Where
//! two things end a wait at the same instant, one of them is taken.

use serde::{Deserialize, Serialize};

use super::channel::channel_between;
use super::timeline::{Awaited, Cargo, Span, SpanKind, StageTrack, Timeline};
use crate::ids::{ChunkId, MicroBatchId, StageId};
use crate::plan::schedule::Unit;
use crate::units::Nanos;

/// Where a span of the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// On a stage.
    Stage(StageId),
    /// On its way from one stage to another.
    Channel {
        /// The stage that sends.
        from: StageId,
        /// The stage that receives.
        to: StageId,
        /// What it carries.
        cargo: Cargo,
    },
}

/// What fills a span of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathKind {
    /// What the stage does.
    Work(SpanKind),
    /// A message occupies the link.
    Wire,
    /// A message has left and not arrived.
    Latency,
}

/// A span of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpan {
    /// Where.
    pub place: Place,
    /// What.
    pub kind: PathKind,
    /// For which micro-batch.
    pub micro_batch: MicroBatchId,
    /// On which chunk; of a message, of the sender's.
    #[serde(default)]
    pub chunk: ChunkId,
    /// The first instant.
    pub begin: Nanos,
    /// The instant after the last.
    pub end: Nanos,
}

impl Timeline {
    /// The spans that determine the step time, from the beginning to the end:
    /// each begins where the one before ends, and together they take the step
    /// time. `None` only for a timeline without stages or in which something
    /// comes from nothing, which is never so in one from [`record`](super::record).
    pub fn critical_path(&self) -> Option<Vec<PathSpan>> {
        let ends = self.stages.iter().map(StageTrack::end).enumerate();
        // Of several last stages, the first.
        let (stage, end) = ends.rev().max_by_key(|(_, end)| *end)?;
        let mut path = Path {
            timeline: self,
            spans: Vec::new(),
            at: end,
        };
        let mut stage = StageId(stage);
        // Steps from stage to stage that take no time; going in a circle, which
        // only a timeline by hand can make one do, must end.
        let mut hops = 0;
        while path.at > Nanos(0) {
            let before = path.at;
            stage = path.stage(stage)?;
            hops = if path.at < before { 0 } else { hops + 1 };
            if hops > 2 * self.stages.len() {
                return None;
            }
        }
        path.spans.reverse();
        Some(path.spans)
    }
}

struct Path<'a> {
    timeline: &'a Timeline,
    /// From the end backwards.
    spans: Vec<PathSpan>,
    /// Where the spans found so far begin.
    at: Nanos,
}

impl Path<'_> {
    fn push(&mut self, place: Place, kind: PathKind, unit: Unit, begin: Nanos) {
        if begin < self.at {
            self.spans.push(PathSpan {
                place,
                kind,
                micro_batch: unit.micro_batch,
                chunk: unit.chunk,
                begin,
                end: self.at,
            });
            self.at = begin;
        }
    }

    /// Takes what `stage` did until now; returns the stage to go on with.
    fn stage(&mut self, stage: StageId) -> Option<StageId> {
        let track = &self.timeline.stages.get(stage.0)?.main;
        let index = track.partition_point(|span| span.end < self.at);
        let span = track.get(index).filter(|span| span.end == self.at)?;
        match span.kind {
            SpanKind::Wait { awaited, .. } => match awaited {
                Awaited::Stage(peer) => Some(peer),
                Awaited::Message { from, to, cargo } => {
                    self.message((from, to, cargo), stage, span)
                }
            },
            kind => {
                let place = Place::Stage(stage);
                self.push(place, PathKind::Work(kind), span.unit(), span.begin);
                Some(stage)
            }
        }
    }

    /// Takes the way of the message that ended `wait`; returns the stage that sent it.
    fn message(
        &mut self,
        (from, to, cargo): (StageId, StageId, Cargo),
        waits: StageId,
        wait: &Span,
    ) -> Option<StageId> {
        let channel = channel_between(from, to, cargo);
        let messages = &self.timeline.channels.get(channel)?.messages;
        // The message has the sender's name; around the ring, the receiver's is
        // another chunk's.
        let chunk = match (cargo, wait.chunk) {
            (_, chunk) if waits == from => chunk,
            (Cargo::Boundary, ChunkId(chunk)) if to == StageId(0) => ChunkId(chunk.checked_sub(1)?),
            (Cargo::Gradient, ChunkId(chunk)) if from == StageId(0) => {
                ChunkId(chunk.checked_add(1)?)
            }
            (_, chunk) => chunk,
        };
        let awaited = wait.unit().on(chunk);
        let first = messages.partition_point(|m| m.arrive < self.at);
        let mut ends = messages.get(first..)?.iter();
        let index = ends.position(|m| m.unit() == awaited)?;
        let upto = messages.get(..=first + index)?;
        let message = upto.last()?;
        let place = Place::Channel { from, to, cargo };
        // A wait for the message to leave ends before its latency.
        self.push(place, PathKind::Latency, message.unit(), message.left);
        // As long as the link was busy without a pause, it was the link.
        for message in upto.iter().rev() {
            if message.left != self.at {
                break;
            }
            self.push(place, PathKind::Wire, message.unit(), message.begin);
        }
        Some(from)
    }
}
