//! Who is told what happens while a schedule is timed.
//!
//! The engine is generic over it, so that figures alone cost neither time nor
//! memory for spans that nobody reads.

use std::collections::HashMap;

use super::channel::{Mail, channel_count, channel_ends};
use super::timeline::{ChannelTrack, Message, Point, Span, StageTrack, Timeline};
use crate::ids::StageId;
use crate::plan::schedule::Shape;
use crate::units::{Bytes, Nanos};

/// Where a span of a stage belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// What the stage itself does, one thing after the other.
    Main,
    /// Recompute that runs beside something of the main lane.
    Beside,
}

/// Is told of everything that lasts, and of every change of memory.
pub(super) trait Recorder {
    /// A stage did something; spans of a lane come in order and never overlap.
    fn span(&mut self, stage: StageId, lane: Lane, span: Span, label: &str);
    /// A message was sent on a channel.
    fn message(&mut self, channel: usize, mail: &Mail);
    /// A stage's memory has changed.
    fn memory(&mut self, stage: StageId, at: u64, bytes: u64);
}

impl Recorder for () {
    fn span(&mut self, _: StageId, _: Lane, _: Span, _: &str) {}
    fn message(&mut self, _: usize, _: &Mail) {}
    fn memory(&mut self, _: StageId, _: u64, _: u64) {}
}

/// Keeps everything.
pub(super) struct Recording {
    timeline: Timeline,
    labels: HashMap<String, usize>,
}

impl Recording {
    pub(super) fn new(shape: Shape) -> Self {
        let track = |channel| {
            let (from, to, cargo) = channel_ends(channel, shape.stages);
            ChannelTrack {
                from,
                to,
                cargo,
                messages: Vec::new(),
            }
        };
        let channels = (0..channel_count(shape)).map(track);
        Self {
            timeline: Timeline {
                stages: vec![StageTrack::default(); shape.stages],
                channels: channels.collect(),
                labels: Vec::new(),
            },
            labels: HashMap::new(),
        }
    }

    pub(super) fn finish(self) -> Timeline {
        self.timeline
    }

    fn label(&mut self, label: &str) -> Option<usize> {
        if label.is_empty() {
            return None;
        }
        if let Some(known) = self.labels.get(label) {
            return Some(*known);
        }
        let index = self.timeline.labels.len();
        self.timeline.labels.push(label.to_owned());
        self.labels.insert(label.to_owned(), index);
        Some(index)
    }
}

impl Recorder for Recording {
    fn span(&mut self, stage: StageId, lane: Lane, span: Span, label: &str) {
        let label = self.label(label);
        if let Some(track) = self.timeline.stages.get_mut(stage.0) {
            let lane = match lane {
                Lane::Main => &mut track.main,
                Lane::Beside => &mut track.beside,
            };
            lane.push(Span { label, ..span });
        }
    }

    fn message(&mut self, channel: usize, mail: &Mail) {
        if let Some(track) = self.timeline.channels.get_mut(channel) {
            track.messages.push(Message {
                micro_batch: mail.unit.micro_batch,
                chunk: mail.unit.chunk,
                begin: Nanos(mail.begin),
                left: Nanos(mail.left),
                arrive: Nanos(mail.arrive),
            });
        }
    }

    fn memory(&mut self, stage: StageId, at: u64, bytes: u64) {
        if let Some(track) = self.timeline.stages.get_mut(stage.0) {
            track.memory.push(Point {
                at: Nanos(at),
                bytes: Bytes(bytes),
            });
        }
    }
}
