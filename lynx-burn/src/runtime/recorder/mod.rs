//! Turns runs into timelines, the form in which the simulator tells its own.
//!
//! So a real step can be drawn and traced like a simulated one, and laid beside it. What a stage
//! does between actions (microseconds, for mailboxes and observers) is counted to what comes next,
//! because a timeline has no gaps. Optimizer updates are not part of it.

mod lanes;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use self::lanes::{Message, StageEvents};
use super::exec::observer::{
    ActionSpan, MessageSpan, Observer, RecomputeSpan, RunStart, SumSpan, WaitSpan,
};
use crate::ids::{RankId, ReplicaId, StageId};
use crate::plan::sim::timeline::{Cargo, ChannelTrack, Timeline};
use crate::units::Nanos;

/// An [`Observer`] that keeps every run as a [`Timeline`].
///
/// It keeps some hundred bytes for each action until it is asked.
///
/// ```
/// use std::sync::Arc;
/// use lynx_burn::{Recorder, TrainerBuilder};
///
/// let recorder = Arc::new(Recorder::new());
/// let builder = TrainerBuilder::new().stages(2).observer(recorder.clone());
/// // ... train, take a step ...
/// for run in recorder.take() {
///     let picture = lynx_burn::plan::sim::svg::draw(&run.timeline, &Default::default());
///     println!("step {}: {} bytes of SVG", run.start.step, picture.len());
/// }
/// ```
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Run>>);

/// One run of a schedule, as it happened.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Which run it was.
    pub start: RunStart,
    /// What every stage and every link did; instants count from the first action. Of several
    /// replicas or ranks, the first's.
    pub timeline: Timeline,
}

#[derive(Debug)]
struct Run {
    start: RunStart,
    stages: Vec<StageEvents>,
    messages: Vec<Message>,
}

impl Recorder {
    /// Nothing is recorded yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The runs since this was last asked, oldest first. To be asked between steps: of a run that
    /// is not over, what has happened so far.
    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut *self.lock())
            .into_iter()
            .map(Run::finish)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Run>> {
        // Whoever panicked left a run that is complete up to there.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replicas do alike, and ranks of a stage; a timeline shows the first.
    fn note(
        &self,
        (replica, stage, rank): (ReplicaId, StageId, RankId),
        note: impl FnOnce(&mut StageEvents),
    ) {
        if (replica, rank) != (ReplicaId(0), RankId(0)) {
            return;
        }
        if let Some(run) = self.lock().last_mut()
            && let Some(events) = run.stages.get_mut(stage.0)
        {
            note(events);
        }
    }
}

impl Observer for Recorder {
    fn run(&self, start: &RunStart) {
        self.lock().push(Run {
            start: *start,
            stages: vec![StageEvents::default(); start.stages],
            messages: Vec::new(),
        });
    }

    fn action(&self, span: &ActionSpan) {
        self.note((span.replica, span.stage, span.rank), |events| {
            events.action(span)
        });
    }

    fn recompute(&self, span: &RecomputeSpan) {
        self.note((span.replica, span.stage, span.rank), |events| {
            events.recompute(span)
        });
    }

    fn wait(&self, span: &WaitSpan) {
        self.note((span.replica, span.stage, span.rank), |events| {
            events.wait(span)
        });
    }

    fn sum(&self, span: &SumSpan) {
        self.note((span.replica, span.stage, span.rank), |events| {
            events.sum(span)
        });
    }

    fn message(&self, span: &MessageSpan) {
        if (span.replica, span.rank) != (ReplicaId(0), RankId(0)) {
            return;
        }
        if let Some(run) = self.lock().last_mut() {
            run.messages.push(Message(*span));
        }
    }
}

impl Run {
    fn finish(self) -> Recorded {
        let begins = self.stages.iter().filter_map(StageEvents::begin);
        let zero = begins.min().unwrap_or_else(Instant::now);
        let since = move |at: Instant| Nanos::from(at.saturating_duration_since(zero));
        let stages = self.stages.into_iter().map(|events| events.track(since));
        let channels = channels(self.start.stages).map(|(from, to, cargo)| {
            let own = self.messages.iter();
            let own = own.filter(|Message(m)| (m.from, m.to, m.cargo) == (from, to, cargo));
            let messages = own.map(|message| message.at(since));
            ChannelTrack {
                from,
                to,
                cargo,
                messages: messages.collect(),
            }
        });
        Recorded {
            start: self.start,
            timeline: Timeline {
                stages: stages.collect(),
                channels: channels.collect(),
                labels: Vec::new(),
            },
        }
    }
}

/// Two for each pair of neighbours: boundaries down, gradients up.
fn channels(stages: usize) -> impl Iterator<Item = (StageId, StageId, Cargo)> {
    (1..stages).flat_map(|right| {
        let (left, right) = (StageId(right - 1), StageId(right));
        [
            (left, right, Cargo::Boundary),
            (right, left, Cargo::Gradient),
        ]
    })
}
