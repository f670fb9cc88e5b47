//! What one micro-batch keeps on a stage between its forward and its backward.

use std::ops::Range;

use crate::runtime::boundary::Signature;
use crate::runtime::chain::Chain;
use crate::runtime::parcel::Parcel;
use crate::runtime::tape::Tape;

/// What is kept for one run of segments.
pub(super) enum Held<C: Chain> {
    /// A retained piece's tape.
    Tape { piece: usize, tape: Tape },
    /// The first input of a group of pieces.
    Input {
        group: Range<usize>,
        input: Parcel<C::Boundary>,
        /// What the group's first forward gave, to compare its recomputation with.
        output: Signature,
    },
    /// Nothing below needs a gradient.
    Nothing,
}

/// One micro-batch on its way through a stage.
pub(super) struct Flight<C: Chain> {
    arrived: i64,
    /// In run order, with the bytes that each run keeps.
    held: Vec<(Held<C>, i64)>,
    target: Option<C::Target>,
}

impl<C: Chain> Flight<C> {
    pub(super) fn new(arrived: i64) -> Self {
        Self {
            arrived,
            held: Vec::new(),
            target: None,
        }
    }

    /// Bytes of the boundary that came from outside.
    pub(super) fn arrived(&self) -> i64 {
        self.arrived
    }

    pub(super) fn push(&mut self, held: Held<C>, bytes: i64) {
        self.held.push((held, bytes));
    }

    /// Takes `change` (negative) off the last run's bytes: its output went.
    pub(super) fn release_from_last(&mut self, change: i64) {
        match self.held.last_mut() {
            Some((_, bytes)) => *bytes += change,
            None => self.arrived += change,
        }
    }

    pub(super) fn pop(&mut self) -> Option<(Held<C>, i64)> {
        self.held.pop()
    }

    pub(super) fn set_target(&mut self, target: Option<C::Target>) {
        self.target = target;
    }

    pub(super) fn take_target(&mut self) -> Option<C::Target> {
        self.target.take()
    }
}
