//! One stage: what it does next, its clock, and its tally.
//!
//! A worker knows how long passes and waits take and what can be hidden in
//! them. When a wait ends is found out by the [engine](super::engine).

use super::ahead::Pool;
use super::costs::{Ahead, Change, Costs, Part, StageCosts, scale};
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
    /// The backwards that are not done yet; without any, nothing is kept.
    backwards: usize,
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
        let backwards = actions.iter().filter(|a| matches!(a, Action::Backward(_)));
        Self {
            now: 0,
            done,
            stage,
            actions,
            next: 0,
            all,
            costs,
            backwards: backwards.count(),
            ahead: Pool::default(),
            memory: Meter::new(stage, costs.fixed.0, recorder),
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
        let costs = self.costs;
        let mut kept = 0;
        for part in &costs.forward {
            kept += self.take(part.bytes(), mb, recorder);
            let begin = self.now;
            self.part(part, mb, SpanKind::Forward, recorder);
            if let Part::Collective {
                window,
                recompute,
                busy,
                ..
            } = part
            {
                let busy = scale(busy.0, self.all.size(mb.0));
                self.hide_ahead((*window, busy), begin, recompute.0, recorder);
            }
            kept -= self.give_back(part.bytes(), mb, recorder);
        }
        if self.backwards == 0 {
            self.memory.change(-kept, self.now, recorder);
        }
    }

    /// Runs a backward, after what is left of the recompute ahead of it.
    pub(super) fn backward<R: Recorder>(&mut self, mb: MicroBatchId, recorder: &mut R) {
        let size = self.all.size(mb.0);
        let (parts, ahead) = self.upcoming();
        let of_ahead = scale(ahead.bytes.0, size);
        let mut kept = self.of_forward(size) + signed(of_ahead);
        let (left, begun) = self.ahead.close(scale(ahead.work.0, size));
        if !begun {
            self.memory.change(signed(of_ahead), self.now, recorder);
        }
        self.expose(left, mb, recorder);
        for part in parts {
            kept += self.take(part.bytes(), mb, recorder);
            let begin = self.now;
            self.part(part, mb, SpanKind::Backward, recorder);
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
                self.hide(*window, begin, hidden, mb, recorder);
                self.expose(work - hidden, mb, recorder);
            }
            kept -= self.give_back(part.bytes(), mb, recorder);
        }
        self.memory.change(-kept, self.now, recorder);
        self.backwards = self.backwards.saturating_sub(1);
    }

    /// The parts of the next backward, and what may be done ahead of it.
    fn upcoming(&self) -> (&'a [Part], Ahead) {
        match &self.costs.cool_down {
            Some(last) if self.backwards <= last.backwards => (&last.backward, last.ahead),
            _ => (&self.costs.backward, self.costs.ahead),
        }
    }

    /// What the forward of a micro-batch of this size has left.
    fn of_forward(&self, size: u32) -> i64 {
        let parts = self.costs.forward.iter().map(Part::bytes);
        parts
            .map(|b| signed(scale(b.takes.0, size)) - signed(scale(b.frees.0, size)))
            .sum()
    }

    fn take<R: Recorder>(&mut self, bytes: Change, mb: MicroBatchId, recorder: &mut R) -> i64 {
        let taken = signed(scale(bytes.takes.0, self.all.size(mb.0)));
        self.memory.change(taken, self.now, recorder);
        taken
    }

    fn give_back<R: Recorder>(&mut self, bytes: Change, mb: MicroBatchId, recorder: &mut R) -> i64 {
        let freed = signed(scale(bytes.frees.0, self.all.size(mb.0)));
        self.memory.change(-freed, self.now, recorder);
        freed
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
        if self.upcoming().1.uses(window) {
            self.hide_ahead((window, 0), begin, u64::MAX, recorder);
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
            Part::Compute { label, time, .. } => {
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
            Part::Recompute { time, .. } => self.expose(scale(time.0, size), mb, recorder),
        }
    }

    fn expose<R: Recorder>(&mut self, time: u64, mb: MicroBatchId, recorder: &mut R) {
        self.tally.exposed.0 += time;
        self.spend(time, SpanKind::Exposed, mb, "", recorder);
    }

    /// The recompute that fits into a window from `begin` until now, in which
    /// other work is done already.
    fn room(&self, (window, busy): (Window, u64), begin: u64) -> u64 {
        let length = Nanos(self.now - begin);
        let all = self.all.contention.capacity(window, length);
        all.0.saturating_sub(busy)
    }

    /// Hides what fits of the next backward's recompute, but not more than `most`.
    fn hide_ahead<R: Recorder>(
        &mut self,
        window: (Window, u64),
        begin: u64,
        most: u64,
        recorder: &mut R,
    ) {
        let (_, ahead) = self.upcoming();
        if ahead.work == Nanos(0) || most == 0 {
            return;
        }
        let Some(mb) = self.ahead.target(self.actions, &self.done) else {
            return;
        };
        let size = self.all.size(mb.0);
        let most = scale(most, size).min(self.room(window, begin));
        let (hidden, begins) = self.ahead.draw(scale(ahead.work.0, size), most);
        if begins {
            let bytes = signed(scale(ahead.bytes.0, size));
            self.memory.change(bytes, begin, recorder);
        }
        self.hide(window.0, begin, hidden, mb, recorder);
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

/// That no sum of bytes is larger was checked before.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
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
