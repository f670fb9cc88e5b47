//! What a planner is told about one stage.
//!
//! One solve concerns the layers of one kind on one stage: what a segment of such a layer costs,
//! how many layers and micro-batches there are, which idle time can host recompute, and how many
//! bytes there are. Everything that is not a choice is a number here, so that a planner needs
//! neither a profile nor a cluster; `setup` makes problems from those. What a choice costs is
//! defined in `evaluate`. After the idea of Lynx; the formulation is ours.

use serde::{Deserialize, Serialize};

use super::plan_error::ProblemError;
use crate::plan::cluster::Window;
use crate::units::{Bytes, Nanos};

/// One segment of a layer, for one micro-batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentCost {
    /// What it is called in tables.
    pub name: String,
    /// The forward, without the collective after it.
    pub forward: Nanos,
    /// Making the tape anew.
    pub recompute: Nanos,
    /// What it holds while its tape is there.
    pub tape: Bytes,
    /// What it holds while its tape is not there, unless its input is made anew.
    pub kept_input: Bytes,
    /// What it holds while its tape is not there, in any case; the tape has it too.
    #[serde(default)]
    pub notes: Bytes,
    /// What it needs for a moment.
    pub workspace: Bytes,
    /// How long the collectives after the forward take; `None` where there are none. The input of
    /// the next segment is never made anew across a collective.
    pub collective: Option<Nanos>,
}

impl SegmentCost {
    /// What is made anew where its input is.
    pub(in crate::plan) fn remade(&self) -> u64 {
        self.tape.0.saturating_sub(self.notes.0)
    }
}

/// How much recompute the windows of a stage can host: contention times what is idle. `None`
/// where there is no such window or it is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Of one layer, forward: the collectives of the first half.
    pub f1: Option<Nanos>,
    /// Of one layer, forward: the collectives of the second half.
    pub f2: Option<Nanos>,
    /// Of one layer, backward: the collectives between its second half and its first.
    pub b1: Option<Nanos>,
    /// Of one layer, backward: the collectives after its first half.
    pub b2: Option<Nanos>,
    /// Of one micro-batch: a message leaves, and a later backward has its forward behind it.
    pub send: Option<Nanos>,
    /// Of one micro-batch: the gradient arrives that its backward waits for.
    pub recv: Option<Nanos>,
    /// Before one backward of the cool-down.
    pub bubble: Option<Nanos>,
    /// Before the backward of the stage's last layer: the collectives of the head. Zero where
    /// backward windows are switched off.
    #[serde(default)]
    pub entry: Nanos,
}

/// The segments before the first layer of a stage or after its last. They are always retained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// What a micro-batch in flight holds of them.
    pub tape: Bytes,
    /// What they need for a moment.
    pub workspace: Bytes,
}

/// What is to be decided: which segments of a stage's layers are recomputed, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageProblem {
    /// The stage, for messages.
    pub stage: usize,
    /// The number of layers, all of one kind.
    pub layers: usize,
    /// The segments of a layer, from its input.
    pub segments: Vec<SegmentCost>,
    /// The first segment of the second half of a layer (a transformer's MLP); the number of
    /// segments where a layer is in one piece.
    pub split: usize,
    /// The micro-batches in flight when most are: `min(m, p - s)` in 1F1B.
    pub in_flight: u64,
    /// The backwards of a step before which the stage runs a forward of another micro-batch, or
    /// its own if it has no warm-up.
    pub steady: u64,
    /// The backwards of a step that are left after the last forward: `min(m, p - 1 - s)`.
    pub cool_down: u64,
    /// What can host recompute.
    pub windows: Windows,
    /// One forward of the stage with collectives and ends, without transfers.
    pub forward: Nanos,
    /// One backward of the stage with collectives and ends, without transfers or recompute.
    pub backward: Nanos,
    /// What is there all the time: weights, gradients, the optimizer's state.
    pub fixed: Bytes,
    /// The embedding's share, where the stage has it.
    pub before: Ends,
    /// The head's share, where the stage has it.
    pub after: Ends,
    /// What must not be exceeded.
    pub budget: Bytes,
}

impl Windows {
    /// What a window can host; `None` where it cannot be used.
    pub fn capacity(&self, window: Window) -> Option<Nanos> {
        match window {
            Window::F1 => self.f1,
            Window::F2 => self.f2,
            Window::B1 => self.b1,
            Window::B2 => self.b2,
            Window::Send => self.send,
            Window::Recv => self.recv,
            Window::Bubble => self.bubble,
        }
    }

