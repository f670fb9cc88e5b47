//! Which segments keep their tape and which are recomputed.
//!
//! A [`Policy`] is the short thing a person writes or a planner picks; resolving
//! it against a chain and its partition gives every stage the [`Run`]s it obeys.
//! A policy says *what* is recomputed, not *when*: hiding recompute in windows
//! is the planner's business.

mod resolve;
mod text;

use std::num::NonZeroUsize;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::ids::{SegmentId, StageId};
pub use text::ParsePolicyError;

/// What happens to the tape of one segment between forward and backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// The tape is kept.
    Retain,
    /// The tape is dropped and rebuilt by running the forward again. If the segment before it in
    /// its layer is recomputed too, and no collective lies between them, its input is rebuilt with
    /// that one; otherwise its input is kept.
    Recompute,
    /// Rebuilt from an input of its own, which is kept, whatever happens to the segment before.
    Restart,
    /// Rebuilt together with the segment before it, which must be recomputed too, across layers and
    /// collectives: those between them are done once more. The way of Megatron-LM.
    Replay,
}

/// A rule that makes a [`Choice`] for every segment of a chain.
///
/// Files and command lines use the same text for it, see [`Policy::from_str`].
///
/// [`Policy::from_str`]: std::str::FromStr::from_str
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Policy {
    /// Every tape is kept.
    RetainAll,
    /// Every segment is recomputed. The segments of one layer form one group, or as many as
    /// collectives make of it; a segment outside layers is a group of its own.
    RecomputeAll,
    /// The layers whose index in the whole chain is a multiple of this are
    /// recomputed; other layers and segments outside layers are retained.
    EveryKth(NonZeroUsize),
    /// Every segment is recomputed, and this many layers, counted from the
    /// stage's first, form one group: few inputs are kept, but a whole group's
    /// tapes stand at once. Collectives inside a group are done once more. A segment outside layers
    /// is a group of its own.
    Uniform(NonZeroUsize),
    /// Segments with one of these names are recomputed.
    Selective(Vec<String>),
    /// One list per stage with one choice per segment of that stage.
    ByHand(Vec<Vec<Choice>>),
}

/// A piece of a stage that is treated as one; indices are those of the whole chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Run {
    /// This segment keeps its tape.
    Retain(usize),
    /// One group: only the input of its first segment is kept, and recomputing
    /// it rebuilds the tapes of all its segments one after the other.
    Recompute(Range<usize>),
}

/// A policy as one stage obeys it: runs that cover its segments once, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StagePolicy {
    runs: Vec<Run>,
}

/// A policy that does not fit the chain or the partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A segment to recompute does not exist; most likely a misspelt name.
    #[error("no segment is named {name:?}; the chain has {known:?}")]
    UnknownSegment {
        /// The name that matches nothing.
        name: String,
        /// Every name of the chain once, in order of first appearance.
        known: Vec<String>,
    },
    /// A choice by hand is for another number of stages.
    #[error("choices for {given} stages are given, but the partition has {stages}")]
    StageCount {
        /// The stages that have choices.
        given: usize,
        /// The stages of the partition.
        stages: usize,
    },
    /// A choice by hand is for a stage of another size.
    #[error("{given} choices are given for {stage}, which has {segments} segments")]
    SegmentCount {
        /// The stage at fault.
        stage: StageId,
        /// The number of choices it has.
        given: usize,
        /// The number of its segments.
        segments: usize,
    },
    /// A replay needs something to be replayed with.
    #[error("{segment} is to be replayed with the one before it, which is not recomputed there")]
    NothingToReplay {
        /// The segment at fault.
        segment: SegmentId,
    },
    /// The partition was made for another chain.
    #[error("the partition is of a chain of {partition} segments, but this one has {layout}")]
    OtherChain {
        /// The segments that the partition covers.
        partition: usize,
        /// The segments of the chain.
        layout: usize,
    },
}

impl Run {
    /// The segments of this run.
    pub fn range(&self) -> Range<usize> {
        match self {
            Self::Retain(segment) => *segment..*segment + 1,
            Self::Recompute(group) => group.clone(),
        }
    }
}

impl StagePolicy {
    /// These runs, which cover a stage's segments once, in order.
    #[cfg(feature = "runtime")]
    pub(crate) fn of(runs: Vec<Run>) -> Self {
        Self { runs }
    }

    /// The runs, from the input of the stage to its output.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The segments that are recomputed, ascending.
    pub fn recomputed(&self) -> impl Iterator<Item = usize> {
        self.runs.iter().flat_map(|run| match run {
            Run::Retain(_) => 0..0,
            Run::Recompute(group) => group.clone(),
        })
    }

    /// The choice for `segment` of the chain; `None` when it is on another stage.
    pub fn choice(&self, segment: usize) -> Option<Choice> {
        let run = self.runs.iter().find(|run| run.range().contains(&segment));
        run.map(|run| match run {
            Run::Retain(_) => Choice::Retain,
            Run::Recompute(_) => Choice::Recompute,
        })
    }
}
