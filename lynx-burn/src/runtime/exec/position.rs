//! Where a worker is, for whoever has to say what went wrong.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::ids::{MicroBatchId, SegmentId};
use crate::plan::schedule::Action;

/// What is being done to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Its first forward.
    Forward,
    /// Its forward again.
    Recompute,
    /// Its backward.
    Backward,
    /// The update of its parameters.
    Update,
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Recompute => "recompute",
            Self::Backward => "backward",
            Self::Update => "update",
        })
    }
}

/// A place in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The schedule's action, if one was under way.
    pub action: Option<Action>,
    /// The micro-batch.
    pub micro_batch: Option<MicroBatchId>,
    /// The segment, if the worker was inside one. In a backward over several segments that share a
    /// tape, the last of them.
    pub segment: Option<SegmentId>,
    /// What was done to it.
    pub pass: Option<Pass>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut empty = true;
        let mut separate = |f: &mut fmt::Formatter<'_>| {
            let first = std::mem::replace(&mut empty, false);
            f.write_str(if first { "" } else { ", " })
        };
        if let Some(micro_batch) = self.micro_batch {
            separate(f)?;
            write!(f, "{micro_batch}")?;
        }
        if let Some(segment) = self.segment {
            separate(f)?;
            write!(f, "{segment}")?;
        }
        if let Some(action) = self.action {
            separate(f)?;
            write!(f, "action {action}")?;
        }
        if let Some(pass) = self.pass {
            separate(f)?;
            write!(f, "{pass}")?;
        }
        if empty {
            f.write_str("between actions")?;
        }
        Ok(())
    }
}

/// One worker's place, readable from outside.
#[derive(Debug)]
pub(crate) struct Position(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    place: Place,
    activity: Activity,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Has no job.
    Idle,
    /// Computes, or waits for what will come at a known instant.
    Busy,
    /// Waits for a neighbour.
    Waiting,
}

impl Position {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            place: Place::default(),
            activity: Activity::Idle,
            since: Instant::now(),
        }))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.since = Instant::now();
    }

    pub(crate) fn begin(&self) {
        self.change(|state| {
            state.place = Place::default();
            state.activity = Activity::Busy;
        });
    }

    pub(crate) fn end(&self) {
        self.change(|state| state.activity = Activity::Idle);
    }

    pub(crate) fn action(&self, action: Action, activity: Activity) {
        self.change(|state| {
            state.place = Place {
                action: Some(action),
                micro_batch: Some(action.micro_batch()),
                segment: None,
                pass: None,
            };
            state.activity = activity;
        });
    }

    /// The worker waits for what is there at `instant`; it counts as busy since then.
    pub(crate) fn expects(&self, instant: Instant) {
        self.change(|state| state.activity = Activity::Busy);
        self.lock().since = instant;
    }

    /// The worker waits for a neighbour.
    pub(crate) fn waits(&self) {
        self.change(|state| state.activity = Activity::Waiting);
    }

    /// The worker computes where it would wait; returns its place.
    pub(crate) fn works(&self) -> Place {
        self.change(|state| state.activity = Activity::Busy);
        self.place()
    }

    /// The worker waits again, at a place where it was before.
    pub(crate) fn goes_back_to(&self, place: Place) {
        self.change(|state| {
            state.place = place;
            state.activity = Activity::Waiting;
        });
    }

    /// The worker computes again, at a place where it was before.
    pub(crate) fn resumes(&self, place: Place) {
        self.change(|state| {
            state.place = place;
            state.activity = Activity::Busy;
        });
    }

    pub(crate) fn at(&self, micro_batch: MicroBatchId, segment: usize, pass: Pass) {
        self.change(|state| {
            state.place.micro_batch = Some(micro_batch);
            state.place.segment = Some(SegmentId(segment));
            state.place.pass = Some(pass);
        });
    }

    pub(crate) fn updating(&self) {
        self.change(|state| {
            state.place = Place {
                pass: Some(Pass::Update),
                ..Place::default()
            };
        });
    }

    pub(crate) fn place(&self) -> Place {
        self.read().place
    }

    /// What the worker does and for how long it has.
    pub(crate) fn activity(&self) -> (Activity, Duration) {
        let state = self.read();
        (state.activity, state.since.elapsed())
    }

    fn read(&self) -> State {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The lock is held for an assignment: a poisoned one is as good as new.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
