//! One stage: what it does next, its clock, and its tally.
//!
//! A worker knows how long passes and waits take and what can be hidden in
//! them. When a wait ends is found out by the [engine](super::engine).

use super::ahead::Pool;
use super::costs::{Costs, Part, StageCosts, scale};
use super::memory::Meter;
use super::order::Done;
use super::recorder::{Lane, Recorder};
use super::report::StageReport;
use super::timeline::{Awaited, Span, SpanKind};
use super::window::Window;
use crate::ids::{MicroBatchId, StageId};
use crate::plan::schedule::Action;
use crate::units::{Bytes, Nanos};

pub(super) struct Worker<'a> {
    pub(super) now: u64,
    pub(super) done: Done,
    stage: StageId,
    actions: &'a [Action],
    next: usize,
    all: &'a Costs,
    costs: &'a StageCosts,
    /// Whether anything is kept for a backward.
    trains: bool,
    ahead: Pool,
    memory: Meter,
    tally: StageReport,
}

impl<'a> Worker<'a> {
    /// A worker at the beginning of its list.
    pub(super) fn new<R: Recorder>(
        stage: StageId,
        actions: &'a [Action],
        all: &'a Costs,
        costs: &'a StageCosts,
        done: Done,
        recorder: &mut R,
    ) -> Self {
        Self {
            now: 0,
            done,
            stage,
            actions,
            next: 0,
            all,
            costs,
            trains: actions.iter().any(|a| matches!(a, Action::Backward(_))),
            ahead: Pool::default(),
            memory: Meter::new(stage, costs.memory.fixed.0, recorder),
            tally: StageReport::default(),
        }
    }

    /// The next action.
    pub(super) fn action(&self) -> Option<Action> {
        self.actions.get(self.next).copied()
    }

    /// Goes on to the action after `action`, which has ended.
    pub(super) fn advance(&mut self, action: Action) {
        self.done.note(action);
        self.next += 1;
    }

    pub(super) fn report(&self) -> StageReport {
        StageReport {
            end: Nanos(self.now),
            peak: Bytes(self.memory.peak()),
            ..self.tally
        }
    }

    /// Runs a forward.
    pub(super) fn forward<R: Recorder>(&mut self, mb: MicroBatchId, recorder: &mut R) {
        let size = self.all.size(mb.0);
        let costs = self.costs;
        let retained = scale(costs.memory.retained.0, size);
        let workspace = scale(costs.memory.workspace.0, size);
        self.memory.add(retained + workspace, self.now, recorder);
        for part in &costs.forward {
            let begin = self.now;
            self.part(part, mb, SpanKind::Forward, recorder);
            if let Part::Collective {
                window, recompute, ..
            } = part
            {
                self.hide_ahead(*window, begin, recompute.0, recorder);
            }
        }
        let dropped = if self.trains { 0 } else { retained };
        self.memory.free(workspace + dropped, self.now, recorder);
    }

    /// Runs a backward, after what is left of the recompute ahead of it.
    pub(super) fn backward<R: Recorder>(&mut self, mb: MicroBatchId, recorder: &mut R) {
        let size = self.all.size(mb.0);
        let costs = self.costs;
        let of = |bytes: Bytes| scale(bytes.0, size);
        let during = of(costs.memory.recomputed) + of(costs.memory.workspace);
        let ahead = of(costs.memory.ahead);
        let (left, begun) = self.ahead.close(scale(costs.ahead.work.0, size));
        let new = if begun { during } else { during + ahead };
        self.memory.add(new, self.now, recorder);
        self.expose(left, mb, recorder);
        for part in &costs.backward {
            let begin = self.now;
            self.part(part, mb, SpanKind::Backward, recorder);
            if let Part::Collective {
                window, recompute, ..
            } = part
            {
                let work = scale(recompute.0, size);
                let hidden = work.min(self.room(*window, begin));
                self.hide(*window, begin, hidden, mb, recorder);
                self.expose(work - hidden, mb, recorder);
            }
        }
        let all = during + ahead + of(costs.memory.retained);
        self.memory.free(all, self.now, recorder);
    }

