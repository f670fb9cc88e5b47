//! What the simulator is told: times and bytes of every stage and link.
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

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::window::Window;
use crate::plan::cluster::Contention;
use crate::units::{Bytes, Nanos};

/// The size of an ordinary micro-batch.
pub const ONE: u32 = 1000;

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
    /// Recompute that may be done before it.
    #[serde(default)]
    pub ahead: Ahead,
}

/// What one stage costs.
///
/// What a micro-batch has taken and not given back by the end of its backward
/// (of its forward, in a schedule that only runs forward) is freed then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageCosts {
    /// A forward of one micro-batch, part after part.
    pub forward: Vec<Part>,
    /// A backward of one micro-batch, part after part.
    pub backward: Vec<Part>,
    /// Recompute that may be done before the backward.
    #[serde(default)]
    pub ahead: Ahead,
    /// The cool-down, where recompute goes to other places than before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cool_down: Option<CoolDown>,
    /// Weights, gradients, optimizer state: always there.
    #[serde(default)]
    pub fixed: Bytes,
}

impl StageCosts {
    /// A stage without collectives and recompute, that needs no memory.
    pub fn plain(forward: Nanos, backward: Nanos) -> Self {
        let compute = |label: &str, time| {
            let label = label.to_owned();
            vec![Part::Compute {
                label,
                time,
                bytes: Change::NONE,
            }]
        };
        Self {
            forward: compute("forward", forward),
            backward: compute("backward", backward),
            ..Self::default()
        }
    }
}

/// One direction of a link. It carries one message at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelCosts {
    /// From the end of sending to the arrival; does not occupy the link.
    pub latency: Nanos,
    /// The bytes of one message.
    pub bytes: Bytes,
    /// Bandwidth; without one, bytes cost no time.
    #[serde(default)]
    pub bytes_per_second: Option<NonZeroU64>,
}

impl ChannelCosts {
    /// How long these bytes occupy the link, rounded up.
    pub(super) fn wire(&self, bytes: u64) -> u64 {
        let Some(bandwidth) = self.bytes_per_second else {
            return 0;
        };
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bandwidth.get()));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Both directions between two neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkCosts {
    /// Boundaries, down the pipeline.
    pub forward: ChannelCosts,
    /// Gradients, up the pipeline.
    pub backward: ChannelCosts,
}

/// All that a schedule is timed with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// One for each stage.
    pub stages: Vec<StageCosts>,
    /// One for each pair of neighbours: `links[s]` joins stages `s` and `s + 1`.
    pub links: Vec<LinkCosts>,
    /// How many messages each channel holds from being sent until its receive
    /// ends; 0: a send waits until its receive has begun.
    pub mailbox_capacity: usize,
    /// Whether a stage stands still until its message has left.
    #[serde(default)]
    pub blocking_sends: bool,
    /// How much of each window recompute can use. What a window holds is
    /// [`Contention::capacity`]; the rest takes its time where nothing slows it.
    #[serde(default = "all_of_it")]
    pub contention: Contention,
    /// The size of each micro-batch in thousandths of an ordinary one. It scales
    /// every time but latency, and every byte but static ones. Empty: all 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u32>,
}

fn all_of_it() -> Contention {
    Contention::NONE
}

impl Costs {
    /// These stages with links that cost nothing, mailboxes for one message,
    /// windows that can be used whole, and micro-batches of equal size.
    pub fn with_free_links(stages: Vec<StageCosts>) -> Self {
        Self {
            links: vec![LinkCosts::default(); stages.len().saturating_sub(1)],
            stages,
            mailbox_capacity: 1,
            blocking_sends: false,
            contention: Contention::NONE,
            sizes: Vec::new(),
        }
    }

    /// The size of a micro-batch, in thousandths.
    pub(super) fn size(&self, micro_batch: usize) -> u32 {
        self.sizes.get(micro_batch).copied().unwrap_or(ONE)
    }
}

/// `value` for a micro-batch of this size, rounded down.
pub(super) fn scale(value: u64, size: u32) -> u64 {
    if size == ONE {
        return value;
    }
    let scaled = u128::from(value) * u128::from(size) / u128::from(ONE);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