    /// The same without the windows that `keep` refuses.
    pub fn only(&self, keep: impl Fn(Window) -> bool) -> Self {
        let kept = |window| self.capacity(window).filter(|_| keep(window));
        Self {
            f1: kept(Window::F1),
            f2: kept(Window::F2),
            b1: kept(Window::B1),
            b2: kept(Window::B2),
            send: kept(Window::Send),
            recv: kept(Window::Recv),
            bubble: kept(Window::Bubble),
            entry: if keep(Window::B2) {
                self.entry
            } else {
                Nanos::ZERO
            },
        }
    }
}

impl StageProblem {
    /// The most nanoseconds or bytes of one segment.
    pub const MOST: u64 = 1 << 44;
    /// The most layers, and the most micro-batches.
    pub const MOST_COUNT: u64 = 1 << 20;
    /// The most segments of a layer.
    pub const MOST_SEGMENTS: usize = 32;
    /// The most nanoseconds or bytes of a whole stage and step: sums stay below 2^63.
    pub const MOST_TOTAL: u64 = 1 << 60;

    /// The micro-batches of a step.
    pub fn micro_batches(&self) -> u64 {
        self.steady.saturating_add(self.cool_down)
    }

    /// Whether a window can host anything: the forward of what is to be recomputed must lie
    /// before it. Without a warm-up that is so for windows of the same backward only.
    pub fn usable(&self, window: Window) -> bool {
        let possible = match window {
            Window::F1 | Window::F2 => self.steady > 0 && self.cool_down > 0,
            Window::Send | Window::Recv | Window::Bubble => self.cool_down > 0,
            Window::B1 | Window::B2 => true,
        };
        possible && self.windows.capacity(window).is_some()
    }

    /// The same with another budget.
    pub fn with_budget(&self, budget: Bytes) -> Self {
        Self {
            budget,
            ..self.clone()
        }
    }

    /// The same without any window.
    pub fn without_windows(&self) -> Self {
        Self {
            windows: Windows::default(),
            ..self.clone()
        }
    }

    /// Refuses empty and impossible stages, and figures whose sums could overflow 64 bits.
    pub fn validate(&self) -> Result<(), ProblemError> {
        let stage = self.stage;
        let within = |what, value: u64, least: u64, most: u64| {
            let refused = ProblemError::OutOfRange {
                stage,
                what,
                value,
                least,
                most,
            };
            (least..=most).contains(&value).then_some(()).ok_or(refused)
        };
        let count = self.segments.len() as u64;
        within("layers", self.layers as u64, 1, Self::MOST_COUNT)?;
        within("segments", count, 1, Self::MOST_SEGMENTS as u64)?;
        within("split", self.split as u64, 1, count)?;
        within("in flight", self.in_flight, 1, Self::MOST_COUNT)?;
        within("micro-batches", self.micro_batches(), 1, Self::MOST_COUNT)?;
        for segment in &self.segments {
            within("forward", segment.forward.0, 0, Self::MOST)?;
            within("recompute", segment.recompute.0, 0, Self::MOST)?;
            within("tape", segment.tape.0, 0, Self::MOST)?;
            within("kept input", segment.kept_input.0, 0, Self::MOST)?;
            within("notes", segment.notes.0, 0, Self::MOST)?;
            within("workspace", segment.workspace.0, 0, Self::MOST)?;
            let collective = segment.collective.unwrap_or_default();
            within("collective", collective.0, 0, Self::MOST)?;
        }
        within("fixed", self.fixed.0, 0, Self::MOST_TOTAL)?;
        for ends in [self.before, self.after] {
            within("tape outside layers", ends.tape.0, 0, Self::MOST)?;
            within("workspace outside layers", ends.workspace.0, 0, Self::MOST)?;
        }
        let (time, bytes) = self.totals();
        within("time of a step", time, 0, Self::MOST_TOTAL)?;
        within("bytes of all micro-batches", bytes, 0, Self::MOST_TOTAL)
    }

    /// More than all recompute of a step takes, and than all activations occupy.
    fn totals(&self) -> (u64, u64) {
        let (mut time, mut bytes) = (0_u128, 0_u128);
        for segment in &self.segments {
            let collective = segment.collective.unwrap_or_default();
            let times = [segment.forward, segment.recompute, collective];
            time += times.iter().map(|time| u128::from(time.0)).sum::<u128>();
            let kept = [segment.tape, segment.kept_input, segment.notes];
            bytes += kept.iter().map(|bytes| u128::from(bytes.0)).sum::<u128>();
        }
        let layers = self.layers as u128;
        let ends = u128::from(self.before.tape.0) + u128::from(self.after.tape.0);
        let total =
            |all: u128, count: u64| u64::try_from(all * u128::from(count)).unwrap_or(u64::MAX);
        (
            total(time * layers, self.micro_batches()),
            total(bytes * layers + ends, self.in_flight.saturating_add(1)),
        )
    }
}
