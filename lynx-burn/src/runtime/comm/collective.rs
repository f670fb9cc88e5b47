//! One worker's end of a group that sums: of the ranks that share a stage, or of the replicas of one.
//!
//! Like a link, a group says what is on its way and until when, and waits for nothing by itself:
//! who starts a sum can do something else until it is there. Ranks start the same sums in the same
//! order; nothing else tells one sum from another.

use std::time::Instant;

use super::link::{Gone, Way};
use crate::runtime::gradient::Gradient;

/// Tensors of any rank: parts of sums, or sums.
pub(crate) type Parts = Vec<Gradient>;

/// Why there is no sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CollectiveError {
    /// Another rank is gone, or everybody was told to stop.
    Gone,
    /// The ranks have handed over tensors of different shapes.
    Mismatch {
        /// Of the first rank.
        expected: Vec<Vec<usize>>,
        /// Of this one or another.
        found: Vec<Vec<usize>>,
    },
}

impl From<Gone> for CollectiveError {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Sums tensors over the ranks of a stage, or over replicas, each of which is then called a rank.
pub(crate) trait Collective: Send {
    /// Hands over this rank's parts. The sum before must have been taken.
    fn start(&mut self, parts: Parts) -> Result<(), CollectiveError>;

    /// The way of the sum, once all ranks have come; it may be taken when it has arrived.
    fn poll(&mut self) -> Result<Option<Way>, CollectiveError>;

    /// Blocks until there may be news, but not beyond `until`.
    fn wait(&self, until: Option<Instant>) -> Result<(), CollectiveError>;

    /// Takes the sums, which have arrived.
    fn take(&mut self) -> Result<Parts, CollectiveError>;
}

/// A worker's ends of the groups that it is in.
#[derive(Default)]
pub(crate) struct Groups {
    /// The ranks of its stage, if there are several.
    pub(crate) ranks: Option<Box<dyn Collective>>,
    /// The same rank of the same stage of all replicas, if there are several.
    pub(crate) replicas: Option<Box<dyn Collective>>,
}

/// Bytes of all tensors.
pub(crate) fn bytes(parts: &Parts) -> u64 {
    parts.iter().map(Gradient::bytes).sum()
}
