//! From what a stage told to the lanes of its track.

use std::time::Instant;

use crate::ids::{ChunkId, MicroBatchId};
use crate::plan::schedule::Action;
use crate::plan::sim::timeline::{self, Point, Span, SpanKind, StageTrack};
use crate::runtime::exec::observer::{ActionSpan, MessageSpan, RecomputeSpan, SumSpan, WaitSpan};
use crate::units::{Bytes, Nanos};

/// What one stage told, in the order in which it did.
#[derive(Clone, Debug, Default)]
pub(super) struct StageEvents {
    begin: Option<Instant>,
    main: Vec<Event>,
    beside: Vec<Event>,
    /// Exposed recompute and sums of the action that is not told yet.
    inside: Vec<Event>,
    memory: Vec<(Instant, Bytes)>,
}

/// Something that lasts.
#[derive(Clone, Copy, Debug)]
struct Event {
    kind: SpanKind,
    micro_batch: MicroBatchId,
    begin: Instant,
    end: Instant,
}

/// A message that was sent.
#[derive(Debug)]
pub(super) struct Message(pub(super) MessageSpan);

impl StageEvents {
    /// When the first action began.
    pub(super) fn begin(&self) -> Option<Instant> {
        self.begin
    }

    pub(super) fn recompute(&mut self, span: &RecomputeSpan) {
        let (kind, lane) = match span.window {
            Some(window) => (SpanKind::Hidden(window), &mut self.beside),
            None => (SpanKind::Exposed, &mut self.inside),
        };
        lane.push(Event {
            kind,
            micro_batch: span.micro_batch,
            begin: span.begin,
            end: span.end,
        });
        self.memory.push((span.end, span.retained));
    }

    pub(super) fn sum(&mut self, span: &SumSpan) {
        self.inside.push(Event {
            kind: SpanKind::Collective(span.window),
            micro_batch: span.micro_batch,
            begin: span.begin,
            end: span.end,
        });
    }

    pub(super) fn wait(&mut self, span: &WaitSpan) {
        self.main.push(Event {
            kind: SpanKind::Wait {
                window: span.window,
                awaited: span.awaited,
            },
            micro_batch: span.micro_batch,
            begin: span.begin,
            end: span.end,
        });
    }

    /// An action with the recompute and the sums that were told before it.
    pub(super) fn action(&mut self, span: &ActionSpan) {
        self.begin.get_or_insert(span.begin);
        let mut inside = std::mem::take(&mut self.inside);
        inside.sort_by_key(|event| (event.begin, event.end));
        let kind = match span.action {
            Action::Forward(_) => Some(SpanKind::Forward),
            Action::Backward(_) | Action::BackwardInput(_) => Some(SpanKind::Backward),
            Action::BackwardWeight(_) => Some(SpanKind::Weight),
            Action::ReduceGradients(_) => Some(SpanKind::Reduction),
            _ => None,
        };
        if let Some(kind) = kind {
            // What is left of the action between them.
            let ends = inside.iter().map(|event| event.end);
            let begins = inside.iter().map(|event| event.begin);
            let begins = begins.chain([span.end]);
            let own = std::iter::once(span.begin).chain(ends).zip(begins);
            self.main.extend(own.map(|(begin, end)| Event {
                kind,
                micro_batch: span.action.micro_batch(),
                begin,
                end,
            }));
        }
        self.main.append(&mut inside);
        self.memory.push((span.end, span.retained));
    }

    /// The track, with instants as `since` tells them.
    pub(super) fn track(mut self, since: impl Fn(Instant) -> Nanos) -> StageTrack {
        self.main.sort_by_key(|event| (event.begin, event.end));
        self.memory.sort_by_key(|(at, _)| *at);
        let mut at = Nanos::ZERO;
        let mut main = Vec::with_capacity(self.main.len());
        for event in &self.main {
            let end = since(event.end);
            if end > at {
                main.push(event.span(at, end));
                at = end;
            }
        }
        let beside = self.beside.iter();
        let beside = beside.map(|event| event.span(since(event.begin), since(event.end)));
        let memory = self.memory.iter().map(|&(at, bytes)| Point {
            at: since(at),
            bytes,
        });
        let nothing = Point {
            at: Nanos::ZERO,
            bytes: Bytes(0),
        };
        StageTrack {
            main,
            beside: beside.filter(|span| span.begin < span.end).collect(),
            memory: std::iter::once(nothing).chain(memory).collect(),
        }
    }
}

impl Event {
    fn span(&self, begin: Nanos, end: Nanos) -> Span {
        Span {
            kind: self.kind,
            micro_batch: self.micro_batch,
            chunk: ChunkId(0),
            begin,
            end,
            label: None,
        }
    }
}

impl Message {
    pub(super) fn at(&self, since: impl Fn(Instant) -> Nanos) -> timeline::Message {
        timeline::Message {
            micro_batch: self.0.micro_batch,
            chunk: ChunkId(0),
            begin: since(self.0.begin),
            left: since(self.0.left),
            arrive: since(self.0.arrive),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::{RankId, ReplicaId, StageId};
    use crate::plan::cluster::Window;
    use crate::plan::sim::timeline::Awaited;

    #[test]
    fn a_backward_is_cut_by_its_recompute_and_gaps_go_to_what_comes_next() {
        let zero = Instant::now();
        let at = |nanos: u64| zero + Duration::from_nanos(nanos);
        let stage = StageId(0);
        let micro_batch = MicroBatchId(2);
        let recompute = |begin, end, window| RecomputeSpan {
            replica: ReplicaId(0),
            stage,
            rank: RankId(0),
            micro_batch,
            segments: 0..1,
            window,
            begin: at(begin),
            end: at(end),
            retained: Bytes(50),
        };
        let action = |action, begin, end| ActionSpan {
            step: 0,
            replica: ReplicaId(0),
            stage,
            rank: RankId(0),
            action,
            begin: at(begin),
            end: at(end),
            in_flight: 1,
            retained: Bytes(10),
        };
        let unit = micro_batch.into();
        let awaited = Awaited::Stage(StageId(1));
        let wait = WaitSpan {
            replica: ReplicaId(0),
            stage,
            rank: RankId(0),
            micro_batch,
            window: Window::Bubble,
            awaited,
            begin: at(12),
            end: at(20),
        };
        let mut events = StageEvents::default();
        events.action(&action(Action::Forward(unit), 0, 10));
        events.recompute(&recompute(12, 20, Some(Window::Bubble)));
        events.recompute(&recompute(20, 23, None));
        events.wait(&wait);
        events.action(&action(Action::RecvBackward(unit), 12, 24));
        events.recompute(&recompute(30, 40, None));
        events.action(&action(Action::Backward(unit), 25, 60));
        let track = events.track(|at| Nanos::from(at.duration_since(zero)));
        let window = Window::Bubble;
        let main: Vec<_> = track
            .main
            .iter()
            .map(|span| (span.kind, span.begin.0, span.end.0))
            .collect();
        assert_eq!(
            main,
            [
                (SpanKind::Forward, 0, 10),
                (SpanKind::Wait { window, awaited }, 10, 20),
                (SpanKind::Exposed, 20, 23),
                (SpanKind::Backward, 23, 30),
                (SpanKind::Exposed, 30, 40),
                (SpanKind::Backward, 40, 60),
            ]
        );
        let beside = &track.beside[0];
        assert_eq!(track.beside.len(), 1);
        assert_eq!(beside.kind, SpanKind::Hidden(window));
        assert_eq!((beside.begin, beside.end), (Nanos(12), Nanos(20)));
        assert_eq!(track.peak(), Bytes(50));
    }
}
