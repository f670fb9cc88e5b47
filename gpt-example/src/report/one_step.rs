//! Records a step of a run now and then, for its picture.

use std::sync::atomic::{AtomicBool, Ordering};

use lynx_burn::plan::sim::timeline::Timeline;
use lynx_burn::{
    ActionSpan, MessageSpan, Observer, RecomputeSpan, Recorder, RunStart, SumSpan, WaitSpan,
};

/// An observer that looks only when it is told to: a long run would fill the memory otherwise.
#[derive(Debug, Default)]
pub struct OneStep {
    looks: AtomicBool,
    recorder: Recorder,
}

impl OneStep {
    /// Records what begins from now on.
    pub fn look(&self) {
        self.looks.store(true, Ordering::Relaxed);
    }

    /// Stops, and returns the last run recorded.
    pub fn take(&self) -> Option<Timeline> {
        self.looks.store(false, Ordering::Relaxed);
        self.recorder.take().pop().map(|run| run.timeline)
    }

    fn recorder(&self) -> Option<&Recorder> {
        let looks = self.looks.load(Ordering::Relaxed);
        looks.then_some(&self.recorder)
    }
}

impl Observer for OneStep {
    fn run(&self, start: &RunStart) {
        if let Some(recorder) = self.recorder() {
            recorder.run(start);
        }
    }

    fn action(&self, span: &ActionSpan) {
        if let Some(recorder) = self.recorder() {
            recorder.action(span);
        }
    }

    fn recompute(&self, span: &RecomputeSpan) {
        if let Some(recorder) = self.recorder() {
            recorder.recompute(span);
        }
    }

    fn wait(&self, span: &WaitSpan) {
        if let Some(recorder) = self.recorder() {
            recorder.wait(span);
        }
    }

    fn sum(&self, span: &SumSpan) {
        if let Some(recorder) = self.recorder() {
            recorder.sum(span);
        }
    }

    fn message(&self, span: &MessageSpan) {
        if let Some(recorder) = self.recorder() {
            recorder.message(span);
        }
    }
}
