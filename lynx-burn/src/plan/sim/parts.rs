//! What the simulator is told of a stage: times and bytes of its passes.
//!
//! Recompute comes in three kinds. *Exposed*: a [`Part::Recompute`] of the
//! backward. *In a window of the same backward*: beside a collective of it.
//! *[`Ahead`]*: earlier than the backward, beside collectives of forwards
//! and while the stage waits. Whatever a window cannot hold is exposed. Where
//! these numbers come from is the profile's and the planner's business.
//!
//! Bytes come and go with parts, so that the memory curve within a pass is that
//! of its segments: a forward takes what is kept, a backward frees it piece by
//! piece, recompute takes what it makes.

use serde::{Deserialize, Serialize};

use super::window::Window;
use crate::units::{Bytes, Nanos};

/// How a part changes what its stage holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Taken when the part begins.
    #[serde(default)]
    pub takes: Bytes,
    /// Freed when it has ended. What it needs for a moment is both.
    #[serde(default)]
    pub frees: Bytes,
}

impl Change {
    /// Nothing changes.
    pub const NONE: Self = Self {
        takes: Bytes(0),
        frees: Bytes(0),
    };

    /// Taken, to be freed by another part or at the end of the backward.
    pub const fn takes(bytes: Bytes) -> Self {
        Self {
            takes: bytes,
            frees: Bytes(0),
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// A part of a stage's forward or backward of one micro-batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Part {
    /// Computing.
    Compute {
        /// What, for traces.
        label: String,
        /// How long.
        time: Nanos,
        /// Bytes.
        #[serde(default, skip_serializing_if = "Change::is_none")]
        bytes: Change,
    },
    /// A collective, which leaves the stage free to recompute.
    Collective {
        /// The window it opens: F1 or F2 in a forward, B1 or B2 in a backward.
        window: Window,
        /// How long it takes.
        time: Nanos,
        /// Recompute planned beside it, in time it takes alone. In a backward
        /// it is this backward's own, and what does not fit follows the
        /// collective, exposed. In a forward it is the most that is taken from
        /// what the next backward may do [ahead](Ahead).
        #[serde(default)]
        recompute: Nanos,
        /// Work of other kinds that is done beside it already, in time it takes
        /// alone: what the window hosts is less by so much.
        #[serde(default)]
        busy: Nanos,
        /// Bytes; of what is made anew beside it in a backward, above all.
        #[serde(default, skip_serializing_if = "Change::is_none")]
        bytes: Change,
    },
    /// Recompute on the critical path; only in a backward.
    Recompute {
        /// How long.
        time: Nanos,
        /// Bytes.
        #[serde(default, skip_serializing_if = "Change::is_none")]
        bytes: Change,
    },
}

impl Part {
    /// What it changes.
    pub(super) fn bytes(&self) -> Change {
        match self {
            Self::Compute { bytes, .. }
            | Self::Collective { bytes, .. }
            | Self::Recompute { bytes, .. } => *bytes,
        }
    }
}

/// Recompute that may be done before its backward begins: as soon as the
/// micro-batch's own forward is over, but only for the backward that is next in
/// the stage's list. What is not done by then is exposed at its beginning.
///
/// It is taken to be divisible at will; the executor's grain is a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ahead {
    /// How long all of it takes alone. Forward collectives take their share of it.
    pub work: Nanos,
    /// Whether it may be done while the stage's own message leaves.
    #[serde(default)]
    pub send: bool,
    /// Whether it may be done while a message is on its way.
    #[serde(default)]
    pub recv: bool,
    /// Whether it may be done in bubbles.
    #[serde(default)]
    pub bubble: bool,
    /// What it makes: there from its beginning, freed by parts of the backward.
    #[serde(default)]
    pub bytes: Bytes,
}

impl Ahead {
    /// Whether waits of this kind may be used.
    pub(super) fn uses(&self, window: Window) -> bool {
        match window {
            Window::Send => self.send,
            Window::Recv => self.recv,
            Window::Bubble => self.bubble,
            Window::F1 | Window::F2 | Window::B1 | Window::B2 => false,
        }
    }
}

/// The last backwards of a step, where they differ from the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoolDown {
    /// How many of the stage's backwards, counted from its last.
    pub backwards: usize,
    /// One of them, part after part.
    pub backward: Vec<Part>,
    /// Where it is done in two, the first part of one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<Part>>,
    /// Recompute that may be done before it.
    #[serde(default)]
    pub ahead: Ahead,
}

/// A backward that is done in two, see
/// [`Action::BackwardInput`](crate::plan::schedule::Action::BackwardInput).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// What the stage before waits for, part after part. All recompute of the
    /// backward belongs here.
    pub input: Vec<Part>,
    /// The gradients of the weights, part after part.
    pub weight: Vec<Part>,
}

/// What one chunk of a stage costs; where a stage holds one, the whole stage.
///
/// What a micro-batch has taken and not given back by the end of its backward,
/// of its second part where it has two (of its forward, in a schedule that only
/// runs forward), is freed then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageCosts {
    /// A forward of one micro-batch, part after part.
    pub forward: Vec<Part>,
    /// A backward of one micro-batch, part after part.
    pub backward: Vec<Part>,
    /// The same backward in two parts, for schedules that split it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Recompute that may be done before the backward.
    #[serde(default)]
    pub ahead: Ahead,
    /// The cool-down, where recompute goes to other places than before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cool_down: Option<CoolDown>,
    /// Weights, gradients, optimizer state: always there.
    #[serde(default)]
    pub fixed: Bytes,
    /// How long it takes to sum the gradients of its weights over replicas, in
    /// schedules that do so.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub reduction: Nanos,
}

// The signature is serde's.
fn is_nothing(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

impl StageCosts {
    /// A stage without collectives and recompute, that needs no memory.
    pub fn plain(forward: Nanos, backward: Nanos) -> Self {
        Self {
            forward: compute("forward", forward),
            backward: compute("backward", backward),
            ..Self::default()
        }
    }

    /// The same with a backward that can also be done in two.
    pub fn plain_split(forward: Nanos, input: Nanos, weight: Nanos) -> Self {
        Self {
            split: Some(Split {
                input: compute("input", input),
                weight: compute("weight", weight),
            }),
            ..Self::plain(forward, input.saturating_add(weight))
        }
    }
}

fn compute(label: &str, time: Nanos) -> Vec<Part> {
    vec![Part::Compute {
        label: label.to_owned(),
        time,
        bytes: Change::NONE,
    }]
}