    /// Stands still until `until`, if that is not over yet.
    pub(super) fn wait<R: Recorder>(
        &mut self,
        until: u64,
        (window, awaited): (Window, Awaited),
        mb: MicroBatchId,
        recorder: &mut R,
    ) {
        let begin = self.now;
        let Some(time) = until.checked_sub(begin).filter(|time| *time > 0) else {
            return;
        };
        self.tally.waiting[window].0 += time;
        self.spend(time, SpanKind::Wait { window, awaited }, mb, "", recorder);
        if self.costs.ahead.uses(window) {
            self.hide_ahead(window, begin, u64::MAX, recorder);
        }
    }

    fn part<R: Recorder>(
        &mut self,
        part: &Part,
        mb: MicroBatchId,
        compute: SpanKind,
        recorder: &mut R,
    ) {
        let size = self.all.size(mb.0);
        match part {
            Part::Compute { label, time } => {
                let time = scale(time.0, size);
                match compute {
                    SpanKind::Forward => self.tally.forward.0 += time,
                    _ => self.tally.backward.0 += time,
                }
                self.spend(time, compute, mb, label, recorder);
            }
            Part::Collective { window, time, .. } => {
                let time = scale(time.0, size);
                self.tally.collective.0 += time;
                self.spend(time, SpanKind::Collective(*window), mb, "", recorder);
            }
            Part::Recompute { time } => self.expose(scale(time.0, size), mb, recorder),
        }
    }

    fn expose<R: Recorder>(&mut self, time: u64, mb: MicroBatchId, recorder: &mut R) {
        self.tally.exposed.0 += time;
        self.spend(time, SpanKind::Exposed, mb, "", recorder);
    }

    /// The recompute that fits into a window from `begin` until now.
    fn room(&self, window: Window, begin: u64) -> u64 {
        let length = Nanos(self.now - begin);
        self.all.contention.capacity(window, length).0
    }

    /// Hides what fits of the next backward's recompute, but not more than `most`.
    fn hide_ahead<R: Recorder>(&mut self, window: Window, begin: u64, most: u64, recorder: &mut R) {
        let costs = self.costs;
        if costs.ahead.work == Nanos(0) || most == 0 {
            return;
        }
        let Some(mb) = self.ahead.target(self.actions, &self.done) else {
            return;
        };
        let size = self.all.size(mb.0);
        let most = scale(most, size).min(self.room(window, begin));
        let (hidden, begins) = self.ahead.draw(scale(costs.ahead.work.0, size), most);
        if begins {
            let bytes = scale(costs.memory.ahead.0, size);
            self.memory.add(bytes, begin, recorder);
        }
        self.hide(window, begin, hidden, mb, recorder);
    }

    /// Notes recompute that ran beside what lasted from `begin` until now.
    fn hide<R: Recorder>(
        &mut self,
        window: Window,
        begin: u64,
        work: u64,
        mb: MicroBatchId,
        recorder: &mut R,
    ) {
        if work > 0 {
            self.tally.hidden[window].0 += work;
            // Beside something it takes longer, but it did fit.
            let time = work as f64 / self.all.contention.factor(window);
            let time = (time.ceil() as u64).min(self.now - begin);
            let span = span(SpanKind::Hidden(window), mb, begin, time);
            recorder.span(self.stage, Lane::Beside, span, "");
        }
    }

    /// Moves the clock on.
    fn spend<R: Recorder>(
        &mut self,
        time: u64,
        kind: SpanKind,
        mb: MicroBatchId,
        label: &str,
        recorder: &mut R,
    ) {
        if time > 0 {
            let span = span(kind, mb, self.now, time);
            recorder.span(self.stage, Lane::Main, span, label);
            self.now += time;
        }
    }
}

fn span(kind: SpanKind, micro_batch: MicroBatchId, begin: u64, time: u64) -> Span {
    Span {
        kind,
        micro_batch,
        begin: Nanos(begin),
        end: Nanos(begin + time),
        label: None,
    }
}
