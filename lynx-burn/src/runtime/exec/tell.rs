//! Adds up what a stage's actions took, and tells the observer of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::grid::Seat;
use super::observer::{ActionSpan, MessageSpan, Observer, RecomputeSpan, SumSpan, WaitSpan};
use super::tally::{self, Waited};
use crate::ids::{SegmentId, StageId};
use crate::plan::schedule::Action;
use crate::plan::sim::Cargo;
use crate::plan::sim::timeline::Awaited;
use crate::runtime::chain::Chain;
use crate::runtime::comm::link::Way;
use crate::runtime::stage::{Stage, StageTimes, Sum};
use crate::units::{Bytes, Nanos};

/// Keeps the times of one stage in one run.
pub(super) struct Teller {
    seat: Seat,
    step: u64,
    observer: Option<Arc<dyn Observer>>,
    times: StageTimes,
}

impl Teller {
    pub(super) fn new(seat: Seat, step: u64, observer: Option<Arc<dyn Observer>>) -> Self {
        Self {
            seat,
            step,
            observer,
            times: StageTimes::default(),
        }
    }

    pub(super) fn times(&self) -> StageTimes {
        self.times
    }

    /// An action is over; `waited` is what of it was waiting.
    pub(super) fn action<C: Chain>(
        &mut self,
        action: Action,
        time: Range<Instant>,
        waited: Waited,
        stage: &mut Stage<C>,
    ) {
        let waited = self.recompute(waited, time.end, stage);
        if action.is_reduction() {
            let took = Nanos::from(time.end.duration_since(time.start));
            self.times.reduction = self.times.reduction.saturating_add(took);
        }
        let Some(observer) = &self.observer else {
            return;
        };
        for (window, part) in waited.parts() {
            observer.wait(&WaitSpan {
                replica: self.seat.replica,
                stage: self.seat.stage,
                rank: self.seat.rank,
                micro_batch: action.micro_batch(),
                window: *window,
                awaited: self.awaited(action),
                begin: part.start,
                end: part.end,
            });
        }
        observer.action(&ActionSpan {
            step: self.step,
            replica: self.seat.replica,
            stage: self.seat.stage,
            rank: self.seat.rank,
            action,
            begin: time.start,
            end: time.end,
            in_flight: stage.in_flight(),
            retained: stage.retained(),
        });
    }

    /// A sum was taken, of tensors of so many bytes, for which the stage stood ready since `begin`.
    pub(super) fn sum<C: Chain>(
        &mut self,
        sum: Sum,
        bytes: u64,
        (begin, way): (Instant, Way),
        stage: &mut Stage<C>,
    ) {
        let waited = Waited::new(begin, &[(sum.window, way.arrive)]);
        let waited = self.recompute(waited, Instant::now(), stage);
        let Some(observer) = &self.observer else {
            return;
        };
        let end = waited.parts().map(|(_, part)| part.end).last();
        observer.sum(&SumSpan {
            replica: self.seat.replica,
            stage: self.seat.stage,
            rank: self.seat.rank,
            micro_batch: sum.micro_batch,
            behind: SegmentId(sum.behind),
            window: sum.window,
            bytes: Bytes(bytes),
            begin,
            complete: way.begin.max(begin),
            end: end.unwrap_or(begin),
        });
    }

    /// Tells what was recomputed since the last time, with what `waited` hides of it.
    fn recompute<C: Chain>(
        &mut self,
        waited: Waited,
        now: Instant,
        stage: &mut Stage<C>,
    ) -> Waited {
        let rebuildings = stage.take_rebuildings();
        let waited = waited.close(now, &rebuildings);
        let parts = waited.cut(&rebuildings);
        tally::add(&mut self.times, &waited, &parts);
        if let Some(observer) = &self.observer {
            for part in parts {
                let whole = &rebuildings[part.of];
                observer.recompute(&RecomputeSpan {
                    replica: self.seat.replica,
                    stage: self.seat.stage,
                    rank: self.seat.rank,
                    micro_batch: whole.micro_batch,
                    segments: whole.segments.clone(),
                    window: part.window,
                    begin: part.time.start,
                    end: part.time.end,
                    retained: whole.retained,
                });
            }
        }
        waited
    }

    /// A message was sent.
    pub(super) fn message(&self, action: Action, bytes: u64, way: &Way) {
        if let Some(observer) = &self.observer {
            let (from, to, cargo) = self.ends(action);
            observer.message(&MessageSpan {
                replica: self.seat.replica,
                from,
                to,
                rank: self.seat.rank,
                cargo,
                micro_batch: action.micro_batch(),
                bytes: Bytes(bytes),
                begin: way.begin,
                left: way.left,
                arrive: way.arrive,
            });
        }
    }

    fn awaited(&self, action: Action) -> Awaited {
        let (from, to, cargo) = self.ends(action);
        match action.is_send() {
            true => Awaited::Stage(to),
            false => Awaited::Message { from, to, cargo },
        }
    }

    /// The stages of a transfer, and what is transferred.
    fn ends(&self, action: Action) -> (StageId, StageId, Cargo) {
        let (own, after) = (self.seat.stage, StageId(self.seat.stage.0 + 1));
        let before = StageId(own.0.saturating_sub(1));
        match action {
            Action::SendForward(_) => (own, after, Cargo::Boundary),
            Action::RecvBackward(_) => (after, own, Cargo::Gradient),
            Action::SendBackward(_) => (own, before, Cargo::Gradient),
            _ => (before, own, Cargo::Boundary),
        }
    }
}
