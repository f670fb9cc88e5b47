//! Keeps everything that is told of a run.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

use lynx_burn::ids::{RankId, StageId};
use lynx_burn::plan::sim::Window;
use lynx_burn::plan::sim::timeline::Timeline;
use lynx_burn::{
    ActionSpan, MessageSpan, Observer, RecomputeSpan, Recorder, RunStart, SumSpan, WaitSpan,
};

/// One run, as it was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) actions: Vec<ActionSpan>,
    pub(crate) recomputes: Vec<RecomputeSpan>,
    pub(crate) waits: Vec<WaitSpan>,
    pub(crate) sums: Vec<SumSpan>,
    pub(crate) messages: Vec<MessageSpan>,
}

/// The observer.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    run: Mutex<Run>,
    recorder: Recorder,
}

/// A stretch of time.
pub(crate) type Time = Range<Instant>;

impl Seen {
    /// The last run, and its timeline.
    pub(crate) fn take(&self) -> (Run, Timeline) {
        let run = std::mem::take(&mut *self.run.lock().expect("no panic inside"));
        let mut recorded = self.recorder.take();
        assert_eq!(recorded.len(), 1, "one run since");
        (run, recorded.remove(0).timeline)
    }

    fn note(&self, note: impl FnOnce(&mut Run)) {
        note(&mut self.run.lock().expect("no panic inside"));
    }
}

impl Run {
    /// What one worker told, the hidden and exposed recompute cut at the ends of windows.
    pub(crate) fn of(&self, worker: (StageId, RankId)) -> Self {
        fn own<T: Clone>(all: &[T], is_own: impl Fn(&T) -> bool) -> Vec<T> {
            all.iter().filter(|one| is_own(one)).cloned().collect()
        }
        Self {
            actions: own(&self.actions, |one| (one.stage, one.rank) == worker),
            recomputes: own(&self.recomputes, |one| (one.stage, one.rank) == worker),
            waits: own(&self.waits, |one| (one.stage, one.rank) == worker),
            sums: own(&self.sums, |one| (one.stage, one.rank) == worker),
            messages: own(&self.messages, |one| (one.to, one.rank) == worker),
        }
    }

    /// Everything that can hide recompute: sums and waits.
    pub(crate) fn windows(&self) -> Vec<(Window, Time)> {
        let sums = self.sums.iter();
        let sums = sums.map(|sum| (sum.window, sum.begin..sum.end));
        let waits = self.waits.iter();
        let waits = waits.map(|wait| (wait.window, wait.begin..wait.end));
        sums.chain(waits).collect()
    }
}

impl Observer for Seen {
    fn run(&self, start: &RunStart) {
        self.recorder.run(start);
        self.note(|run| *run = Run::default());
    }

    fn action(&self, span: &ActionSpan) {
        self.recorder.action(span);
        self.note(|run| run.actions.push(*span));
    }

    fn recompute(&self, span: &RecomputeSpan) {
        self.recorder.recompute(span);
        self.note(|run| run.recomputes.push(span.clone()));
    }

    fn wait(&self, span: &WaitSpan) {
        self.recorder.wait(span);
        self.note(|run| run.waits.push(*span));
    }

    fn sum(&self, span: &SumSpan) {
        self.recorder.sum(span);
        self.note(|run| run.sums.push(*span));
    }

    fn message(&self, span: &MessageSpan) {
        self.recorder.message(span);
        self.note(|run| run.messages.push(*span));
    }
}
