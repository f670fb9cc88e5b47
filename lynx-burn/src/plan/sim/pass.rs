//! How a stage runs a forward, a backward, or a part of one.
//!
//! Both are asked to be inlined: a large step is a walk through all stages' data,
//! and the engine's loop then overlaps the waits for it (about a tenth less time).

use super::costs::{Ahead, Change, Part, StageCosts, scale};
use super::error::SimError;
use super::recorder::Recorder;
use super::timeline::SpanKind;
use super::worker::{Worker, signed};
use crate::plan::schedule::{Action, Unit};

impl Worker<'_> {
    /// Runs a forward.
    #[inline]
    pub(super) fn forward<R: Recorder>(&mut self, unit: Unit, recorder: &mut R) {
        let mut kept = 0;
        for part in &self.costs(unit.chunk).forward {
            kept += self.take(part.bytes(), unit, recorder);
            let begin = self.now;
            self.part(part, unit, SpanKind::Forward, recorder);
            if let Part::Collective {
                window,
                recompute,
                busy,
                ..
            } = part
            {
                let busy = scale(busy.0, self.all.size(unit.micro_batch.0));
                self.hide_ahead((*window, busy), begin, recompute.0, recorder);
            }
            kept -= self.give_back(part.bytes(), kept, unit, recorder);
        }
        if !self.trains {
            self.memory.change(-kept, self.now, recorder);
        }
    }

    /// Runs a backward, whole or one part of it.
    #[inline]
    pub(super) fn backward<R: Recorder>(
        &mut self,
        action: Action,
        recorder: &mut R,
    ) -> Result<(), SimError> {
        let unit = action.unit();
        let costs = self.costs(unit.chunk);
        let last = self.cool_down(unit.chunk);
        let ahead = last.map_or(costs.ahead, |last| last.ahead);
        let parts = match action {
            Action::BackwardWeight(_) => costs.split.as_ref().map(|split| &split.weight),
            Action::BackwardInput(_) => match (&costs.split, last) {
                (Some(_), Some(last)) => last.input.as_ref(),
                (split, _) => split.as_ref().map(|split| &split.input),
            },
            _ => Some(last.map_or(&costs.backward, |last| &last.backward)),
        };
        let stage = self.stage;
        let parts = parts.ok_or(SimError::NotSplit { stage, action })?;
        let (mut kept, compute) = match action {
            Action::BackwardWeight(_) => {
                let kept = self.halves.remove(&unit).unwrap_or(0);
                (kept, SpanKind::Weight)
            }
            _ => {
                let kept = self.begin_backward(unit, costs, ahead, recorder);
                (kept, SpanKind::Backward)
            }
        };
        let size = self.all.size(unit.micro_batch.0);
        for part in parts {
            kept += self.take(part.bytes(), unit, recorder);
            let begin = self.now;
            self.part(part, unit, compute, recorder);
            if let Part::Collective {
                window,
                recompute,
                busy,
                ..
            } = part
            {
                let work = scale(recompute.0, size);
                let room = self.room((*window, scale(busy.0, size)), begin);
                let hidden = work.min(room);
                self.hide(*window, begin, hidden, unit, recorder);
                self.expose(work - hidden, unit, recorder);
            }
            kept -= self.give_back(part.bytes(), kept, unit, recorder);
        }
        match action.ends_backward() {
            true => self.memory.change(-kept, self.now, recorder),
            false => drop(self.halves.insert(unit, kept)),
        }
        if let Some(left) = self.backwards.get_mut(unit.chunk.0) {
            *left = left.saturating_sub(usize::from(action.makes_gradient()));
        }
        Ok(())
    }

    /// Sums the gradients of a chunk over replicas. All of them are as far: they
    /// run the same schedule at the same costs.
    pub(super) fn reduce<R: Recorder>(&mut self, unit: Unit, recorder: &mut R) {
        let time = self.costs(unit.chunk).reduction.0;
        self.tally.reduction.0 += time;
        self.spend(time, SpanKind::Reduction, unit, "", recorder);
    }

    /// Exposes what is left of the recompute ahead of a backward; returns the
    /// bytes that its micro-batch has by then.
    fn begin_backward<R: Recorder>(
        &mut self,
        unit: Unit,
        costs: &StageCosts,
        ahead: Ahead,
        recorder: &mut R,
    ) -> i64 {
        let size = self.all.size(unit.micro_batch.0);
        let of_ahead = signed(scale(ahead.bytes.0, size));
        let (left, begun) = self.ahead.close(scale(ahead.work.0, size));
        if !begun {
            self.memory.change(of_ahead, self.now, recorder);
        }
        self.expose(left, unit, recorder);
        let forward = costs.forward.iter().map(Part::bytes);
        let of_forward = forward.fold(0, |kept, bytes| {
            let held = kept + signed(scale(bytes.takes.0, size));
            held - held.min(signed(scale(bytes.frees.0, size)))
        });
        of_forward + of_ahead
    }

    fn take<R: Recorder>(&mut self, bytes: Change, unit: Unit, recorder: &mut R) -> i64 {
        let taken = signed(scale(bytes.takes.0, self.all.size(unit.micro_batch.0)));
        self.memory.change(taken, self.now, recorder);
        taken
    }

    /// Frees what a part frees, but not more than is `kept`: for odd sizes, what
    /// several parts take may add up to less than one frees, by rounding.
    fn give_back<R: Recorder>(
        &mut self,
        bytes: Change,
        kept: i64,
        unit: Unit,
        recorder: &mut R,
    ) -> i64 {
        let freed = signed(scale(bytes.frees.0, self.all.size(unit.micro_batch.0)));
        let freed = freed.min(kept);
        self.memory.change(-freed, self.now, recorder);
        freed
    }

    fn part<R: Recorder>(&mut self, part: &Part, unit: Unit, compute: SpanKind, recorder: &mut R) {
        let size = self.all.size(unit.micro_batch.0);
        match part {
            Part::Compute { label, time, .. } => {
                let time = scale(time.0, size);
                match compute {
                    SpanKind::Forward => self.tally.forward.0 += time,
                    _ => self.tally.backward.0 += time,
                }
                self.spend(time, compute, unit, label, recorder);
            }
            Part::Collective { window, time, .. } => {
                let time = scale(time.0, size);
                self.tally.collective.0 += time;
                self.spend(time, SpanKind::Collective(*window), unit, "", recorder);
            }
            Part::Recompute { time, .. } => self.expose(scale(time.0, size), unit, recorder),
        }
    }

    fn expose<R: Recorder>(&mut self, time: u64, unit: Unit, recorder: &mut R) {
        self.tally.exposed.0 += time;
        self.spend(time, SpanKind::Exposed, unit, "", recorder);
    }
}
