//! One stage: what it does next, its clock, and its tally.
//!
//! A worker knows how long [passes](super::pass) and waits take and what can be
//! hidden in them. When a wait ends is found out by the [engine](super::engine).

use std::collections::HashMap;

use super::ahead::Pool;
use super::costs::{Ahead, CoolDown, Costs, StageCosts, scale};
use super::memory::Meter;
use super::order::Done;
use super::recorder::{Lane, Recorder};
use super::report::StageReport;
use super::timeline::{Awaited, Span, SpanKind};
use super::window::Window;
use crate::ids::{ChunkId, StageId};
use crate::plan::schedule::{Action, Shape, Unit};
use crate::units::{Bytes, Nanos};

pub(super) struct Worker<'a> {
    pub(super) now: u64,
    pub(super) done: Done,
    pub(super) stage: StageId,
    actions: &'a [Action],
    next: usize,
    shape: Shape,
    pub(super) all: &'a Costs,
    /// Whether there are backwards; without any, nothing is kept.
    pub(super) trains: bool,
    /// The backwards of each chunk that are not done yet, where the last of them
    /// differ from the others; else empty.
    pub(super) backwards: Vec<usize>,
    pub(super) ahead: Pool,
    /// Whether anything at all may be done ahead of a backward. Most pipelines
    /// have waits by the million and nothing to do in them.
    has_ahead: bool,
    /// What first parts of backwards have left for the second.
    pub(super) halves: HashMap<Unit, i64>,
    pub(super) memory: Meter,
    pub(super) tally: StageReport,
}

impl<'a> Worker<'a> {
    /// A worker at the beginning of its list.
    pub(super) fn new<R: Recorder>(
        stage: StageId,
        (actions, shape): (&'a [Action], Shape),
        all: &'a Costs,
        done: Done,
        recorder: &mut R,
    ) -> Self {
        let own = all.stages.iter().skip(stage.0).step_by(shape.stages);
        let mut backwards = match own.clone().any(|costs| costs.cool_down.is_some()) {
            true => vec![0; shape.chunks],
            false => Vec::new(),
        };
        let mut trains = false;
        for action in actions.iter().filter(|action| action.makes_gradient()) {
            trains = true;
            // Those of unknown chunks are refused later.
            if let Some(count) = backwards.get_mut(action.chunk().0) {
                *count += 1;
            }
        }
        let works = |costs: &StageCosts| {
            let last = costs.cool_down.as_ref().map(|last| last.ahead.work);
            costs.ahead.work > Nanos(0) || last.is_some_and(|work| work > Nanos(0))
        };
        let has_ahead = own.clone().any(works);
        let fixed = own.map(|costs| costs.fixed.0).fold(0, u64::saturating_add);
        Self {
            now: 0,
            done,
            stage,
            actions,
            next: 0,
            shape,
            all,
            trains,
            backwards,
            ahead: Pool::default(),
            has_ahead,
            halves: HashMap::new(),
            memory: Meter::new(stage, fixed, recorder),
            tally: StageReport::default(),
        }
    }

    /// The costs of a chunk that the shape has.
    pub(super) fn costs(&self, chunk: ChunkId) -> &'a StageCosts {
        &self.all.stages[self.shape.index(self.stage, chunk)]
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

    /// Stands still until `until`, if that is not over yet.
    pub(super) fn wait<R: Recorder>(
        &mut self,
        until: u64,
        (window, awaited): (Window, Awaited),
        unit: Unit,
        recorder: &mut R,
    ) {
        let begin = self.now;
        let Some(time) = until.checked_sub(begin).filter(|time| *time > 0) else {
            return;
        };
        self.tally.waiting[window].0 += time;
        self.spend(time, SpanKind::Wait { window, awaited }, unit, "", recorder);
        if self.target().is_some_and(|(_, ahead)| ahead.uses(window)) {
            self.hide_ahead((window, 0), begin, u64::MAX, recorder);
        }
    }

    /// What recompute can be done for now, and how much of it there is in all.
    fn target(&mut self) -> Option<(Unit, Ahead)> {
        if !self.has_ahead {
            return None;
        }
        let unit = self.ahead.next(self.actions, &self.done)?;
        // A chunk that there is not is refused when its turn comes.
        if unit.chunk.0 >= self.shape.chunks {
            return None;
        }
        let ahead = self.ahead_of(unit.chunk);
        let ready = self.done.has(Action::Forward(unit));
        (ready && ahead.work > Nanos(0)).then_some((unit, ahead))
    }

    /// What may be done ahead of the next backward of a chunk.
    fn ahead_of(&self, chunk: ChunkId) -> Ahead {
        let last = self.cool_down(chunk);
        last.map_or(self.costs(chunk).ahead, |last| last.ahead)
    }

    /// The costs of the last backwards of a chunk, if the next one is one.
    pub(super) fn cool_down(&self, chunk: ChunkId) -> Option<&'a CoolDown> {
        let last = self.costs(chunk).cool_down.as_ref()?;
        let left = *self.backwards.get(chunk.0)?;
        (left <= last.backwards).then_some(last)
    }

    /// The recompute that fits into a window from `begin` until now, in which
    /// other work is done already.
    pub(super) fn room(&self, (window, busy): (Window, u64), begin: u64) -> u64 {
        let length = Nanos(self.now - begin);
        let all = self.all.contention.capacity(window, length);
        all.0.saturating_sub(busy)
    }

    /// Hides what fits of the next backward's recompute, but not more than `most`.
    pub(super) fn hide_ahead<R: Recorder>(
        &mut self,
        window: (Window, u64),
        begin: u64,
        most: u64,
        recorder: &mut R,
    ) {
        if most == 0 {
            return;
        }
        let Some((unit, ahead)) = self.target() else {
            return;
        };
        let size = self.all.size(unit.micro_batch.0);
        let most = scale(most, size).min(self.room(window, begin));
        let (hidden, begins) = self.ahead.draw(scale(ahead.work.0, size), most);
        if begins {
            let bytes = signed(scale(ahead.bytes.0, size));
            self.memory.change(bytes, begin, recorder);
        }
        self.hide(window.0, begin, hidden, unit, recorder);
    }

    /// Notes recompute that ran beside what lasted from `begin` until now.
    pub(super) fn hide<R: Recorder>(
        &mut self,
        window: Window,
        begin: u64,
        work: u64,
        unit: Unit,
        recorder: &mut R,
    ) {
        if work > 0 {
            self.tally.hidden[window].0 += work;
            // Beside something it takes longer, but it did fit.
            let time = work as f64 / self.all.contention.factor(window);
            let time = (time.ceil() as u64).min(self.now - begin);
            let span = span(SpanKind::Hidden(window), unit, begin, time);
            recorder.span(self.stage, Lane::Beside, span, "");
        }
    }

    /// Moves the clock on.
    pub(super) fn spend<R: Recorder>(
        &mut self,
        time: u64,
        kind: SpanKind,
        unit: Unit,
        label: &str,
        recorder: &mut R,
    ) {
        if time > 0 {
            let span = span(kind, unit, self.now, time);
            recorder.span(self.stage, Lane::Main, span, label);
            self.now += time;
        }
    }
}

/// That no sum of bytes is larger was checked before.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn span(kind: SpanKind, unit: Unit, begin: u64, time: u64) -> Span {
    Span {
        kind,
        micro_batch: unit.micro_batch,
        chunk: unit.chunk,
        begin: Nanos(begin),
        end: Nanos(begin + time),
        label: None,
    }
}
